//! How long a server asked to be left alone, and what shows that it is over.

use std::time::Duration;

use tollgate_core::Time;

/// The longest that was asked for. A server may change its mind, or have been wrong: a request that was sent in spite of
/// it and passed lifts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hold {
    until: Time,
    /// What had been sent when it was set, counted in cost. An answer to any of that is older than the hold.
    set_after: u64,
}

impl Hold {
    pub(super) fn left(&self, now: Time) -> Duration {
        self.until - now
    }

    pub(super) fn extend(&mut self, until: Time, sent: u64) {
        if until > self.until {
            (self.until, self.set_after) = (until, sent);
        }
    }

    /// What was sent as the `of`th passed.
    pub(super) fn passed(&mut self, of: u64) {
        if of > self.set_after {
            self.until = Time::EPOCH;
        }
    }
}
