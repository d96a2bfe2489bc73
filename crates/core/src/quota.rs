//! Quotas: a balance for each calendar period of a time zone.
//!
//! A period ends at the first instant that the zone's calendar calls the next period's first day. That is
//! not always midnight: where clocks skip midnight the day begins later, and where they strike it
//! twice it begins at the first stroke, so a period never begins twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::{Algorithm, LimitError, Receipt, Refusal, Standing, State, Time};

/// The calendar period a quota is granted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// A calendar day.
    Day,
    /// An ISO week, from Monday.
    Week,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

impl Period {
    /// Every period, shortest first.
    pub const ALL: [Period; 4] = [Period::Day, Period::Week, Period::Month, Period::Year];

    /// The name used in configuration files and header suffixes.
    pub const fn name(self) -> &'static str {
        match self {
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
            Period::Year => "year",
        }
    }

    fn first_day(self, date: Date) -> Option<Date> {
        match self {
            Period::Day => Some(date),
            Period::Week => {
                let since_monday = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_sub(since_monday.days()).ok()
            }
            Period::Month => Some(date.first_of_month()),
            Period::Year => Some(date.first_of_year()),
        }
    }

    fn next(self, first_day: Date) -> Option<Date> {
        let span = match self {
            Period::Day => 1.day(),
            Period::Week => 1.week(),
            Period::Month => 1.month(),
            Period::Year => 1.year(),
        };
        first_day.checked_add(span).ok()
    }
}

/// A balance of `limit` for every `period` of `zone`.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    period: Period,
    zone: TimeZone,
    /// The last period asked for, as minutes since the epoch: begin in the high half, end in the low.
    /// Only a memory of what the calendar would answer again; 0 is an empty period.
    last: AtomicU64,
}

impl Quota {
    pub(crate) fn new(limit: u64, period: Period, zone: &str) -> Result<Quota, LimitError> {
        let zone =
            TimeZone::get(zone).map_err(|_| LimitError::UnknownZone { zone: zone.to_owned() })?;
        Ok(Quota { limit, period, zone, last: AtomicU64::new(0) })
    }

    pub(crate) fn period(&self) -> Period {
        self.period
    }

    pub(crate) fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The end of the period that `now` is in.
    fn end(&self, now: Time) -> Time {
        self.bounds(now).map_or(Time::MAX, |(_, end)| end)
    }

    /// Begin and end of the period that `now` is in; `None` past the calendar's last year.
    #[inline]
    pub(crate) fn bounds(&self, now: Time) -> Option<(Time, Time)> {
        const MINUTE: u64 = 60_000_000_000;
        let last = self.last.load(Relaxed);
        let minute = now.as_nanos() / MINUTE;
        let (begin, end) = (last >> 32, last & 0xffff_ffff);
        if begin <= minute && minute < end {
            return Some((Time::from_nanos(begin * MINUTE), Time::from_nanos(end * MINUTE)));
        }
        let (begin, end) = self.period_at(now)?;
        let on_minutes = begin.as_nanos() % MINUTE == 0 && end.as_nanos() % MINUTE == 0;
        if on_minutes && end < Time::MAX {
            let (begin, end) = (begin.as_nanos() / MINUTE, end.as_nanos() / MINUTE);
            self.last.store((begin << 32) | end, Relaxed);
        }
        Some((begin, end))
    }

    /// As the calendar has it.
    fn period_at(&self, now: Time) -> Option<(Time, Time)> {
        let stamp = Timestamp::from_nanosecond(i128::from(now.as_nanos())).ok()?;
        let date = self.zone.to_datetime(stamp).date();
        let mut day = self.period.first_day(date)?;
        let mut begin = self.begin(day)?;
        // A date that clocks turned back repeats has ended already at its first end.
        loop {
            day = self.period.next(day)?;
            let end = self.begin(day)?;
            if end > stamp {
                return Some((moment(begin), moment(end)));
            }
            begin = end;
        }
    }

    /// The first instant of `day`.
    fn begin(&self, day: Date) -> Option<Timestamp> {
        let midnight =
            self.zone.to_ambiguous_timestamp(day.to_datetime(jiff::civil::Time::midnight()));
        match midnight.offset() {
            AmbiguousOffset::Gap { .. } => {
                let skipped = midnight.later().ok()?;
                let turned = self.zone.preceding(skipped.checked_add(1.nanosecond()).ok()?).next();
                turned.map(|transition| transition.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                midnight.earlier().ok()
            }
        }
    }

    /// The end of the period the counter is in, and what was charged in it. A counter stays in its
    /// period until the period ends, also when time goes backwards.
    fn view(&self, state: State, now: Time) -> (Time, u64) {
        let end = Time::from_nanos((state.to_bits() >> 64) as u64);
        if now < end { (end, state.to_bits() as u64) } else { (self.end(now), 0) }
    }
}

fn moment(stamp: Timestamp) -> Time {
    Time::from_nanos(u64::try_from(stamp.as_nanosecond().max(0)).unwrap_or(u64::MAX))
}

fn pack(end: Time, used: u64) -> State {
    State::from_bits((u128::from(end.as_nanos()) << 64) | u128::from(used))
}

impl Clone for Quota {
    fn clone(&self) -> Quota {
        let last = AtomicU64::new(self.last.load(Relaxed));
        Quota { zone: self.zone.clone(), last, ..*self }
    }
}

impl PartialEq for Quota {
    fn eq(&self, other: &Quota) -> bool {
        (self.limit, self.period, &self.zone) == (other.limit, other.period, &other.zone)
    }
}

impl Eq for Quota {}

impl Algorithm for Quota {
    type State = State;

    #[inline]
    fn refusal(&self, state: &State, cost: u64, now: Time) -> Option<Refusal> {
        if cost > self.limit {
            return Some(Refusal::Never);
        }
        let (end, used) = self.view(*state, now);
        if used <= self.limit - cost {
            None
        } else {
            Some(Refusal::Wait(end.nanos_since(now).max(1)))
        }
    }

    #[inline]
    fn charge(&self, state: &mut State, cost: u64, now: Time) {
        let (end, used) = self.view(*state, now);
        *state = pack(end, used.saturating_add(cost));
    }

    #[inline]
    fn receipt(&self, charged: &State, cost: u64) -> Receipt {
        Receipt { cost, mark: charged.to_bits() >> 64 }
    }

    fn give_back(&self, state: &mut State, receipt: Receipt, now: Time) {
        let (end, used) = self.view(*state, now);
        if u128::from(end.as_nanos()) == receipt.mark {
            *state = pack(end, used.saturating_sub(receipt.cost));
        }
    }

    fn standing(&self, state: &State, now: Time) -> Standing {
        let (end, used) = self.view(*state, now);
        Standing {
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            reset_after: end - now,
        }
    }

    fn renewed_at(&self, state: &State) -> Time {
        let used = state.to_bits() as u64;
        if used == 0 { Time::EPOCH } else { Time::from_nanos((state.to_bits() >> 64) as u64) }
    }
}
