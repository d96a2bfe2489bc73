//! What an algorithm answers.

use std::time::Duration;

/// Why a charge does not pass. A refusal is a value, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It passes after this many nanoseconds, if nobody else charges meanwhile. Never 0.
    Wait(u64),
    /// The cost is above the limit's capacity: it can never pass.
    Never,
}

impl Refusal {
    /// How long until this cost passes; `None` if it never can.
    pub const fn retry_after(self) -> Option<Duration> {
        match self {
            Refusal::Wait(nanos) => Some(Duration::from_nanos(nanos)),
            Refusal::Never => None,
        }
    }

    /// Orders refusals by how long they keep a caller out: `Never` is the longest.
    pub(crate) const fn rank(self) -> u128 {
        match self {
            Refusal::Wait(nanos) => nanos as u128,
            Refusal::Never => u128::MAX,
        }
    }
}

impl PartialOrd for Refusal {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Refusal {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Where a counter stands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The capacity, or the window's limit.
    pub limit: u64,
    /// The largest cost that would pass now.
    pub remaining: u64,
    /// Until full again (buckets, GCRA), the next boundary (fixed window, quota), the estimate is 0
    /// (sliding window) or the newest entry leaves (log).
    pub reset_after: Duration,
}

/// The answer to one charge: whether it passed, and where the counter stands after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Why it did not pass; `None` if it did.
    pub refusal: Option<Refusal>,
    /// Where the counter stands now. A refused charge left it as it was.
    pub standing: Standing,
}

impl Decision {
    /// Whether the charge passed.
    pub const fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// How long until this cost passes: zero if it did, `None` if it never can.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.refusal {
            None => Some(Duration::ZERO),
            Some(refusal) => refusal.retry_after(),
        }
    }
}
