//! The profile's file. Cargo knows a flag by its text: were the file always called the same, what is not ours would never be built by
//! another profile than the first. So its name has a digest of what is in it.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

/// The one in this folder.
pub(super) fn found_in(folder: &Path) -> Option<PathBuf> {
    all_in(folder).ok()?.into_iter().find(|path| is_named(path))
}

/// Gives a profile that was just made its name, and takes away those that were there before.
pub(super) fn keep(made: &Path) -> io::Result<PathBuf> {
    let mut digest = DefaultHasher::new();
    digest.write(&fs::read(made)?);
    let named = made.with_file_name(format!("{BEGIN}{:016x}.{END}", digest.finish()));
    for other in all_in(made.parent().unwrap_or(made))? {
        if other != made {
            fs::remove_file(other)?;
        }
    }
    fs::rename(made, &named)?;
    Ok(named)
}

const BEGIN: &str = "tollgate-";
const END: &str = "profdata";

fn all_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.push(entry?.path());
    }
    all.retain(|path| path.extension().is_some_and(|end| end == END));
    Ok(all)
}

fn is_named(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(BEGIN))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn another_profile_has_another_name_and_is_the_only_one() {
        let folder = std::env::temp_dir().join(format!("tollgate-profile-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(found_in(&folder), None);
        let made = folder.join("made.profdata");
        let keep = |profile: &str| {
            fs::write(&made, profile).unwrap();
            assert_ne!(found_in(&folder), Some(made.clone()), "one that is not whole is none");
            let kept = keep(&made).unwrap();
            assert_eq!(all_in(&folder).unwrap(), [kept.as_path()]);
            assert_eq!(found_in(&folder).as_ref(), Some(&kept));
            kept
        };
        // As it was called before it had a digest.
        fs::write(folder.join("tollgate.profdata"), "old").unwrap();
        let [one, other, again] = ["one", "other", "one"].map(keep);
        assert_ne!(one, other);
        assert_eq!(one, again);
        fs::remove_dir_all(&folder).unwrap();
    }
}
