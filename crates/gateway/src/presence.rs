//! Who is still here: what a worker waits for before it ends.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::counts::Counts;

/// Counts the connections of one worker, and adds them to those of all.
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    here: Rc<Cell<usize>>,
    counts: Arc<Counts>,
}

impl Presence {
    pub(crate) fn new(counts: &Arc<Counts>) -> Presence {
        Presence { here: Rc::default(), counts: Arc::clone(counts) }
    }

    /// One more is here, until the answer is dropped. Also how many there are in all workers.
    pub(crate) fn enter(&self) -> (Present, u64) {
        self.here.set(self.here.get() + 1);
        let open = self.counts.open.fetch_add(1, Relaxed) + 1;
        (Present(self.clone()), open)
    }

    /// Waits until nobody is here.
    pub(crate) async fn none_left(&self) {
        while self.here.get() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A connection that is here.
#[derive(Debug)]
pub(crate) struct Present(Presence);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.here.set(self.0.here.get() - 1);
        self.0.counts.open.fetch_sub(1, Relaxed);
    }
}
