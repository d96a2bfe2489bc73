//! The gate: the limiter and the policy in force.

use std::net::IpAddr;
use std::sync::Arc;

use tollgate_engine::{Charge, Clock, Identity, Limiter, Rule, Strategy, SystemClock, Time};
use tollgate_policy::compile::{Client, Counted, PlacedLimit, Policy, RouteInForce, Work};
use tollgate_policy::{self as policy, Holder, counted_address, shapes};
use tollgate_wire::LimitText;

use crate::caller::Caller;
use crate::elsewhere::{Answered, Elsewhere, Keeper, Manner, Whose};
use crate::in_force::InForce;
use crate::kept::KeptPlace;
use crate::passage::Passage;
use crate::waiting_room::WaitingRoom;

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

    /// Who keeps the counters of a limit, if not the limiter.
    pub(crate) fn keeper(&self, limit: &PlacedLimit, rule: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        self.elsewhere.iter().find_map(|elsewhere| elsewhere.keeper(limit, rule))
    }

    /// Puts a policy into force. Counters that an earlier one had keep their tokens, under the new figures at
    /// once; a request that is under way finishes by the policy it began with.
    pub fn enforce(&self, policy: Policy) -> Arc<InForce> {
        Arc::new(InForce::bind(policy, self))
    }

    /// At most so many counters are held from now on, here and wherever else some are kept.
    pub fn set_max_keys(&self, max_keys: usize) {
        self.limiter.set_max_keys(max_keys);
        self.elsewhere.iter().for_each(|elsewhere| elsewhere.set_max_keys(max_keys));
    }

    /// The counters.
    pub fn limiter(&self) -> &Limiter<C> {
        &self.limiter
    }

    /// Who is calling: the tenant with this number, who holds its key there, and from which address.
    #[inline]
    pub fn caller<'k>(
        &self,
        in_force: &InForce,
        tenant: usize,
        holder: Holder<'k>,
        address: IpAddr,
    ) -> Caller<'k> {
        let number = tenant;
        let tenant = in_force.tenant(number);
        let user = match holder {
            Holder::User(name) => self.limiter.identity(&(tenant, 0u8, name)),
            Holder::Key(key) => self.limiter.identity(&(tenant, 1u8, key)),
            Holder::Address(address) => {
                self.limiter.identity(&(tenant, 2u8, counted_address(address)))
            }
        };
        Caller {
            client: Client::of(in_force.policy(), number),
            tenant,
            user,
            address: counted_address(address),
            holder: Some(holder),
            own: None,
        }
    }

    /// Somebody without a key: the tenant with this number, counted by the address.
    pub fn anonymous(&self, in_force: &InForce, tenant: usize, address: IpAddr) -> Caller<'static> {
        self.caller(in_force, tenant, Holder::Address(address), address)
    }

    /// Decides a request now, all or nothing, without waiting. One that would have to wait for counters kept elsewhere is
    /// refused as [unavailable](Passage::unavailable): [`pass`](Gate::pass) waits for them.
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
        let mut passage = Passage::undecided();
        self.charge(&mut passage, in_force, (caller, work), |limit| limit.cost(work.cost()));
        self.settle(&mut passage, now);
        passage
    }

    /// [`decide`](Gate::decide), and what is then made of the passage. It is large: to return it is to copy it.
    #[inline]
    pub fn decide_then<'f, T>(
        &self,
        in_force: &'f InForce,
        (caller, work): (&Caller<'f>, Work<'f>),
        then: impl FnOnce(&Passage<'f>) -> T,
    ) -> T {
        let mut passage = Passage::undecided();
        self.charge(&mut passage, in_force, (caller, work), |limit| limit.cost(work.cost()));
        self.settle(&mut passage, self.limiter.clock().now());
        then(&passage)
    }

    /// Decides a passage as of now.
    #[inline]
    fn settle(&self, passage: &mut Passage<'_>, now: Time) {
        if passage.kept.all.is_empty() {
            passage.verdict = self.limiter.take_at(&mut passage.chain, now);
        } else {
            self.try_kept(passage, now);
        }
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
    /// asked; what cannot be told is not [known](tollgate_engine::Chain::is_known).
    pub async fn look<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
    ) -> Passage<'f> {
        let mut passage = Passage::undecided();
        self.charge(&mut passage, in_force, (caller, work), |_| 0);
        let now = self.limiter.clock().now();
        passage.verdict = self.limiter.take_at(&mut passage.chain, now);
        self.look_kept(&mut passage).await;
        passage
    }

    /// Makes the counter at a place of a request's chain new again; `false` if the chain has no such place, or whoever
    /// keeps the counter cannot do it now.
    pub async fn reset(
        &self,
        in_force: &InForce,
        (caller, work): (&Caller<'_>, Work<'_>),
        place: usize,
    ) -> bool {
        let Some(link) = links(in_force, caller, work).nth(place) else { return false };
        let identity = self.identity(in_force, caller, link.limit, work.route());
        self.limiter.reset(link.rule, identity);
        let mut passage = Passage::undecided();
        self.charge(&mut passage, in_force, (caller, work), |_| 0);
        self.reset_kept(&passage, place).await
    }

    /// Adds a request's charges.
    #[inline]
    pub(crate) fn charge<'f>(
        &self,
        passage: &mut Passage<'f>,
        in_force: &'f InForce,
        (caller, work): (&Caller<'f>, Work<'f>),
        cost: impl Fn(&PlacedLimit) -> u64,
    ) {
        let own = caller.own.and_then(|own| own.limit.degrade_to(in_force.policy()));
        passage.own_degrades_to = own;
        let mut add = |Link { rule, keeper, limit, text }: Link<'f>| {
            let identity = self.identity(in_force, caller, limit, work.route());
            let mut charge =
                Charge::new(rule, identity).cost(cost(limit)).strategy(strategy(limit.strategy()));
            if let Some(keeper) = keeper {
                let name = || name(in_force, caller, limit, work.route());
                let whose = Whose { hash: charge.counter(), identity, name: &name };
                let place = kept_place(passage.limits.len(), (keeper, limit), caller, &whose);
                if place.manner != Manner::Told {
                    charge = charge.elsewhere();
                }
                passage.kept.all.push(place);
            }
            passage.chain.push(charge);
            passage.limits.push(limit);
            passage.texts.push(text);
        };
        if let Some(own) = own_link(caller, work) {
            add(own);
        }
        policys_links(in_force, caller, work).for_each(add);
    }

    #[inline]
    pub(crate) fn identity(
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

/// A limit of a request: what its counters are charged under, and who keeps them if not the limiter.
struct Link<'f> {
    rule: &'f Rule,
    keeper: Option<&'f Arc<dyn Keeper>>,
    limit: &'f PlacedLimit,
    text: Option<&'f LimitText>,
}

