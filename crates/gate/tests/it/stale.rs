//! Counters that others use too, of which too little is known here to decide by.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Barrier;
use tollgate_engine::{
    Before, Decision, FakeClock, Identity, Limiter, Refusal, Rule, Standing, Verdict,
};
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Mark, Waiting, Whose,
};
use tollgate_gate::{Caller, Gate, InForce, Passage};
use tollgate_policy::compile::{PlacedLimit, Work};
use tollgate_policy::shapes::Strategy;

use crate::{NOW, caller, policy};

/// What all keepers of a test share.
#[derive(Debug)]
struct Others {
    limiter: Arc<Limiter<FakeClock>>,
    /// Whether anything is known of them.
    is_known: AtomicBool,
    /// What they have spent of each counter.
    spent: AtomicU64,
    /// How many counters were asked for, and how many ask at the same time before any is answered.
    asked: AtomicUsize,
    together: Barrier,
    told: AtomicU64,
    /// While they cannot be told: what a charge of a limit that does not reject is answered, and how many were.
    outage: Mutex<Option<Answered>>,
    fallbacks: AtomicUsize,
}

#[derive(Debug)]
struct Shared(Arc<Others>);

#[derive(Debug)]
struct Told {
    others: Arc<Others>,
    rule: Arc<Rule>,
    identity: Mutex<Option<Identity>>,
    rejects: bool,
}

impl Elsewhere for Shared {
    fn keeper(&self, limit: &PlacedLimit, rule: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        let (others, rule) = (Arc::clone(&self.0), Arc::clone(rule));
        let rejects = limit.strategy() == Strategy::Reject;
        Some(Arc::new(Told { others, rule, identity: Mutex::default(), rejects }))
    }
}

impl Keeper for Told {
    fn manner(&self) -> Manner {
        Manner::Told
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        *self.identity.lock().unwrap() = Some(whose.identity);
        Ok(Counter::new(Arc::new(())))
    }

    fn is_stale(&self, _: &Asked<'_>) -> bool {
        !self.others.is_known.load(Relaxed)
    }

    fn refresh<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, ()> {
        Box::pin(async move {
            let Others { limiter, spent, asked, together, is_known, .. } = &*self.others;
            let identity = self.identity.lock().unwrap().unwrap();
            let left = limiter.peek(&self.rule, identity);
            assert_eq!(left.remaining, left.limit, "nothing is charged while it is waited");
            asked.fetch_add(1, Relaxed);
            together.wait().await;
            limiter.absorb_by(&self.rule, identity, Before::Kept, |_| spent.load(Relaxed));
            is_known.store(true, Relaxed);
        })
    }

    fn try_charge(&self, _: &Asked<'_>) -> Option<Answered> {
        let answered = self.others.outage.lock().unwrap().filter(|_| !self.rejects)?;
        self.others.fallbacks.fetch_add(1, Relaxed);
        Some(answered)
    }

    fn told(&self, asked: &Asked<'_>) {
        self.others.told.fetch_add(asked.cost, Relaxed);
    }

    fn look<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(std::future::ready(None))
    }

    fn reset<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// A user's limit of 10 and the tenant's of 50, of which others have spent so much.
fn shared(spent: u64, together: usize) -> (Gate<FakeClock>, Arc<InForce>, Arc<Others>) {
    with_strategy("reject", spent, together)
}

/// The same, where this becomes of whom the user's limit refuses.
fn with_strategy(
    strategy: &str,
    spent: u64,
    together: usize,
) -> (Gate<FakeClock>, Arc<InForce>, Arc<Others>) {
    let limiter = Arc::new(Limiter::with_clock(FakeClock::at(NOW), 1000));
    let others = Arc::new(Others {
        limiter: Arc::clone(&limiter),
        is_known: AtomicBool::new(false),
        spent: AtomicU64::new(spent),
        asked: AtomicUsize::new(0),
        together: Barrier::new(together),
        told: AtomicU64::new(0),
        outage: Mutex::default(),
        fallbacks: AtomicUsize::new(0),
    });
    let gate = Gate::over(limiter).keeping(Arc::new(Shared(Arc::clone(&others))));
    let in_force = gate.enforce(policy(&format!(
        "
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 10 }}, scope: user, strategy: {strategy} }} }} }}
tenants: [ {{ id: acme, plan: p, rate_limit: {{ sustained: {{ rate: 50 }} }} }} ]
"
    )));
    (gate, in_force, others)
}

fn ci<'k>(gate: &Gate<FakeClock>, in_force: &InForce) -> Caller<'k> {
    caller(gate, in_force, "acme", "ci")
}

