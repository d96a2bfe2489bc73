//! Fixed window: at most `limit` in each window, aligned to UTC.
//!
//! The state is the index of a window since the epoch and what was charged in it. When time goes
//! backwards the counter stays in the later window, so that none is ever counted in twice.

use crate::{Algorithm, Receipt, Refusal, Standing, State, Time, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    limit: u64,
    window: Window,
}

/// The window a counter is in, and what was charged in it.
struct View {
    index: u64,
    used: u64,
}

impl FixedWindow {
    pub(crate) fn new(limit: u64, window: Window) -> FixedWindow {
        FixedWindow { limit, window }
    }

    fn view(&self, state: State, now: Time) -> View {
        let stored = View { index: (state.to_bits() >> 64) as u64, used: state.to_bits() as u64 };
        let index = now.as_nanos() / self.window.nanos();
        if index > stored.index { View { index, used: 0 } } else { stored }
    }

    fn end(&self, index: u64) -> Time {
        Time::from_nanos((index + 1).saturating_mul(self.window.nanos()))
    }
}

fn pack(view: &View) -> State {
    State::from_bits((u128::from(view.index) << 64) | u128::from(view.used))
}

impl Algorithm for FixedWindow {
    type State = State;

    fn refusal(&self, state: &State, cost: u64, now: Time) -> Option<Refusal> {
        if cost > self.limit {
            return Some(Refusal::Never);
        }
        let view = self.view(*state, now);
        if view.used <= self.limit - cost {
            None
        } else {
            Some(Refusal::Wait(self.end(view.index).nanos_since(now).max(1)))
        }
    }

    fn charge(&self, state: &mut State, cost: u64, now: Time) {
        let mut view = self.view(*state, now);
        view.used = view.used.saturating_add(cost);
        *state = pack(&view);
    }

    fn receipt(&self, charged: &State, cost: u64) -> Receipt {
        Receipt { cost, mark: charged.to_bits() >> 64 }
    }

    fn give_back(&self, state: &mut State, receipt: Receipt, now: Time) {
        let mut view = self.view(*state, now);
        if u128::from(view.index) == receipt.mark {
            view.used = view.used.saturating_sub(receipt.cost);
            *state = pack(&view);
        }
    }

    fn standing(&self, state: &State, now: Time) -> Standing {
        let view = self.view(*state, now);
        Standing {
            limit: self.limit,
            remaining: self.limit.saturating_sub(view.used),
            reset_after: self.end(view.index) - now,
        }
    }

    fn renewed_at(&self, state: &State) -> Time {
        let stored = self.view(*state, Time::EPOCH);
        if stored.used == 0 { Time::EPOCH } else { self.end(stored.index) }
    }
}
