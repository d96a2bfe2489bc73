//! Live counters: what limits somebody now, and how much of it is left.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::{Kind, Rate, Time};
use tollgate_engine::Clock;
use tollgate_gate::{Caller, Gate, InForce, OwnLimit};
use tollgate_policy::compile::{
    ANONYMOUS, Counted, KeyInForce, PlacedLimit, Policy, RouteInForce, Work,
};
use tollgate_policy::shapes::RateLimit;
use tollgate_policy::{Caller as Named, Holder, Question};

use crate::times::Moment;

/// Whose counters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Whose {
    /// The tenant.
    pub tenant: String,
    /// The user inside it; of `anonymous`, whose callers have no key, their address. Without user and key, only counters that
    /// all of a tenant share are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The id of a key, for keys that name no user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The plan; the key's or the tenant's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Method and path of a request: `POST /v1/x`. Without it, limits of routes are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The caller's address. Without it, limits that count addresses are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ip: Option<IpAddr>,
    /// The limit that the key has for itself, if the API issued it.
    #[serde(skip)]
    pub own: Option<OwnTerms>,
}

/// The limit of a key that the API issued: the storage knows it, and no policy does.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnTerms {
    /// The key's id.
    pub id: String,
    /// The first key of its line of rotations.
    pub origin: String,
    /// The limit as it was written.
    pub rate_limit: RateLimit,
}

impl OwnTerms {
    /// The limit over the counters of a gate. Whoever looks, or makes a counter new, has no say in its figures: the key may
    /// have been replaced, or changed since it was read.
    fn bind<C: Clock>(&self, gate: &Gate<C>, policy: &Policy) -> Option<OwnLimit> {
        let OwnTerms { id, origin, rate_limit } = self;
        gate.own_limit_of_line(policy, tollgate_gate::OwnTerms { id, origin, rate_limit })
    }
}

/// One counter as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LiveLimit {
    /// The counter's name, by which it is reset.
    pub counter: String,
    /// Its name in headers.
    pub policy: String,
    /// Where the limit stands: `tenant:acme`, `plan:free`.
    pub source: String,
    /// Where it is written; nothing if it is built in or was made by the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whose requests share the counter.
    pub scope: String,
    /// How it counts.
    pub algorithm: String,
    /// Tokens a window, or a quota's limit.
    pub rate: u64,
    /// The window or period.
    pub window: String,
    /// The burst capacity, the window's limit, or the quota.
    pub capacity: u64,
    /// The largest cost that would pass at `last_refill`.
    pub tokens: u64,
    /// The moment that `tokens` is of. Counters are refilled when they are looked at, so it is now.
    pub last_refill: Moment,
    /// When it is full again, or the window ends.
    pub reset_at: Moment,
    /// What becomes of a request above it.
    #[schemars(with = "String")]
    pub strategy: tollgate_policy::shapes::Strategy,
    /// What such a request is charged.
    pub cost: u64,
}

/// The question names something that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuch(pub String);

impl fmt::Display for NoSuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoSuch {}

/// The live counters of somebody, over a gate.
///
/// # Errors
///
/// If the question names something that the policy does not have.
pub fn look<C: Clock>(
    gate: &Gate<C>,
    in_force: &InForce,
    whose: &Whose,
) -> Result<Vec<LiveLimit>, NoSuch> {
    let own = whose.own.as_ref().and_then(|own| own.bind(gate, in_force.policy()));
    let asked = Asked::of(gate, in_force, (whose, own.as_ref()))?;
    let passage = waited_for(gate.look(in_force, &asked.caller, asked.work));
    let now = passage.chain().decided_at();
    let is_told =
        |place: &usize| passage.chain().is_known(*place) && asked.is_told(passage.limit(*place));
    let told = (0..passage.len()).filter(is_told);
    Ok(told
        .map(|place| {
            let limit = passage.limit(place);
            let standing = passage.chain().standing(place);
            let nanos = u64::try_from(standing.reset_after.as_nanos()).unwrap_or(u64::MAX);
            let figures = limit.limit();
            LiveLimit {
                counter: asked.counter(in_force.policy(), limit),
                policy: passage.name(place).to_string(),
                source: limit.source().to_owned(),
                file: limit.line().map(|line| format!("{}:{line}", in_force.policy().file())),
                scope: limit.scope().name().to_owned(),
                algorithm: algorithm(figures.kind()).to_owned(),
                rate: figures.rate().map_or(figures.capacity(), Rate::tokens),
                window: figures.span().name().to_owned(),
                capacity: figures.capacity(),
                tokens: standing.remaining,
                last_refill: Moment(now),
                reset_at: Moment(Time::from_nanos(now.as_nanos().saturating_add(nanos))),
                strategy: limit.strategy(),
                cost: limit.cost(asked.work.cost()),
            }
        })
        .collect())
}

