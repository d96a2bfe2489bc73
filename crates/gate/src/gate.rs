//! The gate: the limiter and the policy in force.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_engine::{Chain, Charge, Clock, Identity, Limiter, Strategy, SystemClock, Time};
use tollgate_policy::compile::{Client, Counted, PlacedLimit, Policy, RouteInForce, Work};
use tollgate_policy::{self as policy, Holder, counted_address, shapes};

use crate::caller::{Caller, Named};
use crate::elsewhere::{Answered, Elsewhere, Keeper, Manner, Whose};
use crate::in_force::InForce;
use crate::kept::{KeptPlace, KeptPlaces};
use crate::passage::Passage;
use crate::waiting::WaitingRoom;

/// Decides requests by policies that are put into force over one set of counters.
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    /// Shared with those who tell it what was consumed elsewhere.
    limiter: Arc<Limiter<C>>,
    elsewhere: Vec<Arc<dyn Elsewhere>>,
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
        Gate::over(Arc::new(Limiter::with_clock(clock, max_keys)))
    }

    /// A gate over a limiter that others hold too.
    pub fn over(limiter: Arc<Limiter<C>>) -> Gate<C> {
        Gate { limiter, elsewhere: Vec::new(), waiting: WaitingRoom::default() }
    }

    /// Which lets counters be kept elsewhere. Of several such, the first that wants a limit keeps its counters.
    #[must_use]
    pub fn keeping(mut self, elsewhere: Arc<dyn Elsewhere>) -> Gate<C> {
        self.elsewhere.push(elsewhere);
        self
    }

    /// Puts a policy into force. Counters that an earlier one had keep their tokens, under the new figures at
    /// once; a request that is under way finishes by the policy it began with.
    pub fn enforce(&self, policy: Policy) -> Arc<InForce> {
        Arc::new(InForce::bind(policy, &self.limiter, &self.elsewhere))
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
    ) -> Caller {
        let id = in_force.policy().tenants().all()[tenant].id();
        let user = match holder {
            Holder::User(name) => self.limiter.identity(&(id, 0u8, name)),
            Holder::Key(key) => self.limiter.identity(&(id, 1u8, key)),
            Holder::Address(address) => self.of_address(id, address),
        };
        Caller {
            client: Client::of(in_force.policy(), tenant),
            tenant: in_force.tenant(tenant),
            user,
            address: counted_address(address),
        }
    }

    /// Somebody without a key: the tenant with this number, counted by the address.
    pub fn anonymous(&self, in_force: &InForce, tenant: usize, address: IpAddr) -> Caller {
        self.caller(in_force, tenant, Holder::Address(address), address)
    }

    fn of_address(&self, tenant: &str, address: IpAddr) -> Identity {
        self.limiter.identity(&(tenant, 2u8, counted_address(address)))
    }

    /// Decides a request now, all or nothing, without waiting. One that would have to wait for counters kept elsewhere is
    /// refused as [unavailable](Passage::unavailable): [`pass`](Gate::pass) waits for them.
    #[inline]
    pub fn decide<'f, 'n>(
        &self,
        in_force: &'f InForce,
        caller: impl Into<Named<'n>>,
        work: Work<'f>,
    ) -> Passage<'f> {
        self.decide_at(in_force, caller, work, self.limiter.clock().now())
    }

    /// [`decide`](Gate::decide) for whoever has read the clock already.
    #[inline]
    pub fn decide_at<'f, 'n>(
        &self,
        in_force: &'f InForce,
        caller: impl Into<Named<'n>>,
        work: Work<'f>,
        now: Time,
    ) -> Passage<'f> {
        let mut passage = self.passage(in_force, caller.into(), work);
        if passage.kept.all.is_empty() {
            passage.verdict = self.limiter.take_at(&mut passage.chain, now);
        } else {
            self.try_kept(&mut passage, now);
        }
        passage
    }

    /// Gives back what an admitted request was charged, because it was not served after all.
    pub fn give_back(&self, passage: &mut Passage<'_>) {
        if passage.kept.all.is_empty() {
            self.limiter.give_back(&mut passage.chain);
        } else {
            self.undo(passage);
        }
    }

    /// Where the counters of a request's chain stand now. It is charged to none of them. Whoever keeps some elsewhere is
    /// asked; what cannot be told is not [known](Chain::is_known).
    pub async fn look<'f, 'n>(
        &self,
        in_force: &'f InForce,
        caller: impl Into<Named<'n>>,
        work: Work<'f>,
    ) -> Passage<'f> {
        let mut passage = self.passage_at(in_force, caller.into(), work, |_| 0);
        let now = self.limiter.clock().now();
        passage.verdict = self.limiter.take_at(&mut passage.chain, now);
        self.look_kept(&mut passage).await;
        passage
    }

    /// Makes the counter at a place of a request's chain new again; `false` if the chain has no such place, or whoever
    /// keeps the counter cannot do it now.
    pub async fn reset<'n>(
        &self,
        in_force: &InForce,
        (caller, work): (impl Into<Named<'n>>, Work<'_>),
        place: usize,
    ) -> bool {
        let caller = caller.into();
        let links = in_force.policy().chain(caller.caller.client, work);
        let Some((id, limit)) = links.clone().nth(place) else { return false };
        let identity = self.identity(in_force, caller.caller, limit, work.route());
        let passage = self.passage_at(in_force, caller, work, |_| 0);
        self.limiter.reset(in_force.rule(id), identity);
        self.reset_kept(&passage, place).await
    }

    /// A request's charges, not yet decided.
    #[inline]
    pub(crate) fn passage<'f>(
        &self,
        in_force: &'f InForce,
        caller: Named<'_>,
        work: Work<'f>,
    ) -> Passage<'f> {
        self.passage_at(in_force, caller, work, |limit| limit.cost(work.cost()))
    }

    #[inline]
    fn passage_at<'f>(
        &self,
        in_force: &'f InForce,
        named: Named<'_>,
        work: Work<'f>,
        cost: impl Fn(&PlacedLimit) -> u64,
    ) -> Passage<'f> {
        let caller = named.caller;
        let mut chain = Chain::new();
        let mut limits: SmallVec<[&PlacedLimit; 8]> = SmallVec::new();
        let mut kept = KeptPlaces::default();
        for (id, limit) in in_force.policy().chain(caller.client, work) {
            let identity = self.identity(in_force, caller, limit, work.route());
            let mut charge = Charge::new(in_force.rule(id), identity)
                .cost(cost(limit))
                .strategy(strategy(limit.strategy()));
            if in_force.keeps_elsewhere()
                && let Some(keeper) = in_force.keeper(id)
            {
                let name = || name(in_force, named, limit, work.route());
                let whose = Whose { hash: charge.counter(), identity, name: &name };
                let place = kept_place(limits.len(), (keeper, limit), named, &whose);
                if place.manner != Manner::Told {
                    charge = charge.elsewhere();
                }
                kept.all.push(place);
            }
            chain.push(charge);
            limits.push(limit);
        }
        Passage::undecided(chain, limits, kept)
    }

    #[inline]
    fn identity(
        &self,
        in_force: &InForce,
        caller: &Caller,
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

fn strategy(strategy: shapes::Strategy) -> Strategy {
    match strategy {
        shapes::Strategy::Reject => Strategy::Reject,
        shapes::Strategy::Queue => Strategy::Queue,
        shapes::Strategy::Degrade => Strategy::Degrade,
        shapes::Strategy::Observe => Strategy::Observe,
    }
}

/// A place whose counter is kept elsewhere.
fn kept_place<'f>(
    place: usize,
    (keeper, limit): (&'f Arc<dyn Keeper>, &PlacedLimit),
    named: Named<'_>,
    whose: &Whose<'_>,
) -> KeptPlace<'f> {
    let is_nameless = named.holder.is_none() && limit.counted() == Counted::User;
    let counter = match is_nameless {
        true => Err(Answered::Unavailable("Who is calling is not known by name.")),
        false => keeper.counter(whose),
    };
    KeptPlace::new(place, keeper, counter, strategy(limit.strategy()))
}

/// What the counter of a limit is called, for this caller.
fn name(
    in_force: &InForce,
    named: Named<'_>,
    limit: &PlacedLimit,
    route: Option<&RouteInForce>,
) -> String {
    let policy = in_force.policy();
    let caller = policy::Caller {
        tenant: policy.tenants().all()[named.caller.client.tenant()].id(),
        holder: named.holder.unwrap_or(Holder::Address(named.caller.address)),
        ip: Some(named.caller.address),
        route: Some(route.map_or("", RouteInForce::name)),
    };
    policy.counter_name(limit, &caller)
}
