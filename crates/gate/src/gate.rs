//! The gate: the limiter and the policy in force.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_engine::{Chain, Charge, Clock, Identity, Limiter, Rule, Strategy, SystemClock, Time};
use tollgate_policy::compile::{Client, Counted, PlacedLimit, Policy, RouteInForce, Work};
use tollgate_policy::{Holder, counted_address, shapes};

use crate::caller::Caller;
use crate::in_force::InForce;
use crate::passage::Passage;
use crate::waiting::WaitingRoom;

/// Decides requests by policies that are put into force over one set of counters.
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    limiter: Limiter<C>,
    pub(crate) waiting: WaitingRoom,
}

impl Gate {
    /// A gate on the system's clock that holds at most so many counters.
    pub fn new(max_keys: usize) -> Gate {
        Gate::with_clock(SystemClock::new(), max_keys)
    }
}

impl<C: Clock> Gate<C> {
    /// A gate on a clock of your own that holds at most so many counters.
    pub fn with_clock(clock: C, max_keys: usize) -> Gate<C> {
        Gate { limiter: Limiter::with_clock(clock, max_keys), waiting: WaitingRoom::default() }
    }

    /// Puts a policy into force. Counters that an earlier one had keep their tokens, under the new figures at
    /// once; a request that is under way finishes by the policy it began with.
    pub fn enforce(&self, policy: Policy) -> Arc<InForce> {
        Arc::new(InForce::bind(policy, &self.limiter))
    }

    /// The counters.
    pub fn limiter(&self) -> &Limiter<C> {
        &self.limiter
    }

    /// Who is calling: the tenant with this number, who holds its key there, and from which address.
    #[inline]
    pub fn caller(
        &self,
        in_force: &InForce,
        tenant: usize,
        holder: Holder<'_>,
        address: IpAddr,
    ) -> Caller<'static> {
        let id = in_force.policy().tenants().all()[tenant].id();
        let user = match holder {
            Holder::User(name) => self.limiter.identity(&(id, 0u8, name)),
            Holder::Key(key) => self.limiter.identity(&(id, 1u8, key)),
        };
        Caller {
            client: Client::of(in_force.policy(), tenant),
            tenant: in_force.tenant(tenant),
            user,
            address: counted_address(address),
            own: None,
        }
    }

    /// Somebody without a key: the tenant with this number, counted by the address.
    pub fn anonymous(&self, in_force: &InForce, tenant: usize, address: IpAddr) -> Caller<'static> {
        let id = in_force.policy().tenants().all()[tenant].id();
        let address = counted_address(address);
        Caller {
            client: Client::of(in_force.policy(), tenant),
            tenant: in_force.tenant(tenant),
            user: self.limiter.identity(&(id, 2u8, address)),
            address,
            own: None,
        }
    }

    /// Decides a request now, all or nothing, without waiting.
    #[inline]
    pub fn decide<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
    ) -> Passage<'f> {
        self.decide_at(in_force, caller, work, self.limiter.clock().now())
    }

    /// [`decide`](Gate::decide) for whoever has read the clock already.
    #[inline]
    pub fn decide_at<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
        now: Time,
    ) -> Passage<'f> {
        let mut passage = self.passage(in_force, caller, work);
        passage.verdict = self.limiter.take_at(&mut passage.chain, now);
        passage
    }

    /// Gives back what an admitted request was charged, because it was not served after all.
    pub fn give_back(&self, passage: &mut Passage<'_>) {
        self.limiter.give_back(&mut passage.chain);
    }

    /// Where the counters of a request's chain stand now. It is charged to none of them.
    pub fn look<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
    ) -> Passage<'f> {
        let mut passage = self.passage_at(in_force, caller, work, |_| 0);
        passage.verdict = self.limiter.take(&mut passage.chain);
        passage
    }

    /// Makes the counter at a place of a request's chain new again; `false` if the chain has no such place.
    pub fn reset(
        &self,
        in_force: &InForce,
        (caller, work): (&Caller<'_>, Work<'_>),
        place: usize,
    ) -> bool {
        let Some((rule, limit)) = links(in_force, caller, work).nth(place) else {
            return false;
        };
        let identity = self.identity(in_force, caller, limit, work.route());
        self.limiter.reset(rule, identity);
        true
    }

    /// A request's charges, not yet decided.
    #[inline]
    pub(crate) fn passage<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
    ) -> Passage<'f> {
        self.passage_at(in_force, caller, work, |limit| limit.cost(work.cost()))
    }

    #[inline]
    fn passage_at<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
        cost: impl Fn(&PlacedLimit) -> u64,
    ) -> Passage<'f> {
        let mut chain = Chain::new();
        let mut limits: SmallVec<[&PlacedLimit; 8]> = SmallVec::new();
        for (rule, limit) in links(in_force, caller, work) {
            let identity = self.identity(in_force, caller, limit, work.route());
            let charge =
                Charge::new(rule, identity).cost(cost(limit)).strategy(strategy(limit.strategy()));
            chain.push(charge);
            limits.push(limit);
        }
        let degrade = caller.own.and_then(|own| own.limit.degrade_to(in_force.policy()));
        Passage::undecided(chain, limits, degrade)
    }

    #[inline]
    fn identity(
        &self,
        in_force: &InForce,
        caller: &Caller<'_>,
        limit: &PlacedLimit,
        route: Option<&RouteInForce>,
    ) -> Identity {
        match limit.counted() {
            Counted::Everybody => in_force.everybody(),
            Counted::Node(number) => in_force.tenant(number as usize),
            Counted::Tenant => caller.tenant,
            Counted::User => caller.user,
            Counted::Ip => self.limiter.identity(&caller.address),
            Counted::Route => self.limiter.identity(route.map_or("", RouteInForce::name)),
        }
    }
}

/// The limits that a request is charged to, in order: what a key has for itself goes first, unless the request is free.
#[inline]
fn links<'f>(
    in_force: &'f InForce,
    caller: &Caller<'f>,
    work: Work<'f>,
) -> impl Iterator<Item = (&'f Rule, &'f PlacedLimit)> {
    let own = caller.own.filter(|_| work.cost() != Some(0));
    let own = own.map(|own| (&*own.rule, own.limit.placed()));
    let policys = in_force.policy().chain(caller.client, work);
    own.into_iter().chain(policys.map(|(id, limit)| (&**in_force.rule(id), limit)))
}

fn strategy(strategy: shapes::Strategy) -> Strategy {
    match strategy {
        shapes::Strategy::Reject => Strategy::Reject,
        shapes::Strategy::Queue => Strategy::Queue,
        shapes::Strategy::Degrade => Strategy::Degrade,
        shapes::Strategy::Observe => Strategy::Observe,
    }
}
