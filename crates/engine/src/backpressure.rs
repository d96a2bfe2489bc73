//! Backpressure: too much is pending already, whoever asks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Refuses while more is pending than a threshold. Asking reads one atomic and consumes nothing.
///
/// ```
/// use std::time::Duration;
/// use tollgate_engine::Backpressure;
///
/// let backpressure = Backpressure::default();
/// backpressure.set_pending(100);
/// assert_eq!(backpressure.check(), Ok(()));
/// backpressure.set_pending(103);
/// assert_eq!(backpressure.check(), Err(Duration::from_millis(30)));
/// ```
#[derive(Debug)]
pub struct Backpressure {
    pending: AtomicU64,
    threshold: AtomicU64,
}

/// How long a caller waits for each thing pending above the threshold, and at most.
const MS_EACH: u64 = 10;
const MS_MOST: u64 = 5_000;

impl Backpressure {
    /// The threshold unless told otherwise.
    pub const DEFAULT_THRESHOLD: u64 = 100;

    /// Nothing pending yet.
    pub const fn new(threshold: u64) -> Backpressure {
        Backpressure { pending: AtomicU64::new(0), threshold: AtomicU64::new(threshold) }
    }

    /// `Err` with how long to wait, if more is pending than the threshold.
    #[inline]
    pub fn check(&self) -> Result<(), Duration> {
        let over = self.pending.load(Relaxed).saturating_sub(self.threshold.load(Relaxed));
        match over {
            0 => Ok(()),
            _ => Err(Duration::from_millis(over.saturating_mul(MS_EACH).min(MS_MOST))),
        }
    }

    /// How much is pending, said by whoever knows.
    #[inline]
    pub fn set_pending(&self, pending: u64) {
        self.pending.store(pending, Relaxed);
    }

    /// How much is pending.
    pub fn pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }

    /// One more is pending, until the answer is dropped.
    #[inline]
    pub fn enter(&self) -> Pending<'_> {
        self.pending.fetch_add(1, Relaxed);
        Pending(self)
    }

    /// The threshold in force.
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// Changes the threshold from now on.
    pub fn set_threshold(&self, threshold: u64) {
        self.threshold.store(threshold, Relaxed);
    }
}

impl Default for Backpressure {
    fn default() -> Backpressure {
        Backpressure::new(Backpressure::DEFAULT_THRESHOLD)
    }
}

/// Something pending; dropped, it is no longer.
#[derive(Debug)]
#[must_use = "it is pending only as long as this is kept"]
pub struct Pending<'b>(&'b Backpressure);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // Whoever knows better may have said meanwhile that nothing is.
        let less = |pending: u64| Some(pending.saturating_sub(1));
        let _ = self.0.pending.fetch_update(Relaxed, Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_ten_milliseconds_for_each_above_the_threshold_and_five_seconds_at_most() {
        let rows = [
            (0, None),
            (99, None),
            (100, None),
            (101, Some(10)),
            (150, Some(500)),
            (599, Some(4_990)),
            (600, Some(5_000)),
            (601, Some(5_000)),
            (u64::MAX, Some(5_000)),
        ];
        let backpressure = Backpressure::default();
        for (pending, wait) in rows {
            backpressure.set_pending(pending);
            assert_eq!(backpressure.check().err().map(|w| w.as_millis()), wait, "{pending}");
        }
    }

    #[test]
    fn what_is_pending_ends_when_dropped() {
        let backpressure = Backpressure::new(1);
        let (one, two) = (backpressure.enter(), backpressure.enter());
        assert!(backpressure.check().is_err());
        drop(one);
        assert!(backpressure.check().is_ok());
        drop(two);
        assert_eq!(backpressure.pending(), 0);
    }

    #[test]
    fn what_was_said_to_be_over_does_not_end_twice() {
        let backpressure = Backpressure::new(1);
        let one = backpressure.enter();
        backpressure.set_pending(0);
        drop(one);
        assert_eq!((backpressure.pending(), backpressure.check()), (0, Ok(())));
    }
}
