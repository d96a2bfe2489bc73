//! Which limits can be counted by scripts on a Redis server, whose numbers are doubles.
//!
//! It is said here, and not where they are counted, because a configuration must be refused for it by whoever reads
//! one.

use std::fmt;
use std::time::Duration;

use crate::{Kind, Limit};

/// The longest that a bucket may take to be full again: a century.
const MAX_REFILL: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A bucket that is too slow for its size to be counted in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    kind: Kind,
    capacity: u64,
    rate: String,
    most: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { kind, capacity, rate, most } = self;
        write!(
            f,
            "a {} with a capacity of {capacity} would take more than 100 years to refill at {rate}, which Redis \
             cannot count exactly: write a capacity of at most {most}, or `consistency: local`",
            kind.name()
        )
    }
}

impl std::error::Error for OutOfRange {}

/// A limit that cannot be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeased {
    /// Else it is a log.
    is_paced: bool,
}

impl fmt::Display for NotLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_paced {
            true => {
                "a leaky_bucket with strategy queue cannot be leased, because a slice would be let out all at once: \
                 write `consistency: strict`, or choose another strategy"
            }
            false => {
                "a sliding_window_log cannot be leased, because each charge must be known when it is made: write \
                 `consistency: strict`, or choose sliding_window"
            }
        })
    }
}

impl std::error::Error for NotLeased {}

/// Whether Redis can count a limit exactly as [`Limit`] itself does, and if not, why.
///
/// ```
/// use tollgate_core::{Limit, Rate, remote};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let fine = Limit::token_bucket(Rate::per_second(1_000_000_000)).burst(1 << 53).build()?;
/// assert!(remote::supports(&fine).is_ok());
///
/// let slow = Limit::token_bucket(Rate::per_day(1)).burst(1_000_000).build()?;
/// let why = remote::supports(&slow).unwrap_err().to_string();
/// assert!(why.ends_with("write a capacity of at most 36600, or `consistency: local`"));
/// # Ok(())
/// # }
/// ```
pub fn supports(limit: &Limit) -> Result<(), OutOfRange> {
    let Some(rate) = limit.rate().filter(|_| limit.kind().has_burst()) else { return Ok(()) };
    let (window, capacity) = (rate.window().nanos() / 1000, limit.capacity());
    let most = MAX_REFILL.as_micros() * u128::from(rate.tokens()) / u128::from(window);
    if u128::from(capacity) <= most {
        return Ok(());
    }
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    Err(OutOfRange { kind: limit.kind(), capacity, rate: rate.to_string(), most })
}

/// Whether slices of a limit's counters can be spent by nodes alone, and if not, why.
///
/// ```
/// use tollgate_core::{Limit, Rate, remote};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// assert!(remote::leasable(&Limit::leaky_bucket(Rate::per_second(10)).build()?).is_ok());
///
/// let paced = Limit::leaky_bucket(Rate::per_second(10)).paced().build()?;
/// assert!(remote::leasable(&paced).unwrap_err().to_string().contains("write `consistency: strict`"));
/// # Ok(())
/// # }
/// ```
pub fn leasable(limit: &Limit) -> Result<(), NotLeased> {
    let is_paced = limit.is_paced();
    let is_log = limit.kind() == Kind::SlidingWindowLog;
    if is_paced || is_log { Err(NotLeased { is_paced }) } else { Ok(()) }
}
