//! One limit as a client sees it, and the part of it that the client may take.
//!
//! A server says what remains, and others may be spending it too. So a client watches what remains between its own
//! responses: what the refill does not explain, all clients together have spent, and how much of that was its
//! own is its **share**. It takes that share of what remains, above a cushion, and of what is refilled:
//!
//! ```text
//! credit = share · (remaining − cushion + rate · elapsed) − sent since
//! ```
//!
//! Alone, the share is 1 and the credit is what the server has, counted from below: what is in flight is
//! taken as spent, and refill only from when the fastest answer would have come in. With others, shares add up to 1
//! because each is measured against the same total, and what remains settles at the cushion: above it everybody's
//! credit grows, below it everybody's shrinks. If the rate is told too low (it is rounded), the total is taken
//! too low by as much, and where it settles does not change. The same holds for a cost that is told too low: the
//! server's charges for it look like those of others.
//!
//! A share would stay what it once was, so it is drawn towards the equal one: as a number of sharers, it counts a little
//! less than it was measured. That moves everybody, those with a small share most.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::Seen;

use crate::LimitStatus;

/// How the limit comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// All the time, at a rate.
    Steady,
    /// All at once, when it is reset.
    AtReset,
}

/// What one limit allows this client.
#[derive(Clone, Debug)]
pub(crate) struct LimitPace {
    pub(crate) name: String,
    refill: Refill,
    /// The largest that remains can be; infinite where the server does not say.
    pub(crate) limit: f64,
    /// Tokens a second, where refill is steady: at least, as the server says.
    rate: f64,
    /// And at most, as refusals show.
    rate_below: f64,
    /// What came back in how many seconds, of late: shows a rate that is higher than it was told.
    gained: f64,
    watched: f64,
    window: Option<Duration>,
    /// As last read.
    pub(crate) remaining: f64,
    read_at: Time,
    pub(crate) reset_at: Option<Time>,
    /// How many answers in a row have told of other limits, but not of this one.
    missed: u32,
    /// Which sending the last reading answers.
    read_of: u64,
    /// As of the last reading: what part of the limit is ours, and what is left for others' surprises.
    share: f64,
    cushion: f64,
    /// Sent since, as far as the reading does not include it.
    spent: f64,
    /// Charged before the last reading, but answered after it.
    own_late: f64,
    /// Spent of late by this client, and by all.
    own: f64,
    total: f64,
    /// Seconds between readings, on average.
    interval: f64,
    last_sent: Time,
    /// Between 0 and 1, drawn anew for each reset.
    pub(crate) jitter: f64,
}

/// The part of a limit that the spread over time begins with.
const APPROACHING: f64 = 0.2;

/// The longest that a request is delayed in seconds, while there is something left, to make it last. What is left of a
/// month is not spread over the month: there may be no more requests.
const MOST_SPREAD: f64 = 5.0;

/// How much of a logarithm sharers are undercounted by, so that shares become equal.
const LEVELLING: f64 = 0.03;

/// Seconds over which a rate is watched, at least and at most: less, and the way's delays would look like refill.
const WATCHED: (f64, f64) = (0.2, 1.0);

/// What a refusal leaves of a share.
const AFTER_REFUSAL: f64 = 0.7;

/// Which part of the rate's upper bound is taken for the rate. A refusal bounds it by how long one token takes at most.
const RATE_OF_BOUND: f64 = 0.7;

/// How long a limit is kept that the server no longer shows.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// How late a limit that comes back all at once is used again, at most, so that not everybody is there first.
const LONGEST_JITTER: Duration = Duration::from_secs(1);

/// What was answered to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Time,
    /// Which sending is answered, counted in cost up to and including it.
    pub(crate) of: u64,
    /// What is still unanswered.
    pub(crate) unanswered: u64,
    /// What the limit was charged: nothing if it refused.
    pub(crate) charged: f64,
    pub(crate) is_refused: bool,
    /// What a refused request would have cost, and how long the server says until it would pass.
    pub(crate) refused_for: Option<(f64, Duration)>,
}

impl LimitPace {
    pub(crate) fn new(seen: &Seen, reading: &Reading, jitter: f64) -> LimitPace {
        let mut pace = LimitPace {
            name: seen.name.clone(),
            refill: Refill::AtReset,
            limit: f64::INFINITY,
            rate: 0.0,
            rate_below: f64::INFINITY,
            gained: 0.0,
            watched: 0.0,
            window: None,
            remaining: seen.remaining.map_or(f64::INFINITY, |r| r as f64),
            read_at: reading.at,
            reset_at: None,
            missed: 0,
            read_of: 0,
            share: 1.0,
            cushion: 0.0,
            spent: 0.0,
            own_late: 0.0,
            own: reading.charged.max(1.0),
            total: reading.charged.max(1.0),
            interval: 0.0,
            last_sent: reading.at,
            jitter,
        };
        pace.note_figures(seen, reading.at);
        pace.refill = pace.first_guess(seen);
        pace.rebase(seen, reading);
        pace
    }

