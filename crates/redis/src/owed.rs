//! What a node has admitted without being granted it, and in which windows that counts.

use tollgate_core::Time;

use crate::Figures;
use crate::calendar::end_of_period;
use crate::figures::Shape;

/// The windows in which something counts, by their ends in microseconds: its own, and the last one that still looks back
/// on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InView {
    own: i64,
    last: i64,
}

impl InView {
    /// Of a counter without windows: whatever happens, it counts.
    pub(crate) const ALWAYS: InView = InView { own: i64::MIN, last: i64::MAX };

    /// Of what is admitted at `now`.
    pub(crate) fn of(figures: &Figures, now: Time) -> InView {
        let micros = now.as_nanos() / 1000;
        let (own, after) = match figures.shape {
            Shape::Bucket { .. } => return InView::ALWAYS,
            Shape::Quota => (end_of_period(figures.limit(), micros), 0),
            Shape::Fixed(window) => (micros - micros % window + window, 0),
            Shape::Sliding(window) | Shape::Log(window) => {
                (micros - micros % window + window, window)
            }
        };
        let end = |micros| i64::try_from(micros).unwrap_or(i64::MAX);
        InView { own: end(own), last: end(own.saturating_add(after)) }
    }

    /// The end of the last window in which it counts; 0 if it always does. As the scripts take it.
    pub(crate) fn until(self) -> i64 {
        if self == InView::ALWAYS { 0 } else { self.last }
    }

    /// How long that is from now on, for whatever has an end.
    pub(crate) fn lasts(self, now: Time) -> Option<u64> {
        let end = (self != InView::ALWAYS).then(|| u64::try_from(self.last).ok())??;
        Some(end.saturating_sub(now.as_nanos() / 1000))
    }
}

/// What is to be paid from slices before anybody spends them. What belongs to a window that is over is not charged to
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    tokens: u64,
    in_view: InView,
}

impl Owed {
    pub(crate) const NOTHING: Owed = Owed { tokens: 0, in_view: InView::ALWAYS };

    pub(crate) fn tokens(self) -> u64 {
        self.tokens
    }

    /// So much more was admitted, and this is what time has not paid off of all that was. Where a debt has no end of its own
    /// time pays it off too, and not only what was admitted last.
    pub(crate) fn add(&mut self, admitted: u64, unpaid: u64, in_view: InView) {
        if self.in_view.last < in_view.own {
            self.tokens = 0;
        }
        let tokens = match in_view {
            InView::ALWAYS => self.tokens.saturating_add(admitted).min(unpaid),
            _ => self.tokens.saturating_add(admitted.min(unpaid)),
        };
        *self = Owed { tokens, in_view };
    }

    /// Pays what can be paid from `left` tokens of a slice with this mark, and tells how much that is. The mark of a
    /// window's slice is when the window ends.
    pub(crate) fn pay(&mut self, left: u64, mark: i64) -> u64 {
        if mark > self.in_view.last {
            *self = Owed::NOTHING;
        }
        let paid = self.tokens.min(left);
        self.tokens -= paid;
        paid
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Limit, Period, Rate};

    use super::*;

    /// 2026-01-01T00:00:30Z.
    const NOW: Time = Time::from_nanos(1_767_225_630_000_000_000);
    const MINUTE_ENDS: i64 = 1_767_225_660_000_000;

    fn in_view(limit: &Limit, now: Time) -> InView {
        InView::of(&Figures::of(limit).unwrap(), now)
    }

    #[test]
    fn what_is_owed_lapses_with_its_window() {
        let fixed = Limit::fixed_window(Rate::per_minute(10)).build().unwrap();
        let mut owed = Owed::NOTHING;
        owed.add(7, 7, in_view(&fixed, NOW));
        assert_eq!(owed.pay(3, MINUTE_ENDS), 3);
        assert_eq!((owed.pay(9, MINUTE_ENDS + 60_000_000), owed.tokens()), (0, 0));
        // A debt of the next window takes the place of one that could not be paid in its own.
        owed.add(7, 7, in_view(&fixed, NOW));
        owed.add(2, 2, in_view(&fixed, NOW + std::time::Duration::from_secs(60)));
        assert_eq!(owed.tokens(), 2);
    }

    #[test]
    fn a_sliding_window_looks_back_on_it_for_one_more() {
        let sliding = Limit::sliding_window(Rate::per_minute(10)).build().unwrap();
        let mut owed = Owed::NOTHING;
        owed.add(7, 7, in_view(&sliding, NOW));
        assert_eq!(owed.pay(3, MINUTE_ENDS + 60_000_000), 3);
        assert_eq!((owed.pay(9, MINUTE_ENDS + 120_000_000), owed.tokens()), (0, 0));
    }

    #[test]
    fn a_bucket_is_owed_it_until_it_is_paid() {
        let bucket = Limit::token_bucket(Rate::per_minute(10)).build().unwrap();
        assert_eq!(in_view(&bucket, NOW), InView::ALWAYS);
        let mut owed = Owed::NOTHING;
        owed.add(7, 7, InView::ALWAYS);
        owed.add(7, 14, InView::ALWAYS);
        assert_eq!((owed.pay(10, i64::MAX), owed.tokens()), (10, 4));
    }

    #[test]
    fn a_quota_ends_with_its_period() {
        let quota = Limit::quota(10, Period::Month, "UTC").unwrap();
        let february = 1_769_904_000_000_000;
        assert_eq!(in_view(&quota, NOW), InView { own: february, last: february });
        assert_eq!(in_view(&quota, NOW).lasts(NOW), Some(31 * 86_400_000_000 - 30_000_000));
    }
}
