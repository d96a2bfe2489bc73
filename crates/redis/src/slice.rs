//! The tokens a node holds of one counter: pure, with time as a parameter.

use std::time::Duration;

use tokio::time::Instant;

use crate::answer::Left;
use crate::owed::{InView, Owed};

/// What a node holds of one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    left: u64,
    /// What Redis granted, to be told with the next call; nothing if Redis may know another figure.
    granted: u64,
    mark: i64,
    since: Instant,
    until: Instant,
    spent: u64,
    wanted: u64,
    /// Admitted without a slice, to be paid from the next ones.
    owed: Owed,
    /// What was left in Redis, and when that is renewed.
    elsewhere: (u64, Instant),
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
            since: now,
            until: now,
            spent: 0,
            wanted: 0,
            owed: Owed::NOTHING,
            elsewhere: (0, now),
        }
    }

    /// So much was admitted that no slice paid for: the next ones do, of the windows in which it counts.
    pub(crate) fn owe(&mut self, tokens: u64, in_view: InView) {
        self.owed.add(tokens, in_view);
    }

    /// What of that is not paid yet.
    pub(crate) fn owed(&self) -> u64 {
        self.owed.tokens()
    }

    /// What Redis has left beside the slice, until it is renewed.
    pub(crate) fn note_elsewhere(&mut self, remaining: u64, renewed_at: Instant) {
        self.elsewhere = (remaining, renewed_at);
    }

    /// What this node's callers have left, so far as is known, and how long until all of it is renewed.
    pub(crate) fn known(&self, limit: u64, now: Instant) -> (u64, Duration) {
        let all = self.left(now).saturating_add(self.elsewhere.0);
        (all.min(limit), self.elsewhere.1.saturating_duration_since(now))
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

    /// Puts back what was spent a moment ago. What an earlier slice spent, Redis has been told: it stays spent.
    pub(crate) fn unspend(&mut self, cost: u64, now: Instant) {
        if now < self.until {
            let back = cost.min(self.spent);
            self.left += back;
            self.spent -= back;
        }
    }

    /// Whether it is time to ask for more, before somebody has to wait for it.
    pub(crate) fn is_low(&self, now: Instant) -> bool {
        let ends_soon = self.until.saturating_duration_since(now) < (self.until - self.since) / 8;
        self.spent > 0 && (self.left < self.wanted / 4 || ends_soon)
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
        let mut owed = self.owed;
        let paid = owed.pay(left, grant.mark);
        *self = Slice {
            left: left - paid,
            granted: grant.holds,
            mark: grant.mark,
            since: asked,
            until,
            spent: spent_meanwhile,
            wanted: want,
            owed,
            elsewhere: self.elsewhere,
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
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(1);

    fn grant(holds: u64) -> Grant {
        Grant { holds, lives: LIFE, mark: 7, at: 0, left: Left { one: 0, two: 0, three: 0 } }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slice_ends_before_redis_thinks_so() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        assert!(!slice.spend(1, now));
        slice.begin(grant(10), Report::default(), 10, now);
        assert!(slice.spend(4, now));
        assert!(!slice.spend(7, now));
        assert!(slice.spend(1, now + LIFE * 98 / 100));
        assert!(!slice.spend(1, now + LIFE * 99 / 100));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_spent_during_a_call_is_spent_of_the_new_slice() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        slice.begin(grant(10), Report::default(), 10, now);
        let told = slice.report(100, now);
        assert_eq!(told, Report { granted: 10, unspent: 10, mark: 7 });
        assert!(slice.spend(3, now));
        slice.begin(grant(20), told, 20, now);
        assert_eq!(slice.left(now), 17);
        assert_eq!(slice.report(100, now), Report { granted: 20, unspent: 17, mark: 7 });
        // The answer was lost: what Redis knows is unknown, so nothing more is told of it.
        assert_eq!(slice.report(100, now), Report { granted: 0, unspent: 0, mark: -1 });
        assert!(slice.spend(17, now), "but it may be spent while it lives");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_cannot_be_spent_while_redis_is_asked() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        slice.begin(grant(10), Report::default(), 10, now);
        let told = slice.report(4, now);
        assert_eq!(told.unspent, 10);
        assert!(!slice.spend(5, now));
        assert!(slice.spend(3, now));
        slice.begin(grant(4), told, 4, now);
        assert_eq!(slice.left(now), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_redis_did_not_take_back_is_still_held() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        slice.begin(grant(10), Report::default(), 10, now);
        let told = slice.report(4, now);
        assert!(slice.spend(3, now));
        slice.untell(told, 4);
        assert_eq!(slice.left(now), 7);
        assert!(!slice.is_done(now));
        assert_eq!(slice.report(0, now), Report { granted: 10, unspent: 7, mark: 7 });
        assert!(slice.is_done(now), "nothing more can be told of it");
        slice.owe(1, InView::ALWAYS);
        assert!(!slice.is_done(now), "but what is owed is to be paid");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_this_slice_spent_can_be_put_back() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        slice.begin(grant(10), Report::default(), 10, now);
        slice.spend(6, now);
        let told = slice.report(10, now);
        slice.begin(grant(10), told, 10, now);
        slice.unspend(6, now);
        assert_eq!(slice.left(now), 10);
        slice.spend(2, now);
        slice.unspend(6, now);
        assert_eq!(slice.left(now), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_owed_is_paid_before_anything_is_spent() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        slice.owe(15, InView::ALWAYS);
        assert_eq!(slice.demand(1, LIFE, now), 16);
        slice.begin(grant(10), Report::default(), 16, now);
        assert!(!slice.spend(1, now));
        let told = slice.report(10, now);
        assert_eq!(told, Report { granted: 10, unspent: 0, mark: 7 }, "it counts as spent");
        slice.begin(grant(10), told, 10, now);
        assert_eq!(slice.left(now), 5);
        assert_eq!(slice.demand(1, LIFE, now + LIFE), 1, "nothing is owed any more");
    }

    #[tokio::test(start_paused = true)]
    async fn demand_follows_what_was_spent_and_at_most_doubles() {
        let now = Instant::now();
        let mut slice = Slice::new(now);
        assert_eq!(slice.demand(3, LIFE, now), 3);
        slice.begin(grant(100), Report::default(), 100, now);
        slice.spend(100, now);
        assert_eq!(slice.demand(1, LIFE, now + LIFE / 10), 200);
        assert_eq!(slice.demand(1, LIFE, now + LIFE), 50);
        assert_eq!(slice.demand(70, LIFE, now + LIFE), 70);
    }
}