    fn note_figures(&mut self, seen: &Seen, now: Time) {
        let told = (self.limit, self.window);
        if let Some(limit) = seen.limit.filter(|limit| *limit > 0) {
            self.limit = limit as f64;
        }
        self.window = seen.window.or(self.window);
        if told != (self.limit, self.window) {
            (self.rate, self.rate_below) = (0.0, f64::INFINITY);
        }
        let window = self.window.map_or(f64::INFINITY, |window| window.as_secs_f64().max(1e-3));
        self.rate = self.rate.max(self.limit / window);
        // The window is rounded up to whole seconds, so one of a second may be much shorter.
        if window <= 1.0 && self.rate_below.is_finite() {
            self.rate = self.rate.max(self.rate_below * RATE_OF_BOUND);
        }
        self.reset_at = seen.reset_after.map(|after| now + after);
    }

    /// Seconds in which a bucket would be full again, at least and at most. The rate is known as precisely as a window in whole
    /// seconds tells it, and so is the reset.
    fn bucket_resets_in(&self, remaining: f64) -> (f64, f64) {
        let longest = (self.limit - remaining).max(0.0) / self.rate;
        let window = self.window.map_or(1.0, |window| window.as_secs_f64().max(1.0));
        (longest * (1.0 - 1.0 / window) - 1.5, longest + 1.5)
    }

    /// A bucket is reset when what is missing has come back at its rate; a window, independently of it.
    fn first_guess(&self, seen: &Seen) -> Refill {
        let is_rated = self.rate.is_finite() && self.rate > 0.0;
        let Some(remaining) = seen.remaining.filter(|_| is_rated) else { return Refill::AtReset };
        let (least, most) = self.bucket_resets_in(remaining as f64);
        let reset = seen.reset_after.map_or(most, |after| after.as_secs_f64());
        if (least..=most).contains(&reset) { Refill::Steady } else { Refill::AtReset }
    }

    /// An answer told of other limits. A server shows those that are tight, so one that it stopped showing does not matter
    /// any more.
    pub(crate) fn is_forgotten(&mut self, now: Time) -> bool {
        self.missed += 1;
        self.missed > 3 && now - self.read_at > FORGOTTEN
    }

    /// Takes in what an answer says.
    pub(crate) fn read(&mut self, seen: &Seen, reading: &Reading) {
        self.missed = 0;
        if reading.of < self.read_of {
            // Overtaken: what it was charged is in what was read already.
            self.own_late += reading.charged;
            return;
        }
        if let (Some((cost, after)), Some(remaining)) = (reading.refused_for, seen.remaining) {
            let missing = cost - remaining as f64;
            if missing > 0.0 {
                let bound = missing / after.as_secs_f64().max(1e-4);
                self.rate_below = self.rate_below.min(bound);
            }
        }
        let before = (self.remaining, self.reset_at);
        let elapsed = (reading.at - self.read_at).as_secs_f64();
        self.note_figures(seen, reading.at);
        let Some(remaining) = seen.remaining.map(|r| r as f64) else { return };
        self.learn_refill(before, remaining, reading);
        self.learn_share(before.0, remaining, elapsed, reading);
        self.rebase(seen, reading);
    }

    fn learn_refill(&mut self, before: (f64, Option<Time>), remaining: f64, reading: &Reading) {
        let early = before.1.is_some_and(|reset| reading.at + Duration::from_secs(1) < reset);
        match (self.refill, reading.refused_for) {
            // It came back before it was to: bit by bit, then.
            (Refill::AtReset, _) if self.rate > 0.0 && early && remaining > before.0 => {
                self.refill = Refill::Steady;
            }
            // What is missing takes longer to come back than the rate could take.
            (Refill::Steady, Some((cost, after))) => {
                let longest = (cost - remaining).max(0.0) / self.rate;
                if after.as_secs_f64() > 1.5 * longest + 0.05 {
                    self.refill = Refill::AtReset;
                    self.reset_at = Some(reading.at + after);
                }
            }
            // It is reset before what is missing can have come back.
            (Refill::Steady, None) => {
                let reset = self.reset_at.map(|reset| (reset - reading.at).as_secs_f64());
                let (least, _) = self.bucket_resets_in(remaining);
                if reset.is_some_and(|reset| reset < least) {
                    self.refill = Refill::AtReset;
                }
            }
            (Refill::AtReset, _) => {}
        }
    }

    fn learn_share(&mut self, before: f64, remaining: f64, elapsed: f64, reading: &Reading) {
        let own = reading.charged + std::mem::take(&mut self.own_late);
        let was_full = remaining + reading.charged >= self.limit;
        let total = match self.refill {
            // A full bucket does not tell how long it has been full.
            _ if was_full => own,
            Refill::Steady => self.rate * elapsed - (remaining - before),
            Refill::AtReset if remaining > before => own,
            Refill::AtReset => before - remaining,
        };
        self.interval += (elapsed - self.interval) / 8.0;
        let memory = (8.0 * self.interval).max(0.1);
        let kept = (-elapsed / memory).exp();
        self.own = self.own * kept + own;
        self.total = (self.total * kept + total).max(self.own);
        if reading.is_refused {
            self.own *= AFTER_REFUSAL;
        }
        self.learn_rate(remaining - before + own, elapsed);
    }

