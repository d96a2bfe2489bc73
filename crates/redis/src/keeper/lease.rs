//! Counters of which this node holds slices.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Clock, Decision, Identity};
use tollgate_gate::elsewhere::{Answered, Asked, Counter, Keeper, Manner, Mark, Waiting, Whose};

use super::fallback::{BY_SHARE, Owing};
use super::outage::{Common, Outage};
use super::{Shared, Terms};
use crate::Leases;
use crate::held::{Held, Spent};

/// `Retry-After` is a second or more.
const MOST_TRUST: Duration = Duration::from_secs(1);

/// Keeps the leased counters of one limit.
pub(super) struct LeaseKeeper<C>(pub(super) Arc<Terms<C>>);

impl<C> fmt::Debug for LeaseKeeper<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One leased counter.
#[derive(Debug)]
pub(super) struct Leased {
    held: Arc<Held>,
    identity: Identity,
    outage: Outage,
    leases: Leases,
}

/// Whoever drops it last returns what is left of it.
impl Drop for Leased {
    fn drop(&mut self) {
        self.leases.give_up_later(&self.held);
    }
}

impl Leased {
    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// What was admitted while nothing could be leased is paid from what is leased next.
    pub(super) fn recover<C: Clock>(&self, shared: &Shared<C>) -> bool {
        self.owe(shared);
        self.outage.settle()
    }

    fn owe<C: Clock>(&self, shared: &Shared<C>) {
        let figures = self.held.figures.lock().clone();
        let debt = self.outage.take_debt(&shared.limiter, self.identity, &figures);
        self.held.owe(debt.admitted, debt.unpaid, debt.in_view);
    }
}

/// A slice's mark is a moment or a turn since 1970, so it is never [`BY_SHARE`].
fn charged(spent: Spent) -> Answered {
    Answered::Decided(spent.decision, Mark(spent.mark as u64))
}

impl<C: Clock + 'static> LeaseKeeper<C> {
    /// For how long a refusal by Redis is believed: τ, as long as a hybrid counter goes without its word, and no longer than anybody is
    /// told to wait at least.
    fn trust(&self) -> Duration {
        (self.0.shared.hybrid.staleness() / 2).min(MOST_TRUST)
    }

    fn fall_back(&self, asked: &Asked<'_>, leased: &Leased) -> Answered {
        let owing = || Owing::Leased(asked.counter.clone());
        let of = (&leased.outage, leased.identity);
        self.0.shared.fall_back(&self.0.share, of, (asked.cost, owing, None))
    }
}

