//! Whether the gateway wants requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the gateway wants requests: not before it listens, and not once it drains.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<AtomicBool>);

impl Health {
    /// Says whether it does.
    pub fn set_ready(&self, is_ready: bool) {
        self.0.store(is_ready, Relaxed);
    }

    /// Whether it does.
    pub fn is_ready(&self) -> bool {
        self.0.load(Relaxed)
    }
}
