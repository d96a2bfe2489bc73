//! Cells that one thread writes and any may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::PolicyName;

use crate::forward::ForwardCause;

/// A number that one thread adds to: no other's write can be lost, so it needs no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A share between 0 and 1 that follows its samples; the last thirty or so count.
#[derive(Debug, Default)]
pub(super) struct Share {
    mean: AtomicU64,
    samples: Count,
}

/// So many samples make a mean.
const SAMPLES: u64 = 32;

impl Share {
    pub(super) fn blend(&self, sample: f64) {
        self.samples.add(1);
        let (before, weight) = self.weighted();
        self.mean.store((before + (sample - before) / weight).to_bits(), Relaxed);
    }

    /// The mean of the samples that count, and how many these are.
    pub(super) fn weighted(&self) -> (f64, f64) {
        let weight = self.samples.get().min(SAMPLES);
        (f64::from_bits(self.mean.load(Relaxed)), weight as f64)
    }
}

/// Times by how long they are.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Seconds, ascending.
    bounds: &'static [f64],
    /// One more than bounds, for what is longer than all.
    buckets: Box<[Count]>,
    /// In nanoseconds.
    sum: Count,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| Count::default()).collect();
        Histogram { bounds, buckets, sum: Count::default() }
    }

    pub(super) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let at = self.bounds.iter().position(|bound| seconds <= *bound);
        self.buckets[at.unwrap_or(self.bounds.len())].add(1);
        self.sum.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().map(Count::get)
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum.get() as f64 / 1e9
    }
}

/// Decisions take nanoseconds; one that waits for Redis, milliseconds.
const DECISIONS: &[f64] =
    &[2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
const UPSTREAMS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// The requests of one tier to one endpoint.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) tier: usize,
    pub(super) endpoint: usize,
    pub(super) requests: Count,
    pub(super) tokens: Count,
    pub(super) usage: Share,
}

/// The refusals of one tier by one policy.
#[derive(Debug)]
pub(super) struct Refusals {
    pub(super) tier: usize,
    pub(super) policy: PolicyName,
    pub(super) count: Count,
}

/// Everything that one worker counts.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) series: Mutex<Vec<Arc<Series>>>,
    pub(super) refusals: Mutex<Vec<Arc<Refusals>>>,
    pub(super) failures: Mutex<Vec<(ForwardCause, u64)>>,
    pub(super) overloaded: Count,
    pub(super) unauthorized: Count,
    pub(super) observed: Count,
    pub(super) uncountable: Count,
    pub(super) decisions: Histogram,
    pub(super) upstream: Histogram,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells {
            series: Mutex::default(),
            refusals: Mutex::default(),
            failures: Mutex::default(),
            overloaded: Count::default(),
            unauthorized: Count::default(),
            observed: Count::default(),
            uncountable: Count::default(),
            decisions: Histogram::new(DECISIONS),
            upstream: Histogram::new(UPSTREAMS),
        }
    }
}

impl Cells {
    pub(super) fn add_series(&self, tier: usize, endpoint: usize) -> Arc<Series> {
        let (requests, tokens, usage) = Default::default();
        let new = Arc::new(Series { tier, endpoint, requests, tokens, usage });
        self.series.lock().push(Arc::clone(&new));
        new
    }

    pub(super) fn add_refusals(&self, tier: usize, policy: PolicyName) -> Arc<Refusals> {
        let new = Arc::new(Refusals { tier, policy, count: Count::default() });
        self.refusals.lock().push(Arc::clone(&new));
        new
    }

    pub(super) fn add_failure(&self, cause: ForwardCause) {
        let mut failures = self.failures.lock();
        match failures.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => failures.push((cause, 1)),
        }
    }
}
