//! Moments and windows.
//!
//! Time is a parameter everywhere in this crate. A [`Time`] counts whole nanoseconds since the Unix
//! epoch, because windows and quotas are aligned to the calendar and every algorithm shares one `now`.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment: whole nanoseconds since the Unix epoch, up to the year 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Time = Time(0);

    /// The last moment. Keeping a bit free lets the meters multiply time by a rate without overflow.
    pub const MAX: Time = Time(i64::MAX as u64);

    /// The moment so many nanoseconds after the epoch, [`Time::MAX`] at the latest.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Time {
        if nanos > Time::MAX.0 { Time::MAX } else { Time(nanos) }
    }

    /// The moment so many seconds after the epoch, [`Time::MAX`] at the latest.
    pub const fn from_secs(secs: u64) -> Time {
        Time::from_nanos(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch, rounded up: a caller told this second does not come back too early.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(NANOS_PER_SEC)
    }

    /// Nanoseconds from `earlier` to here; 0 if `earlier` is later.
    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Later by `rhs`, [`Time::MAX`] at the latest.
    fn add(self, rhs: Duration) -> Time {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.0.saturating_add(nanos))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// The span since `rhs`; zero if `rhs` is later.
    fn sub(self, rhs: Time) -> Duration {
        Duration::from_nanos(self.nanos_since(rhs))
    }
}

pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The window a rate is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// 1 s
    Second,
    /// 60 s
    Minute,
    /// 3,600 s
    Hour,
    /// 86,400 s
    Day,
}

impl Window {
    /// Every window, shortest first.
    pub const ALL: [Window; 4] = [Window::Second, Window::Minute, Window::Hour, Window::Day];

    /// Its length in seconds.
    pub const fn secs(self) -> u64 {
        match self {
            Window::Second => 1,
            Window::Minute => 60,
            Window::Hour => 3_600,
            Window::Day => 86_400,
        }
    }

    /// Its length in nanoseconds.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.secs() * NANOS_PER_SEC
    }

    /// The name used in configuration files and header suffixes.
    pub const fn name(self) -> &'static str {
        match self {
            Window::Second => "second",
            Window::Minute => "minute",
            Window::Hour => "hour",
            Window::Day => "day",
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
