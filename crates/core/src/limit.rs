//! A limit: an algorithm with figures that have been found to make sense.

use crate::fixed_window::FixedWindow;
use crate::flat::{Flat, Steps};
use crate::meter::Meter;
use crate::quota::Quota;
use crate::sliding_window::SlidingWindow;
use crate::{LimitError, Period, Rate, SlidingLog, Span, Time};

/// The largest capacity and the largest quota: the largest integer that every JSON reader keeps exact.
pub const MAX_CAPACITY: u64 = 1 << 53;

/// The highest rate a log may have: it remembers that many charges.
pub const MAX_LOG_RATE: u64 = 65_536;

/// Which algorithm a limit counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Tokens are refilled at the rate, up to the capacity.
    TokenBucket,
    /// The previous window counts by the share of it still in view.
    SlidingWindow,
    /// Every charge of the last window is remembered.
    SlidingWindowLog,
    /// Each window, aligned to UTC, has the limit anew.
    FixedWindow,
    /// Charges fill a bucket of the capacity that leaks at the rate.
    LeakyBucket,
    /// Generic cell rate algorithm: a theoretical arrival time with a tolerance.
    Gcra,
    /// A balance for each calendar period of a time zone.
    Quota,
}

impl Kind {
    /// The name used in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::TokenBucket => "token_bucket",
            Kind::SlidingWindow => "sliding_window",
            Kind::SlidingWindowLog => "sliding_window_log",
            Kind::FixedWindow => "fixed_window",
            Kind::LeakyBucket => "leaky_bucket",
            Kind::Gcra => "gcra",
            Kind::Quota => "quota",
        }
    }

    /// Whether it has a burst capacity apart from its rate.
    pub const fn has_burst(self) -> bool {
        matches!(self, Kind::TokenBucket | Kind::LeakyBucket | Kind::Gcra)
    }
}

/// An algorithm with figures that have been found to make sense.
///
/// ```
/// use tollgate_core::{Limit, Rate};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let limit = Limit::token_bucket(Rate::per_second(100)).burst(500).build()?;
/// assert_eq!(limit.capacity(), 500);
///
/// let refused = Limit::token_bucket(Rate::per_second(0)).build().unwrap_err();
/// assert_eq!(refused.to_string(), "a rate of 0 would admit nobody: write a rate of at least 1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    kind: Kind,
    /// Absent for a quota, whose period is not a rate's window.
    rate: Option<Rate>,
    capacity: u64,
    form: Form,
}

/// A limit by the kind of state it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Keeps a [`State`](crate::State) of 16 bytes.
    Flat(Flat),
    /// Keeps a [`Log`](crate::Log).
    Log(SlidingLog),
}

impl Limit {
    /// Tokens refilled at `rate`, up to a capacity that is the rate's own unless
    /// [`burst`](LimitBuilder::burst) says otherwise.
    pub fn token_bucket(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::TokenBucket, rate)
    }

    /// A bucket that leaks at `rate`. As a meter it admits what a token bucket admits;
    /// [`paced`](LimitBuilder::paced), it lets charges out evenly.
    pub fn leaky_bucket(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::LeakyBucket, rate)
    }

    /// The generic cell rate algorithm with `T = 1 / rate` and `τ = (capacity − 1) · T`.
    pub fn gcra(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::Gcra, rate)
    }

    /// At most the rate's tokens in each of its windows, aligned to UTC.
    pub fn fixed_window(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::FixedWindow, rate)
    }

    /// At most the rate's tokens in a sliding window, estimated by two counters.
    pub fn sliding_window(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::SlidingWindow, rate)
    }

    /// At most the rate's tokens in any window, exactly; at most [`MAX_LOG_RATE`].
    pub fn sliding_window_log(rate: Rate) -> LimitBuilder {
        LimitBuilder::new(Kind::SlidingWindowLog, rate)
    }

    /// A balance of `limit` for each `period` of the IANA time zone `zone`.
    pub fn quota(limit: u64, period: Period, zone: &str) -> Result<Limit, LimitError> {
        let capacity = check_capacity(limit)?;
        let form = Form::Flat(Flat(Steps::Quota(Box::new(Quota::new(limit, period, zone)?))));
        Ok(Limit { kind: Kind::Quota, rate: None, capacity, form })
    }

    /// Any of the six by its kind; a quota has no rate.
    pub fn of(kind: Kind, rate: Rate) -> LimitBuilder {
        LimitBuilder::new(kind, rate)
    }

    /// Which algorithm it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it lets charges out evenly: then a charge, however small, leaves nothing for the next.
    pub fn is_paced(&self) -> bool {
        matches!(&self.form, Form::Flat(Flat(Steps::Meter(meter))) if meter.is_paced())
    }

    /// Its rate; `None` for a quota.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The burst capacity, the window's limit, or the quota: the largest cost that can ever pass.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The first moment of the calendar period that `now` is in, and the first after it; `None` for what is no quota.
    ///
    /// ```
    /// use tollgate_core::{Limit, Period, Time};
    ///
    /// # fn main() -> Result<(), tollgate_core::LimitError> {
    /// let quota = Limit::quota(10, Period::Day, "UTC")?;
    /// let (begins, ends) = quota.period_at(Time::from_secs(86_400 + 5)).unwrap();
    /// assert_eq!((begins, ends), (Time::from_secs(86_400), Time::from_secs(2 * 86_400)));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn period_at(&self, now: Time) -> Option<(Time, Time)> {
        match &self.form {
            Form::Flat(Flat(Steps::Quota(quota))) => quota.bounds(now),
            Form::Flat(_) | Form::Log(_) => None,
        }
    }

    /// The calendar period and time zone of a quota.
    pub fn calendar(&self) -> Option<(Period, &str)> {
        match &self.form {
            Form::Flat(Flat(Steps::Quota(quota))) => Some((quota.period(), quota.zone())),
            _ => None,
        }
    }

    /// What it is counted in: its rate's window, or its calendar period.
    pub fn span(&self) -> Span {
        match (self.rate, self.calendar()) {
            (Some(rate), _) => rate.window().into(),
            (None, Some((period, _))) => period.into(),
            (None, None) => Span::Second,
        }
    }

    /// The seconds in which an empty bucket is full, rounded up, or the window; `None` for a quota, whose periods
    /// differ in length.
    pub fn window_secs(&self) -> Option<u64> {
        let rate = self.rate?;
        let window = rate.window().secs();
        if !self.kind.has_burst() {
            return Some(window);
        }
        let tokens = u128::from(rate.tokens().max(1));
        let seconds = (u128::from(self.capacity) * u128::from(window)).div_ceil(tokens);
        u64::try_from(seconds).ok()
    }

    /// The steps, by the kind of state they work on.
    #[inline]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Whether a counter of `self` goes on under `new` with what it has: the same algorithm over the same
    /// window. Otherwise the counter starts anew.
    pub fn continues_as(&self, new: &Limit) -> bool {
        let window = |limit: &Limit| limit.rate.map(Rate::window);
        let calendar = |limit: &Limit| limit.calendar().map(|(p, z)| (p, z.to_owned()));
        self.kind == new.kind && window(self) == window(new) && calendar(self) == calendar(new)
    }
}

