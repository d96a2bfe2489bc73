//! One address of an upstream, and whether it can be reached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::Origin;

/// One address of an upstream.
///
/// Its health is passive: an address that could not be connected to, or that took a request and did not answer, is
/// left out for a while, which doubles with every further failure, and is in again at once after an answer. After each
/// pause one request tries it, and no other before that has an outcome or another pause is over: an address that
/// hangs costs few.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) origin: Arc<Origin>,
    failures: AtomicU32,
    /// Somebody tries whether it is back.
    is_tried: AtomicBool,
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
            is_tried: AtomicBool::new(false),
            out_until: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// How long it is still left out; zero if it is in.
    pub(crate) fn out_for(&self, now: Instant) -> Duration {
        let until = Duration::from_millis(self.out_until.load(Relaxed));
        until.saturating_sub(now.saturating_duration_since(self.born))
    }

    /// A request is about to be sent to it.
    pub(crate) fn picked(&self, now: Instant) {
        let failures = self.failures.load(Relaxed);
        if failures > 0 && self.out_for(now).is_zero() {
            self.is_tried.store(true, Relaxed);
            self.pause(failures - 1, now);
        }
    }

    /// It could not be connected to, or did not answer. Many requests may fail at once and for the same reason: what
    /// fails in a pause says nothing new.
    pub(crate) fn failed(&self, now: Instant) {
        if self.is_tried.swap(false, Relaxed) || self.out_for(now).is_zero() {
            let failures = self.failures.fetch_add(1, Relaxed);
            self.pause(failures, now);
        }
    }

    fn pause(&self, failures: u32, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
        let until = now.saturating_duration_since(self.born) + pause;
        self.out_until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// It answered.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
            self.is_tried.store(false, Relaxed);
            self.out_until.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::shapes;

    fn target() -> Target {
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
        Target::new("127.0.0.1:1".parse().unwrap(), &upstream.origins()[0])
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_half_a_minute_and_end_with_a_success() {
        let target = target();
        let mut now = Instant::now();
        assert_eq!(target.out_for(now), Duration::ZERO);
        for expected in [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            target.failed(now);
            let pause = Duration::from_millis(expected);
            assert_eq!(target.out_for(now), pause);
            now += pause;
            assert_eq!(target.out_for(now), Duration::ZERO);
        }
        target.failed(now);
        target.succeeded();
        assert_eq!(target.out_for(now), Duration::ZERO);
        target.failed(now);
        assert_eq!(target.out_for(now), FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn many_failures_at_once_are_one() {
        let target = target();
        let now = Instant::now();
        (0..100).for_each(|_| target.failed(now));
        assert_eq!(target.out_for(now), FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_tries_and_the_others_wait_for_what_comes_of_it() {
        let target = target();
        let mut now = Instant::now();
        target.picked(now);
        assert_eq!(target.out_for(now), Duration::ZERO, "nothing has failed");
        target.failed(now);
        now += FIRST_PAUSE;
        target.picked(now);
        assert_eq!(target.out_for(now), FIRST_PAUSE, "for all others");
        target.failed(now);
        assert_eq!(target.out_for(now), 2 * FIRST_PAUSE);
        now += 2 * FIRST_PAUSE;
        target.picked(now);
        target.succeeded();
        assert_eq!(target.out_for(now), Duration::ZERO);
    }
}
