//! Which limits a request meets, in the order of the law: client, tenant and those above it, route and upstream,
//! quotas. Everything was compiled with the policy; a request only picks which lists apply.

use super::placed::{LimitId, PlacedLimit};
use super::policy::Policy;
use super::routes::RouteInForce;
use super::tree::ANONYMOUS;

/// Who is calling, as far as limits care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    tenant: u32,
    plan: Option<u32>,
    own: OwnLimit,
}

/// Whether a key has a limit of its own, which goes before its plan's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnLimit {
    None,
    /// One of the policy's.
    Here(LimitId),
    /// One that the policy does not know: the API made the key.
    Elsewhere,
}

impl Client {
    /// A caller of the tenant with this number, with the tenant's plan.
    pub fn of(policy: &Policy, tenant: usize) -> Client {
        let plan = policy.tenants().all()[tenant].plan;
        Client { tenant: tenant as u32, plan, own: OwnLimit::None }
    }

    /// Whose key has this plan, if it has any.
    #[must_use]
    pub fn with_plan(mut self, plan: Option<usize>) -> Client {
        self.plan = plan.map(|number| number as u32).or(self.plan);
        self
    }

    /// Whose key has this limit of its own, if it has any.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<LimitId>) -> Client {
        self.own = limit.map_or(self.own, OwnLimit::Here);
        self
    }

    /// Whose key has a limit of its own that is charged apart.
    #[must_use]
    pub fn with_limit_elsewhere(mut self) -> Client {
        self.own = OwnLimit::Elsewhere;
        self
    }

    /// The number of its tenant.
    pub fn tenant(&self) -> usize {
        self.tenant as usize
    }

    /// The number of its plan.
    pub fn plan(&self) -> Option<usize> {
        self.plan.map(|number| number as usize)
    }
}

/// The operation that a program states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stated {
    /// The policy's with this number.
    Operation(usize),
    /// One that the policy does not have, so nothing limits it on its own.
    Unheard,
}

impl Stated {
    /// The operation called `name`.
    pub fn named(policy: &Policy, name: &str) -> Stated {
        policy.operation(name).map_or(Stated::Unheard, Stated::Operation)
    }
}

/// What is asked for, as far as limits care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work<'p> {
    route: Option<&'p RouteInForce>,
    operation: Option<u32>,
    cost: Option<u64>,
}

impl<'p> Work<'p> {
    /// A request for a route.
    #[inline]
    pub fn on(route: &'p RouteInForce) -> Work<'p> {
        Work { route: Some(route), operation: route.operation, cost: route.cost }
    }

    /// Work that a program names by its operation's number, at the cost it states, if any.
    pub fn operation(operation: Option<usize>, cost: Option<u64>) -> Work<'p> {
        Work { route: None, operation: operation.map(|number| number as u32), cost }
    }

    /// The same, of another operation or at another cost where a program states one: that goes before the route's.
    #[must_use]
    pub fn stating(mut self, operation: Option<Stated>, cost: Option<u64>) -> Work<'p> {
        self.operation = match operation {
            Some(Stated::Operation(number)) => Some(number as u32),
            Some(Stated::Unheard) => None,
            None => self.operation,
        };
        self.cost = cost.or(self.cost);
        self
    }

    /// Whether a caller meets the same limits for it as for no work in particular.
    #[inline]
    pub fn adds_no_limit(&self) -> bool {
        self.operation.is_none()
            && self.cost != Some(0)
            && self.route.is_none_or(|route| route.limits.is_empty())
    }

    /// The route it is for.
    #[inline]
    pub fn route(&self) -> Option<&'p RouteInForce> {
        self.route
    }

    /// The cost it states; without one each limit has its own.
    #[inline]
    pub fn cost(&self) -> Option<u64> {
        self.cost
    }
}

/// The limits of one request, in order.
#[derive(Clone, Debug)]
pub struct Links<'p> {
    limits: &'p [PlacedLimit],
    lists: std::array::IntoIter<&'p [LimitId], 7>,
    list: std::slice::Iter<'p, LimitId>,
}

impl<'p> Iterator for Links<'p> {
    type Item = (LimitId, &'p PlacedLimit);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(id) = self.list.next() {
                return Some((*id, &self.limits[id.index()]));
            }
            self.list = self.lists.next()?.iter();
        }
    }

    /// Most lists are empty: whoever wants all limits goes through them without asking after each which list is next.
    #[inline]
    fn fold<A, F: FnMut(A, Self::Item) -> A>(self, first: A, mut add: F) -> A {
        let limits = self.limits;
        let mut one = |all, id: &'p LimitId| add(all, (*id, &limits[id.index()]));
        let all = self.list.fold(first, &mut one);
        self.lists.fold(all, |all, list| list.iter().fold(all, &mut one))
    }
}

impl Policy {
    /// The limits that a request is charged to, in order. A cost of 0 is charged to none.
    ///
    /// # Panics
    /// If the client or the work is of another policy, whose numbers mean something else here.
    #[inline]
    pub fn chain<'p>(&'p self, client: Client, work: Work<'p>) -> Links<'p> {
        let lists = if work.cost == Some(0) { [&[][..]; 7] } else { self.lists(&client, &work) };
        Links { limits: self.limits(), lists: lists.into_iter(), list: [].iter() }
    }

    fn lists<'p>(&'p self, client: &Client, work: &Work<'p>) -> [&'p [LimitId]; 7] {
        let tenant = &self.tenants().all()[client.tenant as usize];
        let plan = client.plan.map(|number| &self.plans()[number as usize]);
        let is_nothing_configured = plan.is_none()
            && client.own == OwnLimit::None
            && tenant.limits.is_empty()
            && tenant.quotas.is_empty();
        let default = |default: &'_ Option<super::defaults::Default>| {
            default
                .as_ref()
                .filter(|default| !default.is_built_in || is_nothing_configured)
                .map(|default| default.limit)
        };
        let own = match client.own {
            OwnLimit::None => {
                plan.and_then(|plan| plan.limit).or_else(|| default(&self.defaults.client))
            }
            OwnLimit::Here(limit) => Some(limit),
            OwnLimit::Elsewhere => None,
        };
        let for_tenant = tenant.limits.is_empty() && tenant.id() != ANONYMOUS;
        let of_tenant = default(&self.defaults.tenant).filter(|_| for_tenant);
        let of_operation =
            plan.zip(work.operation).and_then(|(plan, number)| plan.operation(number));
        // Numbers are given out in order, so a limit's number is also its place in this list.
        let one = |id: Option<LimitId>| match id {
            Some(id) => std::slice::from_ref(&self.ids[id.index()]),
            None => &[],
        };
        [
            one(own),
            one(of_operation),
            one(of_tenant),
            &tenant.limits,
            work.route.map_or(&[][..], |route| &route.limits),
            plan.map_or(&[][..], |plan| &plan.quotas),
            &tenant.quotas,
        ]
    }
}
