//! A policy bound to counters.

use std::sync::Arc;

use tollgate_engine::{Clock, Identity, Limiter, Rule};
use tollgate_policy::compile::{LimitId, Policy};

/// A policy bound to the counters of one limiter.
#[derive(Debug)]
pub struct InForce {
    policy: Policy,
    /// By the limit's number.
    rules: Box<[Arc<Rule>]>,
    /// By the tenant's number.
    tenants: Box<[Identity]>,
    everybody: Identity,
}

impl InForce {
    pub(crate) fn bind<C: Clock>(policy: Policy, limiter: &Limiter<C>) -> InForce {
        let rule = |limit: &tollgate_policy::compile::PlacedLimit| {
            limiter.define(limit.counter(), limit.limit().clone())
        };
        let tenants = policy.tenants().all().iter().map(|tenant| limiter.identity(tenant.id()));
        InForce {
            rules: policy.limits().iter().map(rule).collect(),
            tenants: tenants.collect(),
            everybody: limiter.identity(""),
            policy,
        }
    }

    /// The policy itself.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    pub(crate) fn rule(&self, limit: LimitId) -> &Arc<Rule> {
        &self.rules[limit.index()]
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
