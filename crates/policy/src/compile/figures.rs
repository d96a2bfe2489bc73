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
