//! What can go wrong, told so that a caller can act on it.
//!
//! A conflict is an answer: the caller asked for something that cannot be. [`Unavailable`] is the storage's own trouble,
//! and what `storage.on_error` decides about.

use std::fmt;
use std::path::PathBuf;

use tollgate_policy::KeyId;

use crate::{IdempotentAnswer, Version};

/// Why an operation did nothing. Whatever it is but [`Unavailable::InDoubt`], nothing of the operation has happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such thing.
    NotFound {
        /// Which: `key key_3f…`, `tenant acme`.
        what: String,
    },
    /// There is one already.
    Exists {
        /// Which.
        what: String,
    },
    /// It has changed since it was read.
    Stale {
        /// Which.
        what: String,
        /// Its version now.
        found: Version,
    },
    /// Tenants, plans or configuration have changed since the change was checked against them.
    Outdated,
    /// Keys that are in force belong to it.
    InUse {
        /// Which.
        what: String,
        /// How many keys.
        keys: u64,
    },
    /// The key cannot be rotated: it was already, or it is revoked.
    NotCurrent {
        /// Which key.
        id: KeyId,
        /// What replaced it; nothing if it was revoked.
        replaced_by: Option<KeyId>,
    },
    /// A request with this `Idempotency-Key` has been answered.
    Answered(Box<IdempotentAnswer>),
    /// The cursor is not one that a list answered with.
    BadCursor,
    /// The storage does not work.
    Unavailable(Unavailable),
}

/// Why the storage does not work. Each later operation tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// No room is left on the disk, or below the size that was allowed.
    Full,
    /// It may be read and not written.
    ReadOnly,
    /// What is stored makes no sense.
    Damaged(String),
    /// The system failed.
    Failed(String),
    /// It was told and did not answer in time: the operation is seen through, and may have happened already.
    InDoubt,
    /// It was closed.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NotFound { what } => write!(f, "there is no {what}"),
            StoreError::Exists { what } => write!(f, "there is a {what} already"),
            StoreError::Stale { what, found } => {
                write!(f, "{what} has changed meanwhile: it is at {found} now, read it again")
            }
            StoreError::Outdated => f.write_str(
                "tenants, plans or configuration have changed meanwhile: try again, against what they are now",
            ),
            StoreError::InUse { what, keys } => {
                write!(f, "{what} has {keys} keys in force: revoke or move them first")
            }
            StoreError::NotCurrent { id, replaced_by: Some(by) } => {
                write!(f, "key {id} was replaced by {by}: rotate that one")
            }
            StoreError::NotCurrent { id, replaced_by: None } => {
                write!(f, "key {id} is revoked: issue a new one")
            }
            StoreError::Answered(answer) => {
                write!(f, "a request with the Idempotency-Key {:?} was answered", answer.key)
            }
            StoreError::BadCursor => {
                f.write_str("this cursor came from no list: begin without one")
            }
            StoreError::Unavailable(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Full => f.write_str("the storage is full: make room on its disk"),
            Unavailable::ReadOnly => f.write_str("the storage is read-only: make it writable"),
            Unavailable::Damaged(how) => write!(f, "the storage is damaged: {how}"),
            Unavailable::Failed(how) => write!(f, "the storage failed: {how}"),
            Unavailable::InDoubt => f.write_str(
                "the storage does not answer: whether this was done shows when it is back",
            ),
            Unavailable::Closed => f.write_str("the storage is closed"),
        }
    }
}

impl std::error::Error for Unavailable {}

impl From<Unavailable> for StoreError {
    fn from(why: Unavailable) -> StoreError {
        StoreError::Unavailable(why)
    }
}

/// Why the storage was not opened. Every message says what would be right.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The other process, if it could be told.
        pid: Option<u32>,
    },
    /// A newer Tollgate has written it.
    NewerSchema {
        /// The database.
        file: PathBuf,
        /// The version of its schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// It is not Tollgate's.
    NotOurs {
        /// The file.
        file: PathBuf,
    },
    /// Redis cannot be asked, or does not allow what is needed.
    Unreachable {
        /// Why.
        why: String,
    },
    /// It is damaged, or the system does not let it be used.
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { folder, pid } => {
                write!(f, "{} is in use by ", folder.display())?;
                match pid {
                    Some(pid) => write!(f, "process {pid}")?,
                    None => f.write_str("another process")?,
                }
                f.write_str(": stop it first, or give this one a `storage.path` of its own")
            }
            OpenError::NewerSchema { file, found, known } => write!(
                f,
                "{} has schema version {found} and this program knows {known} at most: use the newer Tollgate \
                 that wrote it, or restore a backup from before",
                file.display()
            ),
            OpenError::NotOurs { file } => write!(
                f,
                "{} is the database of another program: give Tollgate a `storage.path` of its own",
                file.display()
            ),
            OpenError::Unreachable { why } => write!(
                f,
                "the storage in Redis cannot be used: {why}: look at `redis.url`, or ask `tollgate doctor`"
            ),
            OpenError::Unusable { path, why } => {
                write!(f, "{} cannot be used: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}