#[tokio::test]
async fn a_request_waits_until_enough_is_known_of_all_its_counters_at_once() {
    let (gate, in_force, others) = shared(8, 2);
    let caller = ci(&gate, &in_force);
    let mut admitted = 0;
    for _ in 0..5 {
        let passage = gate.pass(&in_force, &caller, Work::default()).await;
        admitted += u64::from(passage.is_admitted());
    }
    assert_eq!(admitted, 2, "8 of 10 were spent elsewhere");
    assert_eq!(others.asked.load(Relaxed), 2, "each of the two counters, once");
    assert_eq!(others.told.load(Relaxed), 2 * admitted);
}

#[tokio::test]
async fn nobody_is_asked_for_a_request_that_is_refused_already() {
    let (gate, in_force, others) = shared(0, 1);
    let caller = ci(&gate, &in_force);
    let work = Work::operation(None, Some(11));
    assert!(!gate.pass(&in_force, &caller, work).await.is_admitted());
    assert_eq!(others.asked.load(Relaxed), 0);
}

#[tokio::test]
async fn who_cannot_wait_decides_by_what_it_knows() {
    let (gate, in_force, others) = shared(10, 1);
    let caller = ci(&gate, &in_force);
    assert!(gate.decide(&in_force, &caller, Work::default()).is_admitted());
    assert_eq!(others.asked.load(Relaxed), 0);
}

#[tokio::test]
async fn whoever_leaves_while_it_is_waited_has_charged_nothing() {
    let (gate, in_force, others) = shared(0, 3);
    let caller = ci(&gate, &in_force);
    {
        let passing = std::pin::pin!(gate.pass(&in_force, &caller, Work::default()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(passing.poll(&mut context), Poll::Pending));
        assert_eq!(others.asked.load(Relaxed), 2);
    }
    let passage = gate.look(&in_force, &caller, Work::default()).await;
    let left: Vec<_> = (0..2).map(|place| passage.chain().standing(place).remaining).collect();
    assert_eq!((left, others.told.load(Relaxed)), (vec![10, 50], 0));
}

/// An outage: what the fallback refuses stayed charged, and was told to the others when they were back.
#[tokio::test]
async fn what_the_fallback_refuses_is_skipped_and_neither_charged_nor_told() {
    let standing = Standing { limit: 5, remaining: 0, reset_after: Duration::from_secs(1) };
    let refused = Decision { refusal: Some(Refusal::Wait(1)), standing };
    for answered in
        [Answered::Decided(refused, Mark::default()), Answered::Unavailable("Nobody can count it.")]
    {
        for (strategy, verdict) in
            [("degrade", Verdict::Degraded { by: 0 }), ("observe", Verdict::Admitted)]
        {
            let (gate, in_force, others) = with_strategy(strategy, 0, 1);
            others.is_known.store(true, Relaxed);
            *others.outage.lock().unwrap() = Some(answered);
            let mut passage = gate.pass(&in_force, &ci(&gate, &in_force), Work::default()).await;
            let left = |passage: &Passage<'_>| {
                [0, 1].map(|place| passage.chain().standing(place).remaining)
            };
            assert_eq!(passage.verdict(), verdict);
            assert_eq!(passage.observed().count(), usize::from(strategy == "observe"));
            assert_eq!(left(&passage), [10, 49], "{strategy}, {answered:?}");
            assert_eq!(others.told.load(Relaxed), 1, "only the tenant's is charged, and told");
            // Nothing of it is there to be given back a second time.
            gate.give_back(&mut passage);
            let passage = gate.look(&in_force, &ci(&gate, &in_force), Work::default()).await;
            assert_eq!(left(&passage), [10, 50]);
        }
    }
}

/// A charge that the limiter skips is none of the fallback's: its share lost what nobody was charged.
#[tokio::test]
async fn the_fallback_is_not_asked_for_what_the_limiter_refuses() {
    for strategy in ["degrade", "observe"] {
        let (gate, in_force, others) = with_strategy(strategy, 0, 1);
        others.is_known.store(true, Relaxed);
        *others.outage.lock().unwrap() = Some(Answered::Uncounted);
        for _ in 0..13 {
            let caller = ci(&gate, &in_force);
            assert!(gate.pass(&in_force, &caller, Work::default()).await.is_admitted());
        }
        assert_eq!(others.fallbacks.load(Relaxed), 10, "{strategy}");
        assert_eq!(others.told.load(Relaxed), 10 + 13);
    }
}
