//! Why Redis did not answer.

use std::fmt;

/// Redis could not be asked, or did not answer. What then happens to a request is `fallback_on_error`'s to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// It failed a moment ago and is being probed; nothing was sent.
    Open,
    /// There is no connection to it; nothing was sent.
    Unreachable(String),
    /// More calls wait for it than may; nothing was sent.
    Overloaded,
    /// It did not answer in time. What was asked may have been done.
    TimedOut,
    /// The connection broke. What was asked may have been done.
    Lost(String),
    /// It answered with an error, and did nothing.
    Refused(String),
    /// It answered something that no script of ours answers.
    Nonsense,
    /// The runtime that carried the connection has ended.
    Closed,
}

impl Unavailable {
    /// Whether what was asked may have been done all the same. Never repeated for that reason.
    pub const fn may_have_run(&self) -> bool {
        matches!(self, Unavailable::TimedOut | Unavailable::Lost(_) | Unavailable::Nonsense)
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Open => write!(f, "Redis failed a moment ago and has not come back yet"),
            Unavailable::Unreachable(why) => write!(f, "there is no connection to Redis: {why}"),
            Unavailable::Overloaded => write!(f, "too many calls wait for Redis"),
            Unavailable::TimedOut => write!(f, "Redis did not answer in time"),
            Unavailable::Lost(why) => write!(f, "the connection to Redis broke: {why}"),
            Unavailable::Refused(why) => write!(f, "Redis refused: {why}"),
            Unavailable::Nonsense => write!(f, "Redis answered something unexpected"),
            Unavailable::Closed => write!(f, "the connection to Redis was closed"),
        }
    }
}

impl std::error::Error for Unavailable {}