    /// What came back is at most what was refilled: others only take. So a rate is higher than it was told where more came back.
    fn learn_rate(&mut self, gained: f64, elapsed: f64) {
        let kept = (-elapsed / WATCHED.1).exp();
        self.gained = self.gained * kept + gained;
        self.watched = self.watched * kept + elapsed;
        let seen = (self.gained - 1.0) / self.watched;
        if self.refill == Refill::Steady && self.watched > WATCHED.0 && seen > 1.3 * self.rate {
            // A window of two seconds is longer than one.
            let shorter = self.window.map_or(0.0, |window| window.as_secs_f64() - 1.0);
            let most = if shorter > 0.0 { self.limit / shorter } else { f64::INFINITY };
            self.rate = (0.9 * seen).min(most).min(self.rate_below);
        }
    }

    fn rebase(&mut self, seen: &Seen, reading: &Reading) {
        self.remaining = seen.remaining.map_or(self.remaining, |r| r as f64);
        self.read_at = reading.at;
        self.read_of = reading.of;
        self.spent = reading.unanswered as f64;
        self.share = self.sharers().powf(1.0 - LEVELLING).recip();
        self.cushion = LimitPace::cushion_of(self.limit);
    }

    pub(crate) fn status(&self, now: Time) -> LimitStatus {
        let remaining = (self.remaining - self.spent).max(0.0);
        LimitStatus {
            name: self.name.clone(),
            limit: self.limit.is_finite().then_some(self.limit as u64),
            remaining: if remaining.is_finite() { remaining as u64 } else { u64::MAX },
            reset_after: self.reset_at.map(|reset| reset - now),
            sharers: self.sharers(),
        }
    }

    /// How many seem to share it.
    pub(crate) fn sharers(&self) -> f64 {
        (self.total / self.own.max(1e-9)).clamp(1.0, 1e6)
    }

    /// What is left for others' surprises: their requests vary by the root of their number. A bucket of few tokens has none to leave.
    fn cushion_of(limit: f64) -> f64 {
        let room = (limit - 1.0) / 2.0 + 0.05;
        let cushion = (2.0 * limit.sqrt()).min(limit / 4.0).min(room);
        if cushion.is_finite() { cushion } else { 0.0 }
    }

    pub(crate) fn note_sent(&mut self, cost: f64, now: Time, jitter: f64) {
        if self.refill == Refill::AtReset && self.resets().is_some_and(|reset| reset <= now) {
            self.begin_anew(now);
            self.jitter = jitter;
        }
        self.spent += cost;
        self.last_sent = now;
    }

    /// Seconds until `cost` may be sent.
    pub(crate) fn wait(&self, cost: f64, now: Time) -> f64 {
        if self.remaining.is_infinite() {
            return 0.0;
        }
        match self.refill {
            Refill::Steady => self.wait_for_refill(cost, now),
            Refill::AtReset => self.wait_for_reset(cost, now),
        }
    }

    fn wait_for_refill(&self, cost: f64, now: Time) -> f64 {
        let share = self.share;
        let elapsed = (now - self.read_at).as_secs_f64();
        let level = self.remaining + self.rate * elapsed - self.cushion;
        // A full bucket is no more than that, but a small share of it must not be nothing.
        let most = (share * (self.limit - self.cushion)).max(cost);
        let missing = cost - (share * level - self.spent).min(most);
        if missing <= 0.0 { 0.0 } else { missing / (share * self.rate) }
    }

    /// When it comes back all at once. Where nothing says when, a window from the last reading is late enough.
    fn resets(&self) -> Option<Time> {
        let window = self.window.map(|window| self.read_at + window);
        match (self.reset_at, window) {
            (Some(reset), Some(window)) => Some(reset.min(window)),
            (reset, window) => reset.or(window),
        }
    }

    /// It must be back by now, though nothing has been read of it yet.
    fn begin_anew(&mut self, now: Time) {
        self.remaining = if self.limit.is_finite() { self.limit } else { 1.0 };
        (self.spent, self.read_at, self.reset_at) = (0.0, now, None);
    }

    fn wait_for_reset(&self, cost: f64, now: Time) -> f64 {
        let Some(reset) = self.resets() else { return 0.0 };
        let jitter = (reset - self.read_at).mul_f64(0.1).min(LONGEST_JITTER).mul_f64(self.jitter);
        let left = (reset + jitter - now).as_secs_f64();
        if left <= 0.0 {
            return 0.0;
        }
        let there = self.remaining - self.spent;
        if there > self.limit * APPROACHING && self.limit.is_finite() {
            return 0.0;
        }
        let shared = if self.sharers() > 1.5 { self.limit.min(1e12) * 0.02 } else { 0.0 };
        let mine = self.share * (self.remaining - shared) - self.spent;
        if mine < cost {
            return left;
        }
        // The last of it goes out before the reset, not at it.
        let each = ((reset - now).as_secs_f64() / (mine / cost + 1.0)).min(MOST_SPREAD);
        (each - (now - self.last_sent).as_secs_f64()).max(0.0)
    }
}