/// The limits that a request is charged to, in order.
fn links<'f>(
    in_force: &'f InForce,
    caller: &Caller<'f>,
    work: Work<'f>,
) -> impl Iterator<Item = Link<'f>> {
    own_link(caller, work).into_iter().chain(policys_links(in_force, caller, work))
}

/// What a key has for itself: it goes first, unless the request is free.
#[inline]
fn own_link<'f>(caller: &Caller<'f>, work: Work<'f>) -> Option<Link<'f>> {
    let own = caller.own.filter(|_| work.cost() != Some(0))?;
    let (keeper, limit) = (own.keeper.as_ref(), own.limit.placed());
    // There may be a million of these, so nothing is kept of them in words.
    Some(Link { rule: &own.rule, keeper, limit, text: None })
}

#[inline]
fn policys_links<'f>(
    in_force: &'f InForce,
    caller: &Caller<'f>,
    work: Work<'f>,
) -> impl Iterator<Item = Link<'f>> {
    let link = |(id, limit)| Link {
        rule: in_force.rule(id),
        keeper: in_force.keeper(id),
        limit,
        text: Some(in_force.text(id)),
    };
    in_force.policy().chain(caller.client, work).map(link)
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
    caller: &Caller<'_>,
    whose: &Whose<'_>,
) -> KeptPlace<'f> {
    let is_nameless = caller.holder.is_none() && limit.counted() == Counted::User;
    let counter = match is_nameless {
        true => Err(Answered::Unavailable("Who is calling is not known by name.")),
        false => keeper.counter(whose),
    };
    KeptPlace::new(place, keeper, counter, strategy(limit.strategy()))
}

/// What the counter of a limit is called, for this caller.
fn name(
    in_force: &InForce,
    caller: &Caller<'_>,
    limit: &PlacedLimit,
    route: Option<&RouteInForce>,
) -> String {
    let policy = in_force.policy();
    let caller = policy::Caller {
        tenant: policy.tenants().all()[caller.client.tenant()].id(),
        holder: caller.holder.unwrap_or(Holder::Address(caller.address)),
        ip: Some(caller.address),
        route: Some(route.map_or("", RouteInForce::name)),
    };
    policy.counter_name(limit, &caller)
}
