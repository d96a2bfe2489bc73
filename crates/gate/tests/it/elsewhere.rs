//! Counters that are kept elsewhere, of which one has to be waited for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_engine::{Clock, Decision, FakeClock, Rule, Standing, Time};
use tollgate_gate::Gate;
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Mark, Waiting, Whose,
};
use tollgate_policy::compile::{Counted, PlacedLimit, Work};

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
