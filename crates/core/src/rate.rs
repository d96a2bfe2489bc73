//! Rates: so many tokens a window.

use std::cmp::Ordering;
use std::fmt;

use crate::Window;

/// So many tokens a window, as a person writes it. Any figure can be written down; whether it makes
/// sense is decided where a [`Limit`](crate::Limit) is built from it.
///
/// ```
/// use std::cmp::Ordering;
/// use tollgate_core::Rate;
///
/// // Rates compare exactly across windows.
/// assert_eq!(Rate::per_second(100).compare(Rate::per_minute(5000)), Ordering::Greater);
/// assert_eq!(Rate::per_second(1).compare(Rate::per_day(86_400)), Ordering::Equal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    tokens: u64,
    window: Window,
}

impl Rate {
    /// The fastest rate any limit may have, a second.
    pub const MAX_PER_SECOND: u64 = 1_000_000_000;

    /// `tokens` every `window`.
    pub const fn new(tokens: u64, window: Window) -> Rate {
        Rate { tokens, window }
    }

    /// `tokens` every second.
    pub const fn per_second(tokens: u64) -> Rate {
        Rate::new(tokens, Window::Second)
    }

    /// `tokens` every minute.
    pub const fn per_minute(tokens: u64) -> Rate {
        Rate::new(tokens, Window::Minute)
    }

    /// `tokens` every hour.
    pub const fn per_hour(tokens: u64) -> Rate {
        Rate::new(tokens, Window::Hour)
    }

    /// `tokens` every day.
    pub const fn per_day(tokens: u64) -> Rate {
        Rate::new(tokens, Window::Day)
    }

    /// Tokens a window.
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// The window they are counted in.
    pub const fn window(self) -> Window {
        self.window
    }

    /// Which rate is faster, exactly: 100/second is above 5000/minute. Not `Ord`, because 60/minute
    /// and 1/second are equally fast without being the same rate.
    pub fn compare(self, other: Rate) -> Ordering {
        let left = u128::from(self.tokens) * u128::from(other.window.secs());
        let right = u128::from(other.tokens) * u128::from(self.window.secs());
        left.cmp(&right)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tokens, self.window)
    }
}
