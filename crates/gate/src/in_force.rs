//! A policy bound to counters.

use std::sync::Arc;

use tollgate_engine::{Clock, Identity, Rule};
use tollgate_policy::compile::{Client, LimitId, PlacedLimit, Policy, Work};
use tollgate_policy::shapes::Strategy;
use tollgate_wire::LimitText;

use crate::caller::Caller;
use crate::elsewhere::Keeper;
use crate::gate::Gate;

/// A policy bound to the counters of one limiter.
#[derive(Debug)]
pub struct InForce {
    policy: Policy,
    /// By the limit's number.
    rules: Box<[Arc<Rule>]>,
    /// By the limit's number, what responses tell of it.
    texts: Box<[LimitText]>,
    /// By the tenant's number.
    tenants: Box<[Identity]>,
    /// By the tenant's number, the only limit that its callers meet, if that is one which refuses and the limiter counts.
    lone: Box<[Option<LimitId>]>,
    everybody: Identity,
    /// By the limit's number, who keeps its counters if not the limiter; empty if that keeps all.
    keepers: Box<[Option<Arc<dyn Keeper>>]>,
}

impl InForce {
    pub(crate) fn bind<C: Clock>(policy: Policy, gate: &Gate<C>) -> InForce {
        let limiter = gate.limiter();
        let rule = |limit: &PlacedLimit| limiter.define(limit.counter(), limit.limit().clone());
        let rules: Box<[Arc<Rule>]> = policy.limits().iter().map(rule).collect();
        let keeper = |(limit, rule): (&PlacedLimit, &Arc<Rule>)| gate.keeper(limit, rule);
        let mut keepers: Vec<_> = policy.limits().iter().zip(&rules).map(keeper).collect();
        if keepers.iter().all(Option::is_none) {
            keepers.clear();
        }
        let text = |limit: &PlacedLimit| {
            LimitText::new(limit.name(), limit.limit().capacity(), limit.window_secs())
        };
        let tenants = policy.tenants().all().iter().map(|tenant| limiter.identity(tenant.id()));
        let lone = (0..policy.tenants().all().len()).map(|tenant| {
            let mut chain = policy.chain(Client::of(&policy, tenant), Work::default());
            let (id, limit) = chain.next().filter(|_| chain.next().is_none())?;
            let is_here = keepers.get(id.index()).is_none_or(Option::is_none);
            (is_here && limit.strategy() == Strategy::Reject).then_some(id)
        });
        InForce {
            rules,
            lone: lone.collect(),
            texts: policy.limits().iter().map(text).collect(),
            keepers: keepers.into(),
            tenants: tenants.collect(),
            everybody: limiter.identity(""),
            policy,
        }
    }

    /// The policy itself.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether counters of any limit are kept elsewhere than in the limiter.
    #[inline]
    pub fn keeps_elsewhere(&self) -> bool {
        !self.keepers.is_empty()
    }

    /// Who keeps the counters of a limit, if not the limiter.
    #[inline]
    pub(crate) fn keeper(&self, limit: LimitId) -> Option<&Arc<dyn Keeper>> {
        self.keepers.get(limit.index())?.as_ref()
    }

    /// The only limit that a caller meets for this work, if that is known before, refuses by itself and is counted here.
    #[inline]
    pub(crate) fn lone_limit(&self, caller: &Caller<'_>, work: Work<'_>) -> Option<LimitId> {
        let tenant = caller.client.tenant();
        let is_plain = caller.own.is_none() && caller.client == Client::of(&self.policy, tenant);
        self.lone[tenant].filter(|_| is_plain && work.adds_no_limit())
    }

    #[inline]
    pub(crate) fn rule(&self, limit: LimitId) -> &Arc<Rule> {
        &self.rules[limit.index()]
    }

    #[inline]
    pub(crate) fn text(&self, limit: LimitId) -> &LimitText {
        &self.texts[limit.index()]
    }

    #[inline]
    pub(crate) fn tenant(&self, number: usize) -> Identity {
        self.tenants[number]
    }

    #[inline]
    pub(crate) fn everybody(&self) -> Identity {
        self.everybody
    }
}
