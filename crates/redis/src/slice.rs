//! The tokens a node holds of one counter: pure, with time as a parameter.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Time;

use crate::answer::Left;
use crate::owed::{InView, Owed};

/// What a node holds of one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    left: u64,
    /// What Redis granted, to be told with the next call; nothing if Redis may know another figure.
    granted: u64,
    /// Which window or turn it was granted in.
    mark: i64,
    /// The limit it was granted under.
    limit: u64,
    since: Instant,
    until: Instant,
    spent: u64,
    wanted: u64,
    /// Admitted without a slice, to be paid from the next ones.
    owed: Owed,
    /// What was left in Redis, and when that is renewed.
    elsewhere: (u64, Instant),
    /// The same two ends by the clock that requests have read already, where that was known: until the first the slice is
    /// certainly there, and not near its end.
    fresh_until: Time,
    renewed: Time,
}

/// What Redis granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) holds: u64,
    pub(crate) lives: Duration,
    pub(crate) mark: i64,
    pub(crate) at: i64,
    pub(crate) left: Left,
}

/// What a node tells of the slice it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) granted: u64,
    pub(crate) unspent: u64,
    pub(crate) mark: i64,
}

impl Slice {
    pub(crate) fn new(now: Instant) -> Slice {
        Slice {
            left: 0,
            granted: 0,
            mark: -1,
            limit: 0,
            since: now,
            until: now,
            spent: 0,
            wanted: 0,
            owed: Owed::NOTHING,
            elsewhere: (0, now),
            fresh_until: Time::EPOCH,
            renewed: Time::EPOCH,
        }
    }

    /// So much was admitted that no slice paid for, and time not more than `unpaid` of all that was: the next slices do, of
    /// the windows in which it counts.
    pub(crate) fn owe(&mut self, admitted: u64, unpaid: u64, in_view: InView) {
        self.owed.add(admitted, unpaid, in_view);
    }

    /// What of that is not paid yet.
    pub(crate) fn owed(&self) -> u64 {
        self.owed.tokens()
    }

    /// What Redis has left beside the slice that was asked for then, until it is renewed.
    pub(crate) fn note_elsewhere(&mut self, (remaining, renewed): (u64, Duration), asked: Instant) {
        self.elsewhere = (remaining, asked + renewed);
    }

    /// It was asked for by a request of this moment or later. That clock may be slowed by a little where the system's was set
    /// back, so by it a slice is believed for half of its life only.
    pub(crate) fn asked_since(&mut self, begun: Time, (lives, renewed): (Duration, Duration)) {
        (self.fresh_until, self.renewed) = (begun + lives / 2, begun + renewed);
    }

    /// What this node's callers have left, so far as is known, and how long until all of it is renewed.
    pub(crate) fn known(&self, limit: u64, now: Instant) -> (u64, Duration) {
        let all = self.left(now).saturating_add(self.elsewhere.0);
        (all.min(limit), self.elsewhere.1.saturating_duration_since(now))
    }

    /// It was granted under this limit.
    pub(crate) fn granted_under(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Whether it was granted under a higher limit than this: then more of it may be held than is left.
    #[inline]
    pub(crate) fn is_above(&self, limit: u64) -> bool {
        self.limit > limit
    }

    /// Spends `cost` if it is there.
    pub(crate) fn spend(&mut self, cost: u64, now: Instant) -> bool {
        let is_there = now < self.until && self.left >= cost;
        if is_there {
            self.left -= cost;
            self.spent = self.spent.saturating_add(cost);
        }
        is_there
    }

    /// Spends `cost` of a slice that is fresh, and tells what its callers have left then and for how long; `None` decides nothing.
    /// It reads no clock, and mostly it is enough.
    #[inline]
    pub(crate) fn spend_fresh(&mut self, cost: u64, now: Time) -> Option<(u64, Duration)> {
        if now >= self.fresh_until || self.left < cost {
            return None;
        }
        self.left -= cost;
        self.spent = self.spent.saturating_add(cost);
        Some((self.left.saturating_add(self.elsewhere.0), self.renewed - now))
    }

    /// Which window or turn what is spent now counts in.
    #[inline]
    pub(crate) fn mark(&self) -> i64 {
        self.mark
    }

    /// Puts back what was spent a moment ago, when the slice had this mark. What was spent in another window or turn stays spent:
    /// this one has not so much more. And no more comes back than this slice has spent.
    pub(crate) fn unspend(&mut self, cost: u64, mark: i64, now: Instant) {
        if mark == self.mark && now < self.until {
            let back = cost.min(self.spent);
            self.left += back;
            self.spent -= back;
        }
    }

    /// Whether it is time to ask for more, before somebody has to wait for it.
    pub(crate) fn is_low(&self, now: Instant) -> bool {
        let ends_soon = self.until.saturating_duration_since(now) < (self.until - self.since) / 8;
        self.is_scarce() || (self.spent > 0 && ends_soon)
    }

    /// Whether most of it is spent.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.spent > 0 && self.left < self.wanted / 4
    }

