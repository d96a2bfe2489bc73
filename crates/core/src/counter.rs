//! One identity under one limit, for whoever needs no store.

use crate::limit::Form;
use crate::{Algorithm, Decision, Limit, Log, Receipt, Standing, State, Time};

/// A limit together with the state of one identity under it.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Counter, Limit, Rate, Time};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let mut counter = Counter::new(Limit::token_bucket(Rate::per_second(10)).burst(2).build()?);
/// let now = Time::from_secs(1_700_000_000);
///
/// assert!(counter.take(2, now).is_allowed());
/// let refused = counter.take(1, now);
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
/// assert!(counter.take(1, now + Duration::from_millis(100)).is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    limit: Limit,
    held: Held,
}

#[derive(Clone, Debug)]
enum Held {
    Flat(State),
    Log(Log),
}

/// Runs `$call` with the steps and the state, of whichever kind they are.
macro_rules! on {
    ($limit:expr, $held:expr, |$steps:ident, $state:ident| $call:expr) => {
        match ($limit.form(), $held) {
            (Form::Flat($steps), Held::Flat($state)) => $call,
            (Form::Log($steps), Held::Log($state)) => $call,
            // `new` pairs them, and neither changes its variant afterwards.
            (Form::Flat(_), Held::Log(_)) | (Form::Log(_), Held::Flat(_)) => unreachable!(),
        }
    };
}

impl Counter {
    /// A counter nobody has charged yet.
    pub fn new(limit: Limit) -> Counter {
        let held = match limit.form() {
            Form::Flat(_) => Held::Flat(State::NEW),
            Form::Log(_) => Held::Log(Log::default()),
        };
        Counter { limit, held }
    }

    /// The limit it counts under.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Charges `cost` if it passes.
    pub fn take(&mut self, cost: u64, now: Time) -> Decision {
        on!(self.limit, &mut self.held, |steps, state| {
            let (next, decision) = steps.decide(std::mem::take(state), cost, now);
            *state = next;
            decision
        })
    }

    /// What [`take`](Counter::take) would answer, without consuming.
    pub fn peek(&self, cost: u64, now: Time) -> Decision {
        self.clone().take(cost, now)
    }

    /// Charges `cost` without asking; more than is there leaves a debt.
    pub fn charge(&mut self, cost: u64, now: Time) -> Receipt {
        on!(self.limit, &mut self.held, |steps, state| {
            steps.charge(state, cost, now);
            steps.receipt(state, cost)
        })
    }

    /// Takes a charge back, at a moment that is not before any charge made since.
    pub fn give_back(&mut self, receipt: Receipt, now: Time) {
        on!(self.limit, &mut self.held, |steps, state| steps.give_back(state, receipt, now));
    }

    /// Where it stands.
    pub fn standing(&self, now: Time) -> Standing {
        on!(self.limit, &self.held, |steps, state| steps.standing(state, now))
    }
}
