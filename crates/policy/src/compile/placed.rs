//! A limit in its place: what it counts by, whom, and what becomes of a request above it.

use tollgate_core::{Limit, PolicyName, Scope};

use crate::shapes::{Consistency, Strategy};

/// A limit of one [`Policy`](super::Policy), by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(pub(crate) u32);

impl LimitId {
    /// Its number, from 0 without gaps.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a limit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On a key.
    Key,
    /// On a plan.
    Plan,
    /// On an operation of a plan.
    Operation,
    /// On a tenant.
    Tenant,
    /// On a tenant's budget: the pool of all below it.
    Pool,
    /// On a route.
    Route,
    /// On an upstream.
    Upstream,
    /// Among the defaults, of clients or of tenants.
    Default,
    /// A calendar balance, on a plan or a tenant.
    Quota,
}

/// Whose counter a request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    /// One for everybody.
    Everybody,
    /// That of the tenant with this number, whoever below it is calling.
    Node(u32),
    /// The calling tenant's.
    Tenant,
    /// The calling user's, within its tenant.
    User,
    /// The calling address's.
    Ip,
    /// The route's.
    Route,
}

/// The bounds of strategy `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueBounds {
    /// The longest wait, in milliseconds.
    pub max_wait_ms: u32,
    /// The most requests that wait, for each counter and tenant.
    pub max_depth: u32,
}

/// A limit in its place.
#[derive(Clone, Debug)]
pub struct PlacedLimit {
    pub(crate) place: Place,
    pub(crate) source: Box<str>,
    pub(crate) counter: Box<str>,
    pub(crate) limit: Limit,
    pub(crate) scope: Scope,
    pub(crate) counted: Counted,
    pub(crate) strategy: Strategy,
    pub(crate) consistency: Consistency,
    pub(crate) queue: QueueBounds,
    pub(crate) degrade: Option<u32>,
    pub(crate) shows_headers: bool,
    pub(crate) cost: u64,
    pub(crate) counts_requests: bool,
    pub(crate) line: u32,
    /// What every response tells, worked out once.
    pub(crate) name: PolicyName,
    pub(crate) window_secs: Option<u64>,
}

impl PlacedLimit {
    /// Where it stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Where it stands, in words: `tenant:acme`, `plan:free`, `route:POST /x`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What its counters are called by, without whom they count. It names the place and the scope, never the
    /// figures: with other figures they are the same counters. A plan's quota omits the plan.
    pub fn counter(&self) -> &str {
        &self.counter
    }

    /// The algorithm and its figures.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whose requests share one counter.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Whose counter a request is charged to.
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// Its name if it is the first of its kind in a chain.
    #[inline]
    pub fn name(&self) -> PolicyName {
        self.name
    }

    /// The seconds in which an empty bucket is full, or the window; `None` for a quota.
    #[inline]
    pub fn window_secs(&self) -> Option<u64> {
        self.window_secs
    }

    /// What becomes of a request above it.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How the nodes of a cluster count together.
    pub fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The bounds of strategy `queue`.
    pub fn queue(&self) -> QueueBounds {
        self.queue
    }

    /// The number of the upstream that strategy `degrade` forwards to; the request's own if there is none.
    pub fn degrade_to(&self) -> Option<usize> {
        self.degrade.map(|number| number as usize)
    }

    /// Whether responses may tell of limits.
    pub fn shows_headers(&self) -> bool {
        self.shows_headers
    }

    /// Whether every request is one to it, whatever that costs.
    pub fn counts_requests(&self) -> bool {
        self.counts_requests
    }

    /// What a request is charged whose route states this cost, or none.
    #[inline]
    pub fn cost(&self, stated: Option<u64>) -> u64 {
        if self.counts_requests { 1 } else { stated.unwrap_or(self.cost) }
    }

    /// The line of the file it stands in; `None` if it is built in or was made by the API.
    pub fn line(&self) -> Option<usize> {
        (self.line > 0).then_some(self.line as usize)
    }
}