/// Figures on their way to becoming a [`Limit`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a limit is made by `build`"]
pub struct LimitBuilder {
    kind: Kind,
    rate: Rate,
    burst: Option<u64>,
    paced: bool,
}

impl LimitBuilder {
    fn new(kind: Kind, rate: Rate) -> LimitBuilder {
        LimitBuilder { kind, rate, burst: None, paced: false }
    }

    /// How much may be spent at once after a rest; the rate's tokens if unsaid.
    pub fn burst(mut self, capacity: u64) -> LimitBuilder {
        self.burst = Some(capacity);
        self
    }

    /// Lets charges out evenly, one after another, instead of up to the capacity at once. For a leaky
    /// bucket in front of a queue.
    pub fn paced(mut self) -> LimitBuilder {
        self.paced = true;
        self
    }

    /// Checks the figures.
    pub fn build(self) -> Result<Limit, LimitError> {
        let LimitBuilder { kind, rate, burst, paced } = self;
        let tokens = rate.tokens();
        if tokens == 0 {
            return Err(LimitError::ZeroRate);
        }
        if tokens > Rate::MAX_PER_SECOND * rate.window().secs() {
            return Err(LimitError::RateTooFast { rate });
        }
        let capacity = check_capacity(burst.unwrap_or(tokens))?;
        if !kind.has_burst() && capacity != tokens {
            return Err(LimitError::BurstOnWindow { kind, rate, capacity });
        }
        if paced && kind != Kind::LeakyBucket {
            return Err(LimitError::NotPaced { kind });
        }
        let window = rate.window();
        let form = match kind {
            Kind::TokenBucket | Kind::LeakyBucket | Kind::Gcra => {
                let meter = Meter::new(rate, capacity, paced);
                Form::Flat(Flat(Steps::Meter(
                    meter.ok_or(LimitError::CapacityTooLarge { capacity })?,
                )))
            }
            Kind::FixedWindow => {
                Form::Flat(Flat(Steps::FixedWindow(FixedWindow::new(tokens, window))))
            }
            Kind::SlidingWindow => {
                Form::Flat(Flat(Steps::SlidingWindow(SlidingWindow::new(tokens, window))))
            }
            Kind::SlidingWindowLog if tokens > MAX_LOG_RATE => {
                return Err(LimitError::LogTooLong { rate });
            }
            Kind::SlidingWindowLog => Form::Log(SlidingLog::new(tokens, window)),
            Kind::Quota => return Err(LimitError::QuotaHasNoRate),
        };
        Ok(Limit { kind, rate: Some(rate), capacity, form })
    }
}

fn check_capacity(capacity: u64) -> Result<u64, LimitError> {
    match capacity {
        0 => Err(LimitError::ZeroCapacity),
        1..=MAX_CAPACITY => Ok(capacity),
        _ => Err(LimitError::CapacityTooLarge { capacity }),
    }
}
