//! What happened so far, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened in all workers so far.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) over_cap: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) timeouts: AtomicU64,
}

impl Counts {
    /// Connections accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections open now, upgraded ones too.
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Connections refused because there were too many.
    pub fn over_cap(&self) -> u64 {
        self.over_cap.load(Relaxed)
    }

    /// Panics while handling a request.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    /// Connections closed because nothing, or only half a request, came in time, and responses given up because nobody took
    /// them.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.load(Relaxed)
    }
}
