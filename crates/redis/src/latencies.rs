//! How long calls took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long calls took from when they were asked to when they were answered, or not.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// One more than bounds, for what took longer than all.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// Upper bounds in seconds, ascending.
const BOUNDS: [f64; 14] =
    [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0];

/// What calls took so far, for a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Took {
    /// Upper bounds in seconds with how many calls took no longer, and longer than the bound before; the last is for all
    /// that took longer.
    pub buckets: Vec<(f64, u64)>,
    /// How long all took together, in seconds.
    pub seconds: f64,
}

impl Latencies {
    pub(crate) fn note(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[at].fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn took(&self) -> Took {
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        let seconds = self.nanos.load(Relaxed) as f64 / 1e9;
        Took { buckets: bounds.zip(counts).collect(), seconds }
    }
}
