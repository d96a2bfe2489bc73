//! What a limit amounts to, and how two of them fold into one.

use std::cmp::Ordering;

use tollgate_core::{Rate, Window};

use crate::shapes;

/// A sustained rate and a burst, each with the tenant that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The sustained rate.
    pub rate: Rate,
    /// The number of the tenant whose rate it is.
    pub rate_from: usize,
    /// The burst capacity.
    pub capacity: u64,
    /// The number of the tenant whose capacity it is.
    pub capacity_from: usize,
}

impl Figures {
    /// The figures as `tenant` wrote them.
    pub(crate) fn written(
        sustained: &shapes::Sustained,
        terms: &shapes::Terms,
        tenant: usize,
    ) -> Figures {
        let rate = rate(sustained);
        let capacity = terms.burst.as_ref().map_or(rate.tokens(), |burst| burst.capacity);
        Figures { rate, rate_from: tenant, capacity, capacity_from: tenant }
    }

    /// The lower rate and the lower capacity, each for itself. Of equal ones `self`, the nearer, stays.
    pub(crate) fn fold(self, farther: Figures) -> Figures {
        let mut folded = self;
        if farther.rate.compare(self.rate) == Ordering::Less {
            (folded.rate, folded.rate_from) = (farther.rate, farther.rate_from);
        }
        if farther.capacity < self.capacity {
            (folded.capacity, folded.capacity_from) = (farther.capacity, farther.capacity_from);
        }
        folded
    }

    /// As [`fold`](Figures::fold), for a limit that counts by a window: it has no burst that would keep what comes at once to its own
    /// figures. A lower rate of a longer window, which would let in more at once, is therefore counted by the own window, rounded
    /// down; `None` if that is less than one.
    pub(crate) fn fold_by_window(self, farther: Figures) -> Option<Figures> {
        let mut folded = self.fold(farther);
        // More tokens at a lower rate: the window is longer.
        if folded.rate.tokens() > self.rate.tokens() {
            let window = self.rate.window();
            // Less than the own tokens, so it fits; and no product of a rate and a window's seconds overflows 128 bits.
            let tokens = u128::from(folded.rate.tokens()) * u128::from(window.secs())
                / u128::from(folded.rate.window().secs());
            folded.rate =
                Rate::new(u64::try_from(tokens).ok().filter(|tokens| *tokens > 0)?, window);
            if folded.rate.tokens() < folded.capacity {
                folded.capacity = folded.rate.tokens();
                folded.capacity_from = folded.rate_from;
            }
        }
        Some(folded)
    }
}

/// A rate as the file writes it.
pub(crate) fn rate(sustained: &shapes::Sustained) -> Rate {
    Rate::new(sustained.rate, window(sustained.window))
}

/// A window as the file writes it.
pub(crate) fn window(window: shapes::Window) -> Window {
    match window {
        shapes::Window::Second => Window::Second,
        shapes::Window::Minute => Window::Minute,
        shapes::Window::Hour => Window::Hour,
        shapes::Window::Day => Window::Day,
    }
}
