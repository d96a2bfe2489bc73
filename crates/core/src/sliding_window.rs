//! Sliding window by two counters: the previous window counts by the share of it still in view.
//!
//! `estimate = previous · (window − elapsed) / window + current`, compared exactly: both sides are
//! multiplied by the window, so no fraction is ever rounded in a decision.

use crate::{Algorithm, Receipt, Refusal, Standing, State, Time, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    limit: u64,
    window: Window,
}

/// Counts have 47 bits: 10⁹ a second for a day is less. The index has the other 34.
const COUNT_BITS: u32 = 47;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// The window a counter is in at one moment.
struct View {
    index: u64,
    /// Nanoseconds since the window began.
    elapsed: u64,
    previous: u64,
    current: u64,
}

impl SlidingWindow {
    pub(crate) fn new(limit: u64, window: Window) -> SlidingWindow {
        SlidingWindow { limit, window }
    }

    fn view(&self, state: State, now: Time) -> View {
        let stored = unpack(state);
        let index = now.as_nanos() / self.window.nanos();
        let elapsed = now.as_nanos() % self.window.nanos();
        match index.checked_sub(stored.index) {
            // Time went back: stay at the beginning of the later window, where most is in view.
            None => stored,
            Some(0) => View { elapsed, ..stored },
            Some(1) => View { index, elapsed, previous: stored.current, current: 0 },
            Some(_) => View { index, elapsed, previous: 0, current: 0 },
        }
    }

    fn start(&self, index: u64) -> u64 {
        index.saturating_mul(self.window.nanos())
    }

    /// `tokens · window`, the scale in which estimates are compared.
    fn scaled(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.window.nanos())
    }

    /// How long after a window's beginning `previous` weighs at most `room` tokens.
    fn fades_to(&self, previous: u64, room: u64) -> u64 {
        let visible = self.scaled(room).checked_div(u128::from(previous));
        let visible = visible.map_or(u64::MAX, |v| u64::try_from(v).unwrap_or(u64::MAX));
        self.window.nanos().saturating_sub(visible)
    }

    /// Tokens of the previous window still in view, in the scale of [`scaled`](Self::scaled).
    fn faded(&self, view: &View) -> u128 {
        u128::from(view.previous) * u128::from(self.window.nanos() - view.elapsed)
    }
}

fn unpack(state: State) -> View {
    let bits = state.to_bits();
    View {
        index: (bits >> (2 * COUNT_BITS)) as u64,
        elapsed: 0,
        previous: (bits >> COUNT_BITS) as u64 & COUNT_MAX,
        current: bits as u64 & COUNT_MAX,
    }
}

fn pack(view: &View) -> State {
    State::from_bits(
        (u128::from(view.index) << (2 * COUNT_BITS))
            | (u128::from(view.previous) << COUNT_BITS)
            | u128::from(view.current),
    )
}

impl Algorithm for SlidingWindow {
    type State = State;

    fn refusal(&self, state: &State, cost: u64, now: Time) -> Option<Refusal> {
        if cost > self.limit {
            return Some(Refusal::Never);
        }
        let view = self.view(*state, now);
        let free = (self.limit - cost).checked_sub(view.current);
        if free.is_some_and(|free| self.faded(&view) <= self.scaled(free)) {
            return None;
        }
        let passes_at = match free {
            // Enough of the previous window fades before this one ends …
            Some(free) => self.start(view.index) + self.fades_to(view.previous, free),
            // … or this one must itself become the previous one and fade.
            None => self.start(view.index + 1) + self.fades_to(view.current, self.limit - cost),
        };
        Some(Refusal::Wait(passes_at.saturating_sub(now.as_nanos()).max(1)))
    }

    fn charge(&self, state: &mut State, cost: u64, now: Time) {
        let mut view = self.view(*state, now);
        view.current = view.current.saturating_add(cost).min(COUNT_MAX);
        *state = pack(&view);
    }

    fn receipt(&self, charged: &State, cost: u64) -> Receipt {
        Receipt { cost, mark: u128::from(unpack(*charged).index) }
    }

    fn give_back(&self, state: &mut State, receipt: Receipt, now: Time) {
        let mut view = self.view(*state, now);
        match u128::from(view.index).checked_sub(receipt.mark) {
            Some(0) => view.current = view.current.saturating_sub(receipt.cost),
            Some(1) => view.previous = view.previous.saturating_sub(receipt.cost),
            _ => return,
        }
        *state = pack(&view);
    }

    fn standing(&self, state: &State, now: Time) -> Standing {
        let view = self.view(*state, now);
        let faded = self.faded(&view).div_ceil(u128::from(self.window.nanos())) as u64;
        Standing {
            limit: self.limit,
            remaining: self.limit.saturating_sub(view.current).saturating_sub(faded),
            reset_after: self.renewed_at(state) - now,
        }
    }

    fn renewed_at(&self, state: &State) -> Time {
        let stored = unpack(*state);
        let windows = match (stored.previous, stored.current) {
            (0, 0) => return Time::EPOCH,
            (_, 0) => 1,
            _ => 2,
        };
        Time::from_nanos(self.start(stored.index + windows))
    }
}
