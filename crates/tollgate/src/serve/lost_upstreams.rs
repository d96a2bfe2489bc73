//! Keys whose own limit degrades to an upstream that is gone. Such requests go where all others go, which nobody may have meant;
//! a plan or a route that names an upstream cannot lose it so, for it is compiled with it.

use std::collections::BTreeMap;

use tollgate_engine::Time;
use tollgate_policy::compile::Policy;
use tollgate_policy::shapes::Strategy;
use tollgate_storage::{KeySnapshot, StoredKey};

use super::keys::Own;

/// So many keys of an upstream are named, the others counted.
const NAMED: usize = 10;

/// Keys by the upstream that they lack.
#[derive(Debug, Default)]
pub(super) struct LostUpstreams(BTreeMap<String, Losers>);

#[derive(Debug, Default)]
struct Losers {
    named: Vec<String>,
    others: u64,
}

impl LostUpstreams {
    /// What keys lose when a policy takes the place of another.
    pub(super) fn between(
        (old, new): (&Policy, &Policy),
        (stored, now): (&KeySnapshot<Own>, Time),
    ) -> LostUpstreams {
        let mut lost = LostUpstreams::default();
        let has_lost = |name| !new.settings().upstreams.contains_key(name);
        // All keys are looked at, and mostly none need be.
        if !old.settings().upstreams.keys().any(has_lost) {
            return lost;
        }
        stored.for_each(|key| {
            let own = key.attached().as_ref().filter(|_| key.ends_at() > now);
            let number = own.and_then(|own| own.degrades_to(old));
            let upstream = number.and_then(|number| old.settings().upstreams.get_index(number));
            if let Some((name, _)) = upstream.filter(|(name, _)| has_lost(name)) {
                lost.add(name.as_str(), key.id());
            }
        });
        lost
    }

    /// Takes note of a key that is read at the start.
    pub(super) fn look_at(&mut self, key: &StoredKey, policy: &Policy) {
        let own = key.terms.rate_limit.as_ref();
        let own = own.filter(|limit| limit.terms.strategy == Strategy::Degrade);
        let upstream = own.and_then(|limit| limit.terms.degrade.upstream.as_ref());
        if let Some(name) = upstream.filter(|name| !policy.settings().upstreams.contains_key(*name))
        {
            self.add(name.as_str(), key.id.as_str());
        }
    }

    fn add(&mut self, upstream: &str, key: &str) {
        let losers = self.0.entry(upstream.to_owned()).or_default();
        if losers.named.len() < NAMED {
            losers.named.push(key.to_owned());
        } else {
            losers.others += 1;
        }
    }

    /// What is said of each upstream.
    pub(super) fn said(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(upstream, Losers { named, others })| {
            let named = named.join(", ");
            let others = if *others > 0 { format!(" and {others} others") } else { String::new() };
            format!(
                "there is no upstream `{upstream}` any more, to which keys degrade by their own `rate_limit` ({named}{others}): \
                 requests above it go to their route's, marked"
            )
        })
    }
}