/// Makes one counter of somebody new again, over a gate; `false` if there is no such counter.
///
/// # Errors
///
/// If the question names something that the policy does not have.
pub fn reset<C: Clock>(
    gate: &Gate<C>,
    in_force: &InForce,
    (whose, counter): (&Whose, &str),
) -> Result<bool, NoSuch> {
    let own = whose.own.as_ref().and_then(|own| own.bind(gate, in_force.policy()));
    let asked = Asked::of(gate, in_force, (whose, own.as_ref()))?;
    let passage = waited_for(gate.look(in_force, &asked.caller, asked.work));
    let place = (0..passage.len()).find(|place| {
        let limit = passage.limit(*place);
        asked.is_told(limit) && asked.counter(in_force.policy(), limit) == counter
    });
    let reset = |place| waited_for(gate.reset(in_force, (&asked.caller, asked.work), place));
    Ok(place.is_some_and(reset))
}

/// Waits on this thread, which is one that may wait: counters that are kept elsewhere have to be asked for.
fn waited_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// A question whose names have been found.
struct Asked<'f> {
    whose: &'f Whose,
    caller: Caller<'f>,
    work: Work<'f>,
}

impl<'f> Asked<'f> {
    fn of<C: Clock>(
        gate: &Gate<C>,
        in_force: &'f InForce,
        (whose, own): (&'f Whose, Option<&'f OwnLimit>),
    ) -> Result<Asked<'f>, NoSuch> {
        let policy = in_force.policy();
        // It finds routes as people write them, and says of any name what would be right.
        let explained = policy
            .explain(&Question {
                tenant: &whose.tenant,
                user: whose.user.as_deref(),
                plan: whose.plan.as_deref(),
                route: whose.route.as_deref(),
            })
            .map_err(|why| NoSuch(why.to_string()))?;
        let route = explained.route.and_then(|name| {
            policy.routes().iter().find(|route: &&RouteInForce| route.name() == name)
        });
        let missing = || NoSuch(format!("there is no tenant `{}`", whose.tenant));
        let tenant = policy.tenants().number(&whose.tenant).ok_or_else(missing)?;
        let holder = holder(whose);
        let address = whose.ip.unwrap_or(match holder {
            Some(Holder::Address(address)) => address,
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        });
        let caller = match holder {
            Some(holder) => gate.caller(in_force, tenant, holder, address),
            None => gate.anonymous(in_force, tenant, address),
        };
        let declared = declared_key(policy, tenant, whose);
        let plan = whose.plan.as_deref().and_then(|name| policy.plan(name));
        Ok(Asked {
            whose,
            caller: caller
                .with_plan(plan.or(declared.and_then(KeyInForce::plan)))
                .with_limit(declared.and_then(KeyInForce::limit))
                .with_own(own),
            work: route.map_or_else(Work::default, Work::on),
        })
    }

    /// Whether the question says enough to know which counter it is.
    fn is_told(&self, limit: &PlacedLimit) -> bool {
        match limit.counted() {
            Counted::Everybody | Counted::Node(_) | Counted::Tenant => true,
            // Callers of `anonymous` are counted by their address.
            Counted::User => holder(self.whose).is_some(),
            Counted::Ip => self.whose.ip.is_some(),
            Counted::Route => self.work.route().is_some(),
        }
    }

    fn counter(&self, policy: &Policy, limit: &PlacedLimit) -> String {
        let named = Named {
            tenant: &self.whose.tenant,
            holder: holder(self.whose).unwrap_or(Holder::User("")),
            ip: self.whose.ip,
            route: self.work.route().map(RouteInForce::name),
        };
        policy.counter_key(limit, &named)
    }
}

/// Who is counted. Whoever calls without a key is its address, by whichever name that was asked for.
fn holder(whose: &Whose) -> Option<Holder<'_>> {
    let is_anonymous = whose.tenant == ANONYMOUS;
    let user = whose.user.as_deref().map(|user| match user.parse() {
        Ok(address) if is_anonymous => Holder::Address(address),
        _ => Holder::User(user),
    });
    let key = || whose.key.as_deref().map(Holder::Key);
    let address = || whose.ip.filter(|_| is_anonymous).map(Holder::Address);
    user.or_else(key).or_else(address)
}

/// The file's key that is meant: by its id, or the only one of its user.
fn declared_key<'p>(policy: &'p Policy, tenant: usize, whose: &Whose) -> Option<&'p KeyInForce> {
    if let Some(id) = &whose.key {
        return policy.keys().iter().find(|key| key.id() == id && key.tenant() == tenant);
    }
    let user = whose.user.as_deref()?;
    let mut keys =
        policy.keys().iter().filter(|key| key.tenant() == tenant && key.user() == Some(user));
    let first = keys.next();
    first.filter(|_| keys.next().is_none())
}

fn algorithm(kind: Kind) -> &'static str {
    match kind {
        // A quota is a fixed window too, by the calendar.
        Kind::Quota => Kind::FixedWindow.name(),
        kind => kind.name(),
    }
}
