//! A copy of the whole database as it is at one moment.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::open::{Embedded, FILE, make_private, read_only};
use super::schema;
use crate::{OpenError, StoreError, Unavailable};

impl Embedded {
    /// Copies everything, as it is at one moment, to a new file, whether or not a process has the folder open: nothing is
    /// changed, so none needs to be kept out.
    ///
    /// # Errors
    ///
    /// If there is no database, it is another program's, or the file exists or cannot be written.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let file = self.folder().join(FILE);
        let failed = |why: String| StoreError::Unavailable(Unavailable::Failed(why));
        if !file.exists() {
            return Err(StoreError::NotFound { what: format!("database {}", file.display()) });
        }
        let cannot = |why: rusqlite::Error| failed(format!("{}: {why}", file.display()));
        let db = read_only(&file).map_err(cannot)?;
        let application: i64 =
            db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(cannot)?;
        if application != schema::APPLICATION {
            return Err(failed(OpenError::NotOurs { file: file.clone() }.to_string()));
        }
        write(&db, to)
    }
}

/// Copies everything to a file that must not exist. It appears under its name only when it is whole and durable.
///
/// The copy is one step: it reads from one moment of the log while the writer goes on. Smaller steps would begin anew whenever
/// something is written between them.
pub(super) fn write(db: &Connection, file: &Path) -> Result<(), StoreError> {
    let failed = |why: String| {
        StoreError::Unavailable(Unavailable::Failed(format!("backup to {}: {why}", file.display())))
    };
    if file.exists() {
        return Err(StoreError::Exists { what: format!("file {}", file.display()) });
    }
    let mut name = file.file_name().ok_or_else(|| failed("name a file".to_owned()))?.to_owned();
    name.push(".partial");
    let partial = file.with_file_name(name);
    let done = make_private(&partial)
        .map_err(|why| failed(why.to_string()))
        .and_then(|()| copy(db, &partial).map_err(|why| failed(why.to_string())))
        .and_then(|()| publish(&partial, file).map_err(|why| failed(why.to_string())));
    if done.is_err() {
        drop(std::fs::remove_file(&partial));
    }
    done
}

fn copy(db: &Connection, to: &Path) -> rusqlite::Result<()> {
    let mut target = Connection::open(to)?;
    {
        let backup = Backup::new(db, &mut target)?;
        let step = backup.step(-1)?;
        if step != StepResult::Done {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, Some(format!("{step:?}"))));
        }
    }
    // One file, without a log beside it; whoever opens it as a database in use turns the log on again.
    target.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    target.close().map_err(|(_, why)| why)
}

fn publish(partial: &Path, file: &Path) -> std::io::Result<()> {
    File::open(partial)?.sync_all()?;
    std::fs::rename(partial, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.map_or_else(|| PathBuf::from("."), Path::to_owned))?.sync_all()
}
