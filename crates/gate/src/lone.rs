//! Requests that meet a single limit.
//!
//! Under the policies that services have for themselves a caller often meets one limit, and mostly passes. A chain, and lists of what to
//! tell of it, would take more than all that is decided.

use tollgate_engine::{Clock, Time};
use tollgate_policy::compile::{PlacedLimit, Work};
use tollgate_wire::{Line, Report};

use crate::caller::Caller;
use crate::gate::Gate;
use crate::in_force::InForce;

/// A request that met a single limit and passed.
#[derive(Clone, Copy, Debug)]
pub struct Lone<'f> {
    limit: &'f PlacedLimit,
    line: Line<'f>,
    now: Time,
}

impl<C: Clock> Gate<C> {
    /// Admits a request that meets a single limit whose counter is held and lets it pass. Of every other nothing is charged, and
    /// [`decide`](Gate::decide) tells what becomes of it.
    #[inline]
    pub fn admit_lone<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'_>,
        work: Work<'_>,
    ) -> Option<Lone<'f>> {
        let id = in_force.lone_limit(caller, work)?;
        let limit = &in_force.policy().limits()[id.index()];
        let identity = self.identity(in_force, caller, limit, work.route());
        let (cost, now) = (limit.cost(work.cost()), self.limiter().clock().now());
        let standing = self.limiter().admit_at(in_force.rule(id), identity, cost, now)?;
        let line = Line::new(limit.name(), standing)
            .source(limit.source())
            .cost(cost)
            .seconds(limit.window_secs())
            .text(Some(in_force.text(id)));
        Some(Lone { limit, line, now })
    }
}

impl<'f> Lone<'f> {
    /// What its response tells.
    #[inline]
    pub fn report(&self) -> Report<'_> {
        Report::admitted(std::slice::from_ref(&self.line), self.now)
    }

    /// The limit.
    #[inline]
    pub fn limit(&self) -> &'f PlacedLimit {
        self.limit
    }
}
