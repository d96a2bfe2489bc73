//! One address of an upstream, and whether it can be reached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::Origin;

/// One address of an upstream.
///
/// Its health is passive: an address that could not be connected to is left out for a while, which doubles with
/// every further failure, and is in again at once after a success.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) origin: Arc<Origin>,
    failures: AtomicU32,
    /// Until when it is left out, in milliseconds since `born`.
    out_until: AtomicU64,
    born: Instant,
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Target {
    pub(crate) fn new(address: SocketAddr, origin: &Arc<Origin>) -> Target {
        Target {
            address,
            origin: Arc::clone(origin),
            failures: AtomicU32::new(0),
            out_until: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// How long it is still left out; zero if it is in.
    pub(crate) fn out_for(&self, now: Instant) -> Duration {
        let until = Duration::from_millis(self.out_until.load(Relaxed));
        until.saturating_sub(now.saturating_duration_since(self.born))
    }

    /// It could not be connected to.
    pub(crate) fn failed(&self, now: Instant) {
        let failures = self.failures.fetch_add(1, Relaxed).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1 << failures).min(LONGEST_PAUSE);
        let until = now.saturating_duration_since(self.born) + pause;
        self.out_until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// It was connected to.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
            self.out_until.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::shapes;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_half_a_minute_and_end_with_a_success() {
        let url = Some("http://127.0.0.1:1".parse().unwrap());
        let shape: shapes::Upstream = shapes::Upstream {
            url,
            urls: None,
            backpressure: shapes::Backpressure::default(),
            connect_timeout_ms: 1,
            response_timeout_ms: 1,
            rate_limit: None,
        };
        let upstream = super::super::Upstream::new(&shape, || unreachable!()).unwrap();
        let target = Target::new("127.0.0.1:1".parse().unwrap(), &upstream.origins()[0]);
        let now = Instant::now();
        assert_eq!(target.out_for(now), Duration::ZERO);
        for expected in [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            target.failed(now);
            assert_eq!(target.out_for(now), Duration::from_millis(expected));
        }
        target.succeeded();
        assert_eq!(target.out_for(now), Duration::ZERO);
        target.failed(now);
        assert_eq!(target.out_for(now), FIRST_PAUSE);
    }
}
