//! When a quota's periods begin and end: Lua knows no time zones, so the scripts are told.

use std::collections::HashMap;

use parking_lot::RwLock;
use tollgate_core::{Algorithm, Form, Limit, Period, State, Time};

/// Two neighbouring periods, in microseconds: the first begins, the first ends, the second ends.
pub(crate) type Bounds = [u64; 3];

/// The periods that the server's time is in, for every kind of quota that has been asked for. A few hundred zones
/// and four periods bound it.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    known: RwLock<HashMap<Period, HashMap<String, Bounds>>>,
}

impl Calendar {
    /// The period of a quota that `now`, in microseconds, is in, and the one after it.
    pub(crate) fn around(&self, limit: &Limit, now: u64) -> Bounds {
        let Some((period, zone)) = limit.calendar() else { return [0; 3] };
        let known = self.known.read().get(&period).and_then(|zones| zones.get(zone)).copied();
        if let Some(bounds) = known
            && bounds[0] <= now
            && now < bounds[1]
        {
            return bounds;
        }
        let bounds = look_up(limit, now);
        self.known.write().entry(period).or_default().insert(zone.to_owned(), bounds);
        bounds
    }
}

/// The largest whole number that Lua counts to exactly.
const MOST: u64 = 1 << 53;

/// When the period of a quota ends that a moment is in, in microseconds.
pub(crate) fn end_of_period(limit: &Limit, micros: u64) -> u64 {
    let Form::Flat(quota) = limit.form() else { return 0 };
    let at = Time::from_nanos(micros.saturating_mul(1000));
    let end = at + quota.standing(&State::NEW, at).reset_after;
    (end.as_nanos() / 1000).min(MOST)
}

fn look_up(limit: &Limit, now: u64) -> Bounds {
    let end = |micros| end_of_period(limit, micros);
    let this = end(now);
    // A quota tells only its period's end; it began at the first second that has the same. No period is longer
    // than a year and a few hours of clocks being changed.
    let (mut before, mut within) =
        (now.saturating_sub(367 * 86_400 * 1_000_000) / 1_000_000, now / 1_000_000);
    while before < within {
        let middle = before.midpoint(within);
        if end(middle * 1_000_000) == this {
            within = middle;
        } else {
            before = middle + 1;
        }
    }
    [within * 1_000_000, this, end(this)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_where_the_one_before_ended() {
        let calendar = Calendar::default();
        // 2026-03-29 in Vienna has 23 hours: it ends at 22:00 UTC and began at 23:00.
        let rows = [
            ("UTC", Period::Day, 1_774_742_400, 86_400),
            ("Europe/Vienna", Period::Day, 1_774_738_800, 23 * 3600),
            ("UTC", Period::Month, 1_772_323_200, 31 * 86_400),
            ("UTC", Period::Year, 1_767_225_600, 365 * 86_400),
        ];
        for (zone, period, begins, lasts) in rows {
            let quota = Limit::quota(5, period, zone).unwrap();
            let noon = 1_774_785_600_000_001;
            let expected = [begins * 1_000_000, (begins + lasts) * 1_000_000];
            assert_eq!(calendar.around(&quota, noon)[..2], expected, "{zone} {period:?}");
            let next = calendar.around(&quota, expected[1]);
            assert_eq!(next[0], expected[1]);
            assert_eq!(calendar.around(&quota, noon)[2], next[1]);
        }
    }
}
