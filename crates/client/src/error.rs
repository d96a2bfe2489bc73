//! Why a request was not sent.

use std::fmt;
use std::time::Duration;

/// Sending now would be refused, and waiting would take longer than it may, or too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    wait: Duration,
    max_wait: Duration,
    is_crowded: bool,
}

impl TooLong {
    pub(crate) fn new(wait: Duration, max_wait: Duration) -> TooLong {
        TooLong { wait, max_wait, is_crowded: false }
    }

    /// It might have waited, if there had been room for it.
    pub(crate) fn crowded(self) -> TooLong {
        TooLong { is_crowded: true, ..self }
    }

    /// Whether as many wait already as [may](crate::Settings::max_waiting).
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// How long it would have to wait, as far as is known.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// How long it may wait.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { wait, max_wait, is_crowded } = self;
        if *is_crowded {
            return f.write_str("as many requests wait for this server already as may");
        }
        write!(
            f,
            "the server's limit lets this request pass in {wait:.1?}, and it may wait {max_wait:.1?}"
        )
    }
}

impl std::error::Error for TooLong {}

/// What a paced service fails with.
#[derive(Debug)]
pub enum Error<E> {
    /// The request was not sent: it would have had to wait too long.
    Limited(TooLong),
    /// The service failed, or did not become ready.
    Service(E),
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Limited(too_long) => too_long.fmt(f),
            Error::Service(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Limited(_) => None,
            Error::Service(error) => error.source(),
        }
    }
}
