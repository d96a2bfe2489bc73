//! Figures that make no sense, each with what would.

use std::fmt;

use crate::{Kind, MAX_CAPACITY, MAX_LOG_RATE, Rate};

/// Why figures do not make a [`Limit`](crate::Limit). Every message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The rate is 0.
    ZeroRate,
    /// The rate is above [`Rate::MAX_PER_SECOND`].
    RateTooFast {
        /// As it was written.
        rate: Rate,
    },
    /// The capacity or quota is 0.
    ZeroCapacity,
    /// The capacity or quota is above [`MAX_CAPACITY`].
    CapacityTooLarge {
        /// As it was written.
        capacity: u64,
    },
    /// A window algorithm was given a burst that differs from its rate.
    BurstOnWindow {
        /// The algorithm.
        kind: Kind,
        /// Its rate, which is its limit.
        rate: Rate,
        /// The burst it was given.
        capacity: u64,
    },
    /// The rate is above what a log may remember.
    LogTooLong {
        /// As it was written.
        rate: Rate,
    },
    /// Even release was asked of another algorithm than the leaky bucket.
    NotPaced {
        /// The algorithm.
        kind: Kind,
    },
    /// A quota was asked for by a rate.
    QuotaHasNoRate,
    /// The time zone is not in the IANA database.
    UnknownZone {
        /// As it was written.
        zone: String,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::ZeroRate => {
                write!(f, "a rate of 0 would admit nobody: write a rate of at least 1")
            }
            LimitError::RateTooFast { rate } => write!(
                f,
                "a rate of {rate} is too fast: at most {} a {} can be counted",
                Rate::MAX_PER_SECOND * rate.window().secs(),
                rate.window()
            ),
            LimitError::ZeroCapacity => {
                write!(f, "a capacity of 0 would admit nobody: write a capacity of at least 1")
            }
            LimitError::CapacityTooLarge { capacity } => {
                write!(f, "a capacity of {capacity} is too large: write at most {MAX_CAPACITY}")
            }
            LimitError::BurstOnWindow { kind, rate, capacity } => write!(
                f,
                "a {} has no burst apart from its rate: leave out the capacity of {capacity}, write \
                 {} or choose token_bucket",
                kind.name(),
                rate.tokens()
            ),
            LimitError::LogTooLong { rate } => write!(
                f,
                "a sliding_window_log remembers every charge, so its rate is at most {MAX_LOG_RATE} \
                 and not {rate}: lower it, or choose sliding_window"
            ),
            LimitError::NotPaced { kind } => {
                write!(f, "a {} does not release evenly: choose leaky_bucket for that", kind.name())
            }
            LimitError::QuotaHasNoRate => {
                write!(f, "a quota has a calendar period and no rate: make it with Limit::quota")
            }
            LimitError::UnknownZone { zone } => write!(
                f,
                "`{zone}` is not a time zone: write an IANA name such as UTC or Europe/Vienna"
            ),
        }
    }
}

impl std::error::Error for LimitError {}
