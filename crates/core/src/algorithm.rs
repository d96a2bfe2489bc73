//! The one interface all six algorithms have.

use crate::{Decision, Refusal, Standing, Time};

/// Proof of one charge, with which it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub(crate) cost: u64,
    /// Where in time the charge stands; only the algorithm that wrote it can read it.
    pub(crate) mark: u128,
}

impl Receipt {
    /// What was charged.
    pub const fn cost(&self) -> u64 {
        self.cost
    }
}

/// An algorithm with its figures: pure functions of a state, a cost and a moment.
///
/// Asking ([`refusal`](Algorithm::refusal)) and charging ([`charge`](Algorithm::charge)) are apart,
/// because a chain of limits is decided all or nothing: every limit is asked first, and only if all
/// agree are they charged, under the same locks. [`decide`](Algorithm::decide) does both for one limit.
///
/// No function panics, allocates (the log aside) or reads a clock, whatever it is given. Time that
/// stands still, jumps or goes backwards grants nothing.
pub trait Algorithm {
    /// What is remembered of one identity. Its default is a counter nobody has charged yet.
    type State: Clone + Default;

    /// Why a charge of `cost` would not pass now; `None` if it would. Consumes nothing.
    fn refusal(&self, state: &Self::State, cost: u64, now: Time) -> Option<Refusal>;

    /// Charges `cost` without asking. More than is there leaves a debt that later time pays off.
    fn charge(&self, state: &mut Self::State, cost: u64, now: Time);

    /// Charges if nothing speaks against it; otherwise tells what does.
    #[inline]
    fn take(&self, state: &mut Self::State, cost: u64, now: Time) -> Option<Refusal> {
        let refusal = self.refusal(state, cost, now);
        if refusal.is_none() {
            self.charge(state, cost, now);
        }
        refusal
    }

    /// The receipt of the charge of `cost` that left the counter in the state `charged`.
    fn receipt(&self, charged: &Self::State, cost: u64) -> Receipt;

    /// Takes a charge back.
    ///
    /// What time has meanwhile paid off is not given a second time: afterwards the counter never
    /// admits more than if the charge had not been made, and exactly as much where nothing was paid off
    /// in vain. `now` must not be before a charge that was made since: a state does not tell when that was.
    fn give_back(&self, state: &mut Self::State, receipt: Receipt, now: Time);

    /// Where the counter stands.
    fn standing(&self, state: &Self::State, now: Time) -> Standing;

    /// The moment from which the counter equals a new one, so that it may be forgotten losslessly.
    fn renewed_at(&self, state: &Self::State) -> Time;

    /// The whole step as one function: `(state, cost, now) → (state, decision)`.
    fn decide(&self, mut state: Self::State, cost: u64, now: Time) -> (Self::State, Decision) {
        let refusal = self.take(&mut state, cost, now);
        let standing = self.standing(&state, now);
        (state, Decision { refusal, standing })
    }
}