impl<C: Clock + 'static> Keeper for LeaseKeeper<C> {
    fn manner(&self) -> Manner {
        Manner::Alone
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        let Terms { shared, figures, newest, .. } = &*self.0;
        // A quota's counter may have callers of several limits, as a tenant's under two plans: what was granted or refused under one
        // says nothing of the other, but in an outage they have one share. Any other counter has one limit at a time, and a slice
        // outlasts a change of it.
        let is_quota = figures.limit().calendar().is_some();
        let outage = || {
            let of_all = || shared.quotas.get_or(whose.hash, || Ok(Common::default()), || ());
            let common = is_quota.then(of_all).and_then(Result::ok);
            Outage::of(common.unwrap_or_default())
        };
        let make = || {
            let key = shared.key(&(whose.name)());
            Leased {
                held: Arc::new(Held::new(key, figures, Some(Arc::clone(newest)))),
                identity: whose.identity,
                outage: outage(),
                leases: shared.leases.clone(),
            }
        };
        let of_plan = if is_quota { u128::from(figures.capacity()) } else { 0 };
        let held = shared.leased.get_or(whose.hash ^ of_plan, || Ok::<_, ()>(make()), || ());
        // Of more counters than may be held, each request leases what it costs, for itself.
        Ok(Counter::new(held.unwrap_or_else(|()| Arc::new(make()))))
    }

    /// A counter that is used up is asked for now and then and not by every request: each would charge the rest of its chain for a round
    /// trip only to give it back.
    #[inline]
    fn foresee(&self, asked: &Asked<'_>) -> Option<Decision> {
        let held = &asked.counter.get::<Leased>()?.held;
        let foreseen = held.foresee(&self.0.figures, asked.cost, || self.trust());
        // While Redis cannot be asked the fallback decides.
        foreseen.filter(|_| self.0.shared.strict.is_up())
    }

    /// Who is refused already is told the longest wait that is known of. What was returned or made new elsewhere meanwhile would make
    /// that too long, so where it is old it is asked for in the background, for whoever comes next.
    fn know(&self, asked: &Asked<'_>) -> Option<Decision> {
        let held = &asked.counter.get::<Leased>()?.held;
        let Terms { shared, figures, .. } = &*self.0;
        if !shared.strict.is_up() {
            return Some(held.known(figures));
        }
        let Some((refused, age)) = held.refusal(figures, asked.cost) else {
            return Some(held.known(figures));
        };
        if age >= self.trust() {
            shared.leases.ask_ahead(held, figures, None);
        }
        Some(refused)
    }

    #[inline]
    fn try_charge(&self, asked: &Asked<'_>) -> Option<Answered> {
        let shared = &self.0.shared;
        let leased = asked.counter.get::<Leased>()?;
        let wanted = (&self.0.figures, asked.cost);
        match shared.leases.spend_of(&leased.held, wanted, Some(asked.now)) {
            Some(spent) => Some(charged(spent)),
            None if shared.strict.is_up() => None,
            None => Some(self.fall_back(asked, leased)),
        }
    }

    fn charge<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Answered> {
        Box::pin(async move {
            let Some(leased) = asked.counter.get::<Leased>() else { return Answered::Uncounted };
            let Terms { shared, figures, .. } = &*self.0;
            let deadline = shared.deadline(asked.now);
            let wanted = (figures, asked.cost);
            // Else the slice that this request brings would be spent before it has paid.
            if leased.outage.owes() {
                leased.owe(shared);
            }
            let decided =
                shared.leases.take_of(&leased.held, wanted, (Some(asked.now), deadline)).await;
            let Ok(spent) = decided else { return self.fall_back(&asked, leased) };
            let standing = spent.decision.standing;
            let remaining = standing.remaining.saturating_sub(leased.held.owed());
            let renewed = shared.limiter.clock().now() + standing.reset_after;
            leased.outage.note((remaining, standing.limit), renewed);
            charged(spent)
        })
    }

    fn give_back(&self, asked: &Asked<'_>, mark: Mark) {
        let Some(leased) = asked.counter.get::<Leased>() else { return };
        let Terms { shared, share, .. } = &*self.0;
        if mark == BY_SHARE {
            shared.restore(share, (&leased.outage, leased.identity), asked.cost);
        } else {
            leased.held.unspend(asked.cost, mark.0 as i64);
        }
    }

    fn look<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(async move {
            let leased = asked.counter.get::<Leased>()?;
            let (strict, held) = (&self.0.shared.strict, &leased.held);
            let mut decision = strict.peek(held.key(), &self.0.figures, asked.cost).await.ok()?;
            // What this node holds is its callers' too.
            let standing = &mut decision.standing;
            let all = standing.remaining.saturating_add(held.left());
            standing.remaining = all.min(standing.limit);
            Some(decision)
        })
    }

    fn reset<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(async move {
            let Some(leased) = asked.counter.get::<Leased>() else { return false };
            let shared = &self.0.shared;
            // What is held was granted of the counter that is forgotten.
            let _ = shared.leases.give_up(&leased.held).await;
            let is_new = shared.strict.reset(leased.held.key()).await.is_ok();
            leased.held.forget();
            is_new
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_engine::{FakeClock, Limiter, Time};
    use tollgate_gate::elsewhere::Elsewhere;
    use tollgate_policy::compile::{PlacedLimit, Policy};
    use tollgate_policy::shapes::{Consistency, Fallback};

    use super::*;
    use crate::{Settings, SharedCounters, Sharing};

    const POLICY: &str = "
rate_limit_sync: { enabled: true }
plans: { a: { rate_limit: { algorithm: token_bucket, sustained: { rate: 100, window: second },
    scope: user, consistency: lease } } }
tenants: [ { id: acme, plan: a } ]
";

    /// Redis grants nothing for an hour, and the node admits its share all the while.
    #[tokio::test]
    async fn time_pays_off_what_is_owed_of_a_bucket() {
        let clock = FakeClock::at(Time::from_nanos(1_767_225_600_000_000_000));
        let limiter = Arc::new(Limiter::with_clock(clock.clone(), 100));
        let sharing = Sharing {
            // Nobody listens there.
            settings: Settings::new("redis://127.0.0.1:1").unwrap(),
            prefix: "tollgate".to_owned(),
            interval: Duration::from_secs(1),
            fallback: Fallback::LocalOnly,
            max_keys: 100,
        };
        let counters = SharedCounters::start(sharing, &limiter);
        let policy = Policy::of("policy.yaml", POLICY.as_bytes()).unwrap();
        let is_leased = |limit: &&PlacedLimit| limit.consistency() == Consistency::Lease;
        let limit = policy.limits().iter().find(is_leased).unwrap();
        let rule = limiter.define(limit.counter(), limit.limit().clone());
        let keeper = counters.keeper(limit, &rule).unwrap();
        let identity = limiter.identity("one");
        let whose = Whose { hash: 1, identity, name: &|| "one".to_owned() };
        let counter = keeper.counter(&whose).unwrap();
        let leased = counter.get::<Leased>().unwrap();
        for second in 0..3600 {
            let asked = Asked { counter: &counter, cost: 1, now: limiter.clock().now() };
            let is_made = |answered| {
                matches!(answered, Some(Answered::Decided(Decision { refusal: None, .. }, _)))
            };
            let admitted = (0..150).filter(|_| is_made(keeper.try_charge(&asked))).count();
            assert_eq!(admitted, 100, "in second {second}");
            leased.recover(&counters.0);
            assert_eq!(leased.held.owed(), 100, "in second {second}");
            clock.advance(Duration::from_secs(1));
        }
    }
}
