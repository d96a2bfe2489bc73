//! A limit that one key has for itself.

use std::sync::Arc;

use tollgate_engine::{Clock, Limit, Rule};
use tollgate_policy::compile::{KeyLimit, Policy};
use tollgate_policy::shapes::{Burst, RateLimit, Strategy};

use crate::elsewhere::Keeper;
use crate::gate::Gate;

/// The limit of a key that the API issued, bound to its counters. It is in force under whatever policy is.
#[derive(Debug)]
pub struct OwnLimit {
    pub(crate) limit: KeyLimit,
    pub(crate) rule: Arc<Rule>,
    /// Who keeps its counters, if not the limiter.
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
}

impl OwnLimit {
    /// The number of the upstream that requests above it are forwarded to, if it degrades them to one that this policy has.
    pub fn degrades_to(&self, policy: &Policy) -> Option<usize> {
        let degrades = self.limit.placed().strategy() == Strategy::Degrade;
        self.limit.degrade_to(policy).filter(|_| degrades)
    }
}

/// The limit of a key as the storage has it.
#[derive(Clone, Copy, Debug)]
pub struct OwnTerms<'k> {
    /// The key's id.
    pub id: &'k str,
    /// The first key of its line of rotations: all of the line share their counters.
    pub origin: &'k str,
    /// The limit as it was written.
    pub rate_limit: &'k RateLimit,
}

impl OwnTerms<'_> {
    fn with(&self, policy: &Policy, rate_limit: &RateLimit) -> Option<KeyLimit> {
        policy.key_limit(self.id, self.origin, rate_limit)
    }
}

impl<C: Clock> Gate<C> {
    /// Binds the limit of the current key of a line: its figures are the line's from now on, and counters keep their tokens
    /// under them. `None` if they make no limit.
    pub fn own_limit(&self, policy: &Policy, terms: OwnTerms<'_>) -> Option<OwnLimit> {
        let limit = terms.with(policy, terms.rate_limit)?;
        let placed = limit.placed();
        let rule = self.limiter().define(placed.counter(), placed.limit().clone());
        Some(self.kept(limit, rule))
    }

    /// Binds the limit of any other key of a line, or of whoever only looks: to the figures that the line has. Its own count
    /// where the line has none, and where it counts by another algorithm or window.
    pub fn own_limit_of_line(&self, policy: &Policy, terms: OwnTerms<'_>) -> Option<OwnLimit> {
        let limit = terms.with(policy, terms.rate_limit)?;
        let placed = limit.placed();
        let rule = self.limiter().join(placed.counter(), placed.limit().clone());
        if rule.limit() == placed.limit() {
            return Some(self.kept(limit, rule));
        }
        // What is told of it, and whoever keeps its counters elsewhere, goes by the same figures. They make no limit for a key
        // whose cost they could never let pass: the rule alone decides then, and refuses it.
        let in_force = terms.with(policy, &with_figures(terms.rate_limit, rule.limit()));
        Some(match in_force {
            Some(in_force) => self.kept(in_force, rule),
            None => OwnLimit { limit, rule, keeper: None },
        })
    }

    fn kept(&self, limit: KeyLimit, rule: Arc<Rule>) -> OwnLimit {
        let keeper = self.keeper(limit.placed(), &rule);
        OwnLimit { limit, rule, keeper }
    }
}

/// A limit with the figures of another of the same algorithm and window.
fn with_figures(written: &RateLimit, figures: &Limit) -> RateLimit {
    let mut written = written.clone();
    if let Some(rate) = figures.rate() {
        written.sustained.rate = rate.tokens();
    }
    // Windows have no burst beside their rate.
    let burst = Burst { capacity: figures.capacity() };
    written.terms.burst = figures.kind().has_burst().then_some(burst);
    written
}
