//! The configuration file, written by the API.
//!
//! The new text is written beside it and takes its place whole, under a name that nobody else has: what people keep in the folder is theirs.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Puts another text in a file's place: whoever reads it sees the old one or the new one, also after a crash. A link stays a link.
pub(crate) fn write_anew(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let folder = file.parent().ok_or(io::ErrorKind::NotFound)?;
    let fresh = hidden_beside(&file)?;
    // It may hold secrets, and has the file's mode only after its owner.
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = (|| {
        let before = fs::metadata(&file)?;
        keep_owner(&new, &before);
        new.set_permissions(before.permissions())?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&fresh, &file)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // Nothing was put in the file's place; what was begun beside it helps nobody.
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// A name in a file's folder that nobody else has.
fn hidden_beside(file: &Path) -> io::Result<PathBuf> {
    let mut drawn = [0; 8];
    getrandom::fill(&mut drawn).map_err(|why| io::Error::other(why.to_string()))?;
    let mut name = OsString::from(".");
    name.push(file.file_name().ok_or(io::ErrorKind::NotFound)?);
    name.push(format!(".{:016x}", u64::from_ne_bytes(drawn)));
    Ok(file.with_file_name(name))
}

/// Whoever may read and write the file is to go on doing so. Who may not give files away can mostly still name the group; where
/// neither is allowed the gateway owns what it has written.
fn keep_owner(new: &File, before: &fs::Metadata) {
    let (user, group) = (Some(before.uid()), Some(before.gid()));
    let _ = fchown(new, user, group).or_else(|_| fchown(new, None, group));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What was written first had the file's name and `.new` behind it, as have copies that people keep.
    #[test]
    fn nothing_else_of_the_folder_is_touched_whether_it_is_written_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let [file, kept] =
            ["tollgate.yaml", "tollgate.yaml.new"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::write(&kept, "mine").unwrap();
        write_anew(&file, "new").unwrap();
        assert_eq!([&file, &kept].map(|path| fs::read_to_string(path).unwrap()), ["new", "mine"]);

        // A file cannot take the place of a folder.
        let [taken, kept_too] = ["folder", "folder.new"].map(|name| folder.path().join(name));
        fs::create_dir(&taken).unwrap();
        fs::write(&kept_too, "mine").unwrap();
        write_anew(&taken, "new").unwrap_err();
        assert_eq!(fs::read_to_string(&kept_too).unwrap(), "mine");
        let all = ["folder", "folder.new", "tollgate.yaml", "tollgate.yaml.new"];
        assert_eq!(names(folder.path()), all);
    }

    #[test]
    fn a_file_keeps_its_mode_and_owner_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["tollgate.yaml", "link.yaml"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give a file away; for everybody else it stays its own.
        let _ = chown(&file, Some(12_345), Some(12_346));
        let whose = || {
            let known = fs::metadata(&file).unwrap();
            (known.uid(), known.gid(), known.mode())
        };
        let before = whose();
        write_anew(&link, "new").unwrap();
        assert_eq!(whose(), before);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
