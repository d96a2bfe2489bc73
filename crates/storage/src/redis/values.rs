//! Redis' answers and errors as ours, and times as texts that compare as they do.

use redis::Value;
use tollgate_core::Time;

use crate::{StoreError, Unavailable};

impl From<tollgate_redis::Unavailable> for Unavailable {
    fn from(why: tollgate_redis::Unavailable) -> Unavailable {
        match why {
            tollgate_redis::Unavailable::Refused(how) if how.contains("OOM") => Unavailable::Full,
            tollgate_redis::Unavailable::Refused(how)
                if how.contains("READONLY") || how.contains("MISCONF") =>
            {
                Unavailable::ReadOnly
            }
            other => Unavailable::Failed(other.to_string()),
        }
    }
}

impl From<tollgate_redis::Unavailable> for StoreError {
    fn from(why: tollgate_redis::Unavailable) -> StoreError {
        StoreError::Unavailable(why.into())
    }
}

/// That what Redis holds is not what we write.
pub(super) fn damaged(what: &str) -> StoreError {
    Unavailable::Damaged(format!("{what} in Redis does not read")).into()
}

pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

pub(super) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        _ => None,
    }
}

/// A moment as nanoseconds since the epoch, of one length, so that a script compares texts.
pub(super) fn moment(time: Time) -> String {
    format!("{:020}", time.as_nanos())
}

pub(super) fn read_moment(text: &str) -> Option<Time> {
    text.parse().ok().map(Time::from_nanos)
}
