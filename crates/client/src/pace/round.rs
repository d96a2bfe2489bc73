//! How long an answer takes at least.

use std::time::Duration;

use tollgate_core::Time;

/// The shortest time from sending to answer, of late. A server decides when a request comes in, however long it then
/// works on it: so a decision is dated by the fastest answers, not by its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    present: Option<Duration>,
    previous: Option<Duration>,
    since: Time,
}

/// How long the shortest round is remembered, once or twice.
const ROUND_MEMORY: Duration = Duration::from_secs(10);

impl Round {
    pub(super) fn note(&mut self, round: Duration, now: Time) {
        if now - self.since > ROUND_MEMORY {
            (self.previous, self.present, self.since) = (self.present, None, now);
        }
        self.present = Some(self.present.map_or(round, |shortest| shortest.min(round)));
    }

    pub(super) fn shortest(&self) -> Duration {
        [self.present, self.previous].into_iter().flatten().min().unwrap_or(Duration::MAX)
    }
}
