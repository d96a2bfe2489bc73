//! Keys that were replaced and still work: they go by the figures of whoever replaced them.
//!
//! All keys of a line of rotations share their counters. Whoever counts them by the figures it was bound with, as Redis does,
//! would bring them back under those of the old key with its next request. So when the line's figures change, the old keys are
//! bound anew. There are few: those with a limit of their own, in their grace.

use std::collections::HashMap;

use parking_lot::Mutex;
use tollgate_engine::Time;
use tollgate_policy::KeyId;
use tollgate_storage::StoredKey;

/// Whether it is the key of its line whose figures count.
pub(super) fn is_current(key: &StoredKey) -> bool {
    key.revoked_at.is_none() && key.replaced_by.is_none()
}

/// Those of all lines, by the first key of each.
#[derive(Debug, Default)]
pub(super) struct Predecessors(Mutex<HashMap<KeyId, Vec<StoredKey>>>);

impl Predecessors {
    /// Takes note of a key that was stored or changed, and tells which others are to be bound anew after it.
    pub(super) fn note(&self, key: &StoredKey) -> Vec<StoredKey> {
        let mut lines = self.0.lock();
        if is_current(key) {
            return lines.get(&key.origin).cloned().unwrap_or_default();
        }
        let line = lines.entry(key.origin.clone()).or_default();
        line.retain(|known| known.id != key.id);
        if key.revoked_at.is_none() && key.terms.rate_limit.is_some() {
            line.push(key.clone());
        }
        if line.is_empty() {
            lines.remove(&key.origin);
        }
        Vec::new()
    }

    /// Forgets those that have ended.
    pub(super) fn sweep(&self, now: Time) {
        self.0.lock().retain(|_, line| {
            line.retain(|key| key.ends_at() > now);
            !line.is_empty()
        });
    }
}
