//! Keys that were replaced and still work: they go by the plan and the limit of whoever replaced them.
//!
//! All keys of a line of rotations are one key to whoever holds it, and the newest says what it may, also when that one has ended: whoever
//! is throttled, or moved to a smaller plan, must not go on with the key it had before. So what a replaced key has for itself counts no
//! more: it is bound by the newest one's terms, and anew whenever these change. There are few: those in their grace.

use std::borrow::Cow;
use std::collections::HashMap;

use parking_lot::Mutex;
use tollgate_engine::Time;
use tollgate_policy::shapes::RateLimit;
use tollgate_policy::{KeyId, PlanName};
use tollgate_storage::StoredKey;

/// Whether it is the last of its line, whose terms count. They do so on when it is revoked.
pub(super) fn is_newest(key: &StoredKey) -> bool {
    key.replaced_by.is_none()
}

/// Whether it replaced another.
pub(super) fn has_predecessors(key: &StoredKey) -> bool {
    key.origin != key.id
}

/// Those of all lines, by the first key of each.
#[derive(Debug, Default)]
pub(super) struct Predecessors(Mutex<HashMap<KeyId, Line>>);

#[derive(Debug, Default)]
struct Line {
    /// What the newest key says, once that key is known.
    newest: Option<Terms>,
    replaced: Vec<StoredKey>,
}

/// What a whole line goes by.
#[derive(Clone, Debug)]
struct Terms {
    plan: Option<PlanName>,
    rate_limit: Option<RateLimit>,
}

/// A key as it is to be bound.
#[derive(Debug)]
pub(super) struct Bound<'k> {
    pub(super) key: Cow<'k, StoredKey>,
    /// Its terms are those of the newest key of its line.
    pub(super) has_lines_terms: bool,
}

impl Predecessors {
    /// Takes note of a key that was stored or changed, and tells which others are to be bound anew after it.
    pub(super) fn note(&self, key: &StoredKey) -> Vec<StoredKey> {
        let mut lines = self.0.lock();
        if is_newest(key) {
            if !has_predecessors(key) {
                return Vec::new();
            }
            let line = lines.entry(key.origin.clone()).or_default();
            let (plan, rate_limit) = (key.terms.plan.clone(), key.terms.rate_limit.clone());
            line.newest = Some(Terms { plan, rate_limit });
            return line.replaced.clone();
        }
        let line = lines.entry(key.origin.clone()).or_default();
        line.replaced.retain(|known| known.id != key.id);
        if key.revoked_at.is_none() {
            line.replaced.push(key.clone());
        }
        Vec::new()
    }

    /// Whether the newest key of a replaced key's line is known.
    pub(super) fn knows_newest(&self, key: &StoredKey) -> bool {
        self.0.lock().get(&key.origin).is_some_and(|line| line.newest.is_some())
    }

    /// A key as it is to be bound: with its line's terms, or with its own where no others are known.
    pub(super) fn bound<'k>(&self, key: &'k StoredKey) -> Bound<'k> {
        if is_newest(key) {
            return Bound { key: Cow::Borrowed(key), has_lines_terms: true };
        }
        let lines = self.0.lock();
        let Some(newest) = lines.get(&key.origin).and_then(|line| line.newest.as_ref()) else {
            return Bound { key: Cow::Borrowed(key), has_lines_terms: false };
        };
        let mut key = key.clone();
        key.terms.plan.clone_from(&newest.plan);
        key.terms.rate_limit.clone_from(&newest.rate_limit);
        Bound { key: Cow::Owned(key), has_lines_terms: true }
    }

    /// Forgets those whose grace is over, and lines of which no other key can work. One that ended by itself before that may be
    /// given more time, and goes by its line's terms then.
    pub(super) fn sweep(&self, now: Time) {
        let mut lines = self.0.lock();
        lines.retain(|_, line| {
            line.replaced.retain(|key| key.grace_until.is_none_or(|end| end > now));
            !line.replaced.is_empty()
        });
        // Of a million keys that were once rotated hardly any is in its grace.
        if lines.capacity() > 64 && lines.capacity() / 4 > lines.len() {
            lines.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_storage::{KeyDraft, KeyTerms};

    use super::*;

    /// What is forgotten with it would let it go by what it had for itself.
    #[test]
    fn a_key_that_ended_by_itself_has_its_lines_terms_when_it_is_given_more_time() {
        let now = Time::from_secs(1_800_000_000);
        let terms = KeyTerms {
            plan: "large".parse().ok(),
            expires_at: Some(now + Duration::from_secs(1)),
            ..KeyTerms::default()
        };
        let draft = KeyDraft { tenant: "acme".parse().unwrap(), user: None, terms };
        let mut old = draft.mint(now).unwrap().1;
        let mut new = old.mint_successor(now).unwrap().1;
        old.replaced_by = Some(new.id.clone());
        old.grace_until = Some(now + Duration::from_secs(60));
        new.terms.plan = "small".parse().ok();
        let predecessors = Predecessors::default();
        predecessors.note(&old);
        predecessors.note(&new);

        predecessors.sweep(now + Duration::from_secs(30));
        old.terms.expires_at = None;
        predecessors.note(&old);
        assert_eq!(predecessors.bound(&old).key.terms.plan, new.terms.plan);

        predecessors.sweep(now + Duration::from_secs(60));
        assert!(!predecessors.knows_newest(&old));
    }
}
