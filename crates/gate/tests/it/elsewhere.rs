//! Counters that are kept elsewhere, of which one has to be waited for.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_engine::{Clock, Decision, FakeClock, Refusal, Rule, Standing, Time};
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Mark, Together, TogetherAnswered, Waiting,
    Whose,
};
use tollgate_gate::{Gate, Lines};
use tollgate_policy::compile::{Counted, PlacedLimit, Work};
use tollgate_policy::shapes::Strategy;

use crate::{NOW, caller, policy};

/// Keeps users' counters so that they have to be waited for, and all others at hand.
#[derive(Debug)]
struct Afar {
    clock: FakeClock,
    /// When those at hand were charged.
    charged: Arc<Mutex<Vec<Time>>>,
}

#[derive(Debug)]
struct Kept {
    /// Who waits a second for it, by this clock.
    waits: Option<FakeClock>,
    charged: Arc<Mutex<Vec<Time>>>,
}

const SECOND: Duration = Duration::from_secs(1);

fn passes() -> Answered {
    let standing = Standing { limit: 10, remaining: 5, reset_after: SECOND };
    Answered::Decided(Decision { refusal: None, standing }, Mark::default())
}

impl Elsewhere for Afar {
    fn keeper(&self, limit: &PlacedLimit, _: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        let waits = (limit.counted() == Counted::User).then(|| self.clock.clone());
        Some(Arc::new(Kept { waits, charged: Arc::clone(&self.charged) }))
    }
}

impl Keeper for Kept {
    fn manner(&self) -> Manner {
        Manner::Alone
    }

    fn counter(&self, _: &Whose<'_>) -> Result<Counter, Answered> {
        Ok(Counter::new(Arc::new(())))
    }

    fn try_charge(&self, asked: &Asked<'_>) -> Option<Answered> {
        if self.waits.is_some() {
            return None;
        }
        self.charged.lock().unwrap().push(asked.now);
        Some(passes())
    }

    fn charge<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Answered> {
        Box::pin(async move {
            let clock = self.waits.as_ref().unwrap();
            assert_eq!(asked.now, clock.now(), "it waits from when the request began");
            clock.advance(SECOND);
            passes()
        })
    }

    fn look<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(std::future::ready(None))
    }

    fn reset<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// What lives only for so long must not be judged by when the request began.
#[tokio::test]
async fn whoever_is_asked_after_a_wait_is_told_the_present_moment() {
    let (clock, charged) = (FakeClock::at(NOW), Arc::<Mutex<Vec<Time>>>::default());
    let afar = Afar { clock: clock.clone(), charged: Arc::clone(&charged) };
    let gate = Gate::with_clock(clock, 1000).keeping(Arc::new(afar));
    let in_force = gate.enforce(policy(
        "
plans: { p: { rate_limit: { sustained: { rate: 10 }, scope: user } } }
tenants: [ { id: acme, plan: p, rate_limit: { sustained: { rate: 50 } } } ]
",
    ));
    let caller = caller(&gate, &in_force, "acme", "ci");
    assert!(gate.pass(&in_force, &caller, Work::default()).await.is_admitted());
    assert_eq!(*charged.lock().unwrap(), [NOW + SECOND]);
}

/// Keeps the counters of limits with a line, and has nothing left of them.
#[derive(Debug)]
struct UsedUp;

impl Elsewhere for UsedUp {
    fn keeper(&self, limit: &PlacedLimit, _: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        (limit.strategy() == Strategy::Queue).then(|| Arc::new(UsedUp) as Arc<dyn Keeper>)
    }
}

impl Keeper for UsedUp {
    fn manner(&self) -> Manner {
        Manner::Together
    }

    fn counter(&self, _: &Whose<'_>) -> Result<Counter, Answered> {
        Ok(Counter::new(Arc::new(())))
    }

    fn charge_together<'a>(&'a self, asked: &'a [Together<'a>]) -> Waiting<'a, TogetherAnswered> {
        let standing = Standing { limit: 50, remaining: 0, reset_after: SECOND };
        let refusal = Some(Refusal::Wait(SECOND.as_nanos() as u64));
        let refused = Answered::Decided(Decision { refusal, standing }, Mark::default());
        let answers = asked.iter().map(|_| refused).collect();
        Box::pin(std::future::ready(TogetherAnswered { answers, give_back: None }))
    }

    fn look<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(std::future::ready(None))
    }

    fn reset<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// Whoever finds the line full has never asked; it is told of the limit with the line all the same.
#[tokio::test(start_paused = true)]
async fn whoever_may_not_stand_in_line_is_refused_by_the_limit_it_would_wait_for() {
    let gate = Gate::with_clock(FakeClock::at(NOW), 1000).keeping(Arc::new(UsedUp));
    let in_force = gate.enforce(policy(
        "
plans: { p: { rate_limit: { sustained: { rate: 10 }, scope: user } } }
tenants:
  - id: acme
    plan: p
    rate_limit: { sustained: { rate: 50 }, strategy: queue, queue: { max_wait_ms: 60000, max_depth: 1 } }
",
    ));
    let caller = caller(&gate, &in_force, "acme", "ci");
    let mut first = pin!(gate.pass(&in_force, &caller, Work::default()));
    tokio::select! {
        biased;
        _ = &mut first => panic!("it waits"),
        () = std::future::ready(()) => (),
    }
    let second = gate.pass(&in_force, &caller, Work::default()).await;
    let by = second.refused_by().unwrap();
    assert_eq!(second.name(by).to_string(), "tenant-second");
    let lines = Lines::of(&second);
    let told = lines.report();
    let reported = told.reported().unwrap();
    assert_eq!(reported.name(), second.name(by));
    assert_eq!((reported.standing().limit, reported.standing().remaining), (50, 0));
}
