//! What all workers share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_engine::SystemClock;
use tollgate_gate::Gate;

use super::keys::Keys;
use super::metrics::Metrics;
use super::plane::Plane;

/// What all workers share: the counters, the keys beside the file's, and the plane that is in force.
#[derive(Debug)]
pub struct Shared<K> {
    pub(super) gate: Gate<SystemClock>,
    pub(super) keys: K,
    pub(super) plane: ArcSwap<Plane>,
    pub(super) metrics: Metrics,
}

impl<K: Keys> Shared<K> {
    /// Puts a plane into force for the first time.
    pub fn new(
        (gate, metrics): (Gate<SystemClock>, Metrics),
        keys: K,
        plane: Plane,
    ) -> Arc<Shared<K>> {
        Arc::new(Shared { gate, keys, plane: ArcSwap::from_pointee(plane), metrics })
    }

    /// The counters and the clock.
    pub fn gate(&self) -> &Gate<SystemClock> {
        &self.gate
    }

    /// The keys beside the file's.
    pub fn keys(&self) -> &K {
        &self.keys
    }

    /// The plane in force.
    pub fn plane(&self) -> Arc<Plane> {
        self.plane.load_full()
    }

    /// Puts another plane into force at once.
    pub fn enforce(&self, plane: Plane) {
        self.plane.store(Arc::new(plane));
    }

    /// What was counted so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