    /// How many tokens to hold: as many as were spent lately in half a slice's life, at most twice what was wanted before,
    /// and enough for `least`. Having just asked is no reason to want less, so what was wanted fades over a life.
    pub(crate) fn demand(&self, least: u64, lifetime: Duration, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.since).max(Duration::from_millis(1));
        let rate = self.spent as f64 / elapsed.as_secs_f64();
        let lately = (rate * lifetime.as_secs_f64() / 2.0).ceil() as u64;
        let fresh = 1.0 - (elapsed.as_secs_f64() / lifetime.as_secs_f64()).min(1.0);
        let wanted = (self.wanted as f64 * fresh) as u64;
        let wanted = lately.min(self.wanted.saturating_mul(2)).max(wanted).max(least);
        wanted.saturating_add(self.owed())
    }

    /// What to tell of it when asking to hold at most `want`, once: from then on Redis may have another figure than we
    /// do. What is above `want` is given up now; the rest can be spent until the slice ends.
    pub(crate) fn report(&mut self, want: u64, now: Instant) -> Report {
        let is_alive = now < self.until;
        let unspent = if is_alive { self.left.min(self.granted) } else { 0 };
        let told = Report { granted: self.granted, unspent, mark: self.mark };
        (self.granted, self.left) = (0, self.left.min(want));
        if told.granted == 0 { Report { granted: 0, unspent: 0, mark: -1 } } else { told }
    }

    /// What was told has certainly not arrived: the slice is as it was, but for what was spent meanwhile.
    pub(crate) fn untell(&mut self, told: Report, want: u64) {
        if told.granted > 0 {
            self.granted = told.granted;
            self.left = self.left.saturating_add(told.unspent.saturating_sub(want));
        }
    }

    /// Begins the slice that was granted to a call made at `asked`, when `told` was told of the one before and `want` was
    /// wanted. What was spent meanwhile is spent of this one.
    pub(crate) fn begin(&mut self, grant: Grant, told: Report, want: u64, asked: Instant) {
        let spent_meanwhile = told.unspent.min(want).saturating_sub(self.left);
        // A hundredth less: clocks need not run equally fast.
        let until = asked + grant.lives - grant.lives / 100;
        let left = grant.holds.saturating_sub(spent_meanwhile);
        // The counter it was owed to is no more.
        let is_anothers = grant.lives.is_zero();
        let mut owed = if is_anothers { Owed::NOTHING } else { self.owed };
        let paid = owed.pay(left, grant.mark);
        *self = Slice {
            left: left - paid,
            granted: grant.holds,
            mark: grant.mark,
            limit: self.limit,
            since: asked,
            until,
            spent: spent_meanwhile,
            wanted: want,
            owed,
            elsewhere: self.elsewhere,
            fresh_until: Time::EPOCH,
            renewed: Time::EPOCH,
        };
    }

    pub(crate) fn left(&self, now: Instant) -> u64 {
        if now < self.until { self.left } else { 0 }
    }

    /// Whether nothing of it is to be told to Redis, and nothing to be paid.
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        self.owed() == 0 && (self.granted == 0 || self.is_over(now))
    }

    /// Whether nothing can be spent of it any more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests;
