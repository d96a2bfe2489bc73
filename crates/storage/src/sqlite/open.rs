//! Opening the database.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

use super::lock::FolderLock;
use super::reader::Reader;
use super::schema;
use super::writer::Writer;
use crate::{OpenError, Store, StoredKey};

/// The database's name in its folder.
pub(super) const FILE: &str = "tollgate.db";
const READERS: usize = 2;
/// How long to wait for other programs that look into the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// The embedded database: a folder on a disk of this machine.
pub struct Embedded {
    folder: PathBuf,
    max_bytes: Option<u64>,
    watch: Watch,
}

/// Is told every change of a key, in order.
pub(super) type Watch = Box<dyn Fn(&StoredKey) + Send>;

impl Embedded {
    /// The database in this folder, which is made if need be.
    pub fn at(folder: impl Into<PathBuf>) -> Embedded {
        Embedded { folder: folder.into(), max_bytes: None, watch: Box::new(|_| ()) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the database grow to so many bytes and no further.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Embedded {
        self.max_bytes = Some(bytes);
        self
    }

    /// Calls `watch` with every key that changes, in the order of the changes, once a change is durable and before it is
    /// answered. That is the place to [`apply`](crate::KeySnapshot::apply) it: what the caller is told is then in
    /// force. It must be quick and must not panic, for everybody who writes waits for it.
    #[must_use]
    pub fn watch_keys(mut self, watch: impl Fn(&StoredKey) + Send + 'static) -> Embedded {
        self.watch = Box::new(watch);
        self
    }

    /// Opens it. Blocks while it does, so it belongs to the start of a program.
    ///
    /// # Errors
    ///
    /// If another process has it open, a newer program wrote it, or it cannot be used.
    pub fn open(self) -> Result<Store, OpenError> {
        make_folder(&self.folder).map_err(|why| unwritable(&self.folder, why))?;
        let lock = FolderLock::take(&self.folder)?;
        let file = self.folder.join(FILE);
        make_private(&file).map_err(|why| unwritable(&file, why))?;
        let fault = |why: rusqlite::Error| faulty(&file, &why);

        let mut db = Connection::open(&file).map_err(fault)?;
        prepare(&mut db, &file)?;
        if let Some(bytes) = self.max_bytes {
            limit_size(&db, bytes).map_err(fault)?;
        }
        let readers: Result<Vec<Connection>, _> = (0..READERS).map(|_| read_only(&file)).collect();
        let readers = readers.map_err(fault)?;

        let (store, inbox) = Store::new(READERS);
        let reads = Arc::new(Mutex::new(inbox.reads));
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn(work).map_err(|why| unusable(&self.folder, why))
        };
        for db in readers {
            let reads = Arc::clone(&reads);
            start("storage-reader", Box::new(move || Reader::new(db).run(&reads)))?;
        }
        let writer = Writer::new(db, self.watch);
        start("storage-writer", Box::new(move || writer.run(inbox.writes, lock)))?;
        Ok(store)
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("folder", &self.folder).finish_non_exhaustive()
    }
}

pub(super) fn unusable(path: &Path, why: impl fmt::Display) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), why: why.to_string() }
}

/// Nothing can be written there.
pub(super) fn unwritable(path: &Path, why: impl fmt::Display) -> OpenError {
    unusable(
        path,
        format!(
            "{why}: a gateway starts only where it can write, whatever `storage.on_error` says"
        ),
    )
}

/// What SQLite says of a file: that it is damaged, or that nothing can be written.
fn faulty(file: &Path, why: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
    match why.sqlite_error_code() {
        Some(CannotOpen | DiskFull | ReadOnly | SystemIoFailure) => unwritable(file, why),
        _ => unusable(file, why),
    }
}

/// Makes a folder that only its owner may look into.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a file that only its owner may read. SQLite gives its other files the same rights.
pub(super) fn make_private(file: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(drop)
}

/// Settings, and the newest schema.
fn prepare(db: &mut Connection, file: &Path) -> Result<(), OpenError> {
    let fault = |why: rusqlite::Error| faulty(file, &why);
    db.busy_timeout(PATIENCE).map_err(fault)?;
    let version = schema::version(db).map_err(fault)?;
    let application: i64 =
        db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(fault)?;
    let is_new = version == 0 && is_empty(db).map_err(fault)?;
    if !is_new && application != schema::APPLICATION {
        return Err(OpenError::NotOurs { file: file.to_owned() });
    }
    if version > schema::VERSION {
        let (found, known) = (version, schema::VERSION);
        return Err(OpenError::NewerSchema { file: file.to_owned(), found, known });
    }
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -32768;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(fault)?;
    db.set_prepared_statement_cache_capacity(64);
    if version < schema::VERSION {
        schema::migrate(db, version).map_err(fault)?;
    }
    Ok(())
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn limit_size(db: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let page: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = (bytes / page.unsigned_abs().max(1)).clamp(1, u64::from(u32::MAX) - 2);
    db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}

pub(super) fn read_only(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.busy_timeout(PATIENCE)?;
    db.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096;")?;
    Ok(db)
}
