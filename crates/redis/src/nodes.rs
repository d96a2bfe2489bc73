//! How many nodes there are: each says every second that it is alive.
//!
//! That there are fewer is believed only after it was heard for as long as a node has to say that it is alive. When Redis comes
//! back it has forgotten them all, and the first one to speak would think that it is alone: cut off at that moment, it
//! would take the whole limit for its share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

use crate::Strict;
use crate::scripts::SCRIPTS;

/// How often a node says so, and how long it is believed.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
const LIFE: Duration = Duration::from_secs(5);

/// The nodes that count together, as they were last counted.
#[derive(Debug)]
pub(crate) struct Nodes {
    key: String,
    name: String,
    count: AtomicU64,
    /// Since when fewer were heard of, without a break.
    fewer_since: Mutex<Option<Instant>>,
}

impl Nodes {
    pub(crate) fn new(prefix: &str) -> Nodes {
        let random = RandomState::new().hash_one(prefix);
        Nodes {
            key: format!("{prefix}:nodes"),
            name: format!("{random:016x}"),
            count: AtomicU64::new(1),
            fewer_since: Mutex::default(),
        }
    }

    /// What this node is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many there are, this one among them. While nobody can be asked it is as many as there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Says that this node is alive, and counts all.
    pub(crate) async fn beat(&self, strict: &Strict) {
        self.tell(strict, "beat").await;
    }

    /// Says that this node stops.
    pub(crate) async fn leave(&self, strict: &Strict) {
        self.tell(strict, "leave").await;
    }

    async fn tell(&self, strict: &Strict, what: &str) {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&SCRIPTS.nodes.sha).arg(1).arg(&self.key).arg(&self.name);
        cmd.arg(LIFE.as_micros() as u64).arg(what);
        let count = match strict.ask(cmd, &SCRIPTS.nodes).await {
            Ok(Value::Int(count)) => Some(u64::try_from(count).unwrap_or(1).max(1)),
            _ => None,
        };
        self.hear(count, Instant::now());
    }

    /// So many were counted, if any could be.
    fn hear(&self, count: Option<u64>, now: Instant) {
        let mut fewer_since = self.fewer_since.lock();
        let Some(count) = count else {
            *fewer_since = None;
            return;
        };
        let is_fewer = count < self.count();
        if is_fewer && now.duration_since(*fewer_since.get_or_insert(now)) < LIFE {
            return;
        }
        *fewer_since = None;
        self.count.store(count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_there_are_fewer_is_believed_when_all_had_time_to_speak() {
        let (nodes, begin) = (Nodes::new("tollgate"), Instant::now());
        let hear = |count, seconds| {
            nodes.hear(count, begin + Duration::from_secs(seconds));
            nodes.count()
        };
        assert_eq!(hear(Some(3), 0), 3);
        assert_eq!(hear(Some(1), 1), 3);
        assert_eq!(hear(Some(2), 5), 3);
        assert_eq!(hear(Some(2), 6), 2);
        assert_eq!(hear(Some(4), 7), 4, "more are believed at once");
        // An outage: whoever was heard of before it says nothing of those after it.
        assert_eq!(hear(Some(1), 8), 4);
        assert_eq!(hear(None, 9), 4);
        assert_eq!(hear(Some(1), 60), 4);
        assert_eq!(hear(Some(4), 62), 4);
        assert_eq!(hear(Some(1), 66), 4, "all are there");
        assert_eq!(hear(Some(1), 71), 1);
    }
}
