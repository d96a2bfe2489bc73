//! How many nodes there are: each says every second that it is alive.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use redis::Value;

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
}

impl Nodes {
    pub(crate) fn new(prefix: &str) -> Nodes {
        let random = RandomState::new().hash_one(prefix);
        Nodes {
            key: format!("{prefix}:nodes"),
            name: format!("{random:016x}"),
            count: AtomicU64::new(1),
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
        if let Ok(Value::Int(count)) = strict.ask(cmd, &SCRIPTS.nodes).await {
            self.count.store(u64::try_from(count).unwrap_or(1).max(1), Relaxed);
        }
    }
}
