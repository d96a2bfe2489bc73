//! SQLite's errors as ours, and times as SQLite keeps them.

use rusqlite::ErrorCode;
use tollgate_core::Time;

use crate::{StoreError, Unavailable};

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Unavailable(Unavailable::from(error))
    }
}

impl From<rusqlite::Error> for Unavailable {
    fn from(error: rusqlite::Error) -> Unavailable {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Unavailable::Full,
            Some(ErrorCode::ReadOnly) => Unavailable::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Unavailable::Damaged(error.to_string())
            }
            _ => Unavailable::Failed(error.to_string()),
        }
    }
}

/// That a stored value is not what we write.
pub(super) fn damaged(what: &str, why: impl std::fmt::Display) -> StoreError {
    Unavailable::Damaged(format!("{what} does not read: {why}")).into()
}

/// Nanoseconds since the epoch. They fit, because times have a bit free.
pub(super) fn to_sql(time: Time) -> i64 {
    time.as_nanos() as i64
}

pub(super) fn from_sql(nanos: i64) -> Time {
    Time::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A count as SQLite keeps it, which has a bit less.
pub(super) fn count_to_sql(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn count_from_sql(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
