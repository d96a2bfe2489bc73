//! The algorithms whose state fits in 16 bytes, as one.

use crate::fixed_window::FixedWindow;
use crate::meter::Meter;
use crate::quota::Quota;
use crate::sliding_window::SlidingWindow;
use crate::{Algorithm, Receipt, Refusal, Standing, State, Time};

/// Every algorithm but the log, made by building a [`Limit`](crate::Limit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat(pub(crate) Steps);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    Meter(Meter),
    FixedWindow(FixedWindow),
    SlidingWindow(SlidingWindow),
    /// Boxed: a time zone is larger than all other figures together.
    Quota(Box<Quota>),
}

/// Calls the same step of whichever algorithm it is.
macro_rules! each {
    ($flat:expr, $steps:ident => $call:expr) => {
        match &$flat.0 {
            Steps::Meter($steps) => $call,
            Steps::FixedWindow($steps) => $call,
            Steps::SlidingWindow($steps) => $call,
            Steps::Quota($steps) => $call,
        }
    };
}

impl Flat {
    /// The state under these figures of a counter that `old` wrote, changed over at `at`.
    ///
    /// Meters keep their tokens: clamped to a lower capacity, not filled to a higher one. Windows
    /// and quotas keep what was charged, which is what they store.
    pub fn adopt(&self, old: &Flat, state: State, at: Time) -> State {
        match (&self.0, &old.0) {
            (Steps::Meter(new), Steps::Meter(old)) => new.adopt(old, state, at),
            _ => state,
        }
    }

    #[inline(never)]
    fn take_from_window(&self, mut state: State, cost: u64, now: Time) -> (Option<Refusal>, State) {
        (each!(self, steps => steps.take(&mut state, cost, now)), state)
    }
}

impl Algorithm for Flat {
    type State = State;

    #[inline]
    fn refusal(&self, state: &State, cost: u64, now: Time) -> Option<Refusal> {
        each!(self, steps => steps.refusal(state, cost, now))
    }

    #[inline]
    fn charge(&self, state: &mut State, cost: u64, now: Time) {
        each!(self, steps => steps.charge(state, cost, now));
    }

    #[inline]
    fn take(&self, state: &mut State, cost: u64, now: Time) -> Option<Refusal> {
        match &self.0 {
            // By far the most common, and small enough to keep its state in registers.
            Steps::Meter(meter) => meter.take(state, cost, now),
            _ => {
                // A copy, so that only it must live in memory.
                let (refusal, next) = self.take_from_window(*state, cost, now);
                *state = next;
                refusal
            }
        }
    }

    #[inline]
    fn receipt(&self, charged: &State, cost: u64) -> Receipt {
        each!(self, steps => steps.receipt(charged, cost))
    }

    fn give_back(&self, state: &mut State, receipt: Receipt, now: Time) {
        each!(self, steps => steps.give_back(state, receipt, now));
    }

    #[inline]
    fn standing(&self, state: &State, now: Time) -> Standing {
        each!(self, steps => steps.standing(state, now))
    }

    #[inline]
    fn renewed_at(&self, state: &State) -> Time {
        each!(self, steps => steps.renewed_at(state))
    }
}
