//! How long a server asked to be left alone, and what shows that it is over.

use std::time::Duration;

use tollgate_core::Time;

/// The longest that was asked for. A server may change its mind, or have been wrong: a request that was sent in spite of
/// it and passed lifts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hold {
    until: Time,
    /// How many had been sent when it was set. An answer to any of them is older than the hold.
    set_after: u64,
}

impl Hold {
    pub(super) fn left(&self, now: Time) -> Duration {
        self.until - now
    }

    pub(super) fn extend(&mut self, until: Time, sendings: u64) {
        if until > self.until {
            (self.until, self.set_after) = (until, sendings);
        }
    }

    /// Whether it was set after the request of this number had leave to be sent, and is in force.
    pub(super) fn calls_off(&self, number: u64, now: Time) -> bool {
        number <= self.set_after && now < self.until
    }

    /// The request of this number passed.
    pub(super) fn passed(&mut self, number: u64) {
        if number > self.set_after {
            self.until = Time::EPOCH;
        }
    }
}
