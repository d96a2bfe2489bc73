//! Where requests wait: each counter that anybody waits for has a line, made when the first comes and forgotten when the last
//! leaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_engine::{Arrival, Queue};

/// The lines that somebody stands in, by the counter they wait for.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    by_counter: Mutex<HashMap<u128, Line>>,
}

#[derive(Debug)]
struct Line {
    /// Without bounds of its own: it may outlive the policy of whoever came first, so everybody brings their policy's.
    queue: Arc<Queue>,
    /// Who holds the queue; with the last it is forgotten.
    holders: usize,
}

/// Somebody's hold on a line.
pub(crate) struct Held<'l> {
    room: &'l WaitingRoom,
    counter: u128,
    pub(crate) queue: Arc<Queue>,
}

impl WaitingRoom {
    /// The line for a counter, which is there as long as somebody holds it.
    pub(crate) fn hold(&self, counter: u128) -> Held<'_> {
        let mut by_counter = self.by_counter.lock();
        let line = by_counter.entry(counter).or_insert_with(|| Line {
            queue: Arc::new(Queue::new(Duration::MAX, usize::MAX)),
            holders: 0,
        });
        line.holders += 1;
        Held { room: self, counter, queue: Arc::clone(&line.queue) }
    }

    /// Whether somebody waits for this counter.
    pub(crate) fn is_waited_for(&self, counter: u128) -> bool {
        let by_counter = self.by_counter.lock();
        by_counter.get(&counter).is_some_and(|line| !line.queue.is_empty())
    }

    /// Whether somebody waits for this counter who came before.
    pub(crate) fn has_earlier_than(&self, arrival: Arrival, counter: u128) -> bool {
        let queue = self.by_counter.lock().get(&counter).map(|line| Arc::clone(&line.queue));
        // It looks at every lane, and everybody passes by the room.
        queue.is_some_and(|queue| queue.has_earlier_than(arrival))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut by_counter = self.room.by_counter.lock();
        if let Some(line) = by_counter.get_mut(&self.counter) {
            line.holders -= 1;
            if line.holders == 0 {
                by_counter.remove(&self.counter);
            }
        }
    }
}
