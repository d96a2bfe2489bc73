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

mod learn;
mod reading;
mod renewal;
mod told;
mod unit;

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::Seen;

use super::load::Load;
use super::{START_STEP, Ticket};
use crate::LimitStatus;
pub(crate) use reading::{Reading, Refusal};
use renewal::Renewal;
use told::Told;
use unit::Evidence;
pub(crate) use unit::Unit;

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
    /// Calls are charged to one of several, and the server names which.
    pub(crate) is_resource: bool,
    pub(crate) unit: Unit,
    evidence: Evidence,
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
    /// As last read, even if it was more than the limit.
    pub(crate) remaining: f64,
    read_at: Time,
    pub(crate) reset_at: Option<Time>,
    /// What the server really said, not what became of it since.
    told: Told,
    /// Which sending the last reading answers.
    read_of: Load,
    /// The number of the last request that was sent though this limit would have had it wait, unless its answer shows the limit.
    pub(crate) defied_by: Option<u64>,
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
    /// How many requests had been sent when a refusal last took from the share. What refuses any of them is the same event.
    cut_after: u64,
    /// Seconds between readings, on average.
    interval: f64,
    last_sent: Time,
    /// Whether it comes back when it is to.
    renewal: Renewal,
    /// Between 0 and 1, drawn anew for each reset.
    pub(crate) jitter: f64,
}

/// The part of a limit that the spread over time begins with.
const APPROACHING: f64 = 0.2;

/// The longest that a request is delayed in seconds, while there is something left, to make it last. What is left of a
/// month is not spread over the month: there may be no more requests.
const MOST_SPREAD: f64 = 5.0;

/// How late a limit that comes back all at once is used again, at most, so that not everybody is there first.
const LONGEST_JITTER: Duration = Duration::from_secs(1);

/// How long an answer is waited for where only that can tell what is left.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

impl LimitPace {
    pub(crate) fn new(seen: &Seen, reading: &Reading, jitter: f64) -> LimitPace {
        let mut pace = LimitPace {
            name: seen.name.clone(),
            is_resource: seen.is_resource,
            unit: Unit::default(),
            evidence: Evidence::default(),
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
            told: Told::new(reading),
            read_of: Load::default(),
            defied_by: None,
            share: 1.0,
            cushion: 0.0,
            spent: 0.0,
            own_late: 0.0,
            own: 1.0,
            total: 1.0,
            cut_after: 0,
            interval: 0.0,
            last_sent: reading.at,
            renewal: Renewal::default(),
            jitter,
        };
        pace.note_figures(seen, reading.at);
        pace.refill = pace.first_guess(seen);
        pace.learn_unit(None, pace.remaining, reading);
        pace.learn_unit_beyond(seen, reading);
        pace.own = reading.charged(pace.unit).max(1.0);
        pace.total = pace.own;
        pace.rebase(seen, reading);
        pace
    }

    /// Whether to forget it after an answer that told of other limits.
    pub(crate) fn is_gone_beside_others(&mut self, now: Time) -> bool {
        self.told.is_gone_beside_others(now)
    }

    /// Whether to forget it after this request passed.
    pub(crate) fn is_gone(&mut self, ticket: Ticket) -> bool {
        self.told.is_gone(ticket)
    }

    pub(crate) fn status(&self, now: Time) -> LimitStatus {
        let remaining = (self.left() - self.spent).max(0.0);
        LimitStatus {
            name: self.name.clone(),
            limit: self.limit.is_finite().then_some(self.limit as u64),
            remaining: if remaining.is_finite() { remaining as u64 } else { u64::MAX },
            reset_after: self.reset_at.map(|reset| reset - now),
            sharers: self.sharers(),
        }
    }

    /// What is left of it as far as that can be: no more than the limit. Infinite where nothing was said.
    fn left(&self) -> f64 {
        if self.remaining.is_finite() { self.remaining.min(self.limit) } else { self.remaining }
    }

    /// How many seem to share it.
    pub(crate) fn sharers(&self) -> f64 {
        (self.total / self.own.max(1e-9)).clamp(1.0, 1e6)
    }

    pub(crate) fn note_sent(&mut self, ticket: Ticket, jitter: f64) {
        let now = ticket.sent_at;
        if self.refill == Refill::AtReset && self.resets().is_some_and(|reset| reset <= now) {
            self.begin_anew(now);
            self.renewal.begin(ticket);
            self.jitter = jitter;
        }
        self.spent += self.unit.of(ticket.load);
        self.last_sent = now;
    }

    /// What was noted as sent was not charged to it.
    pub(crate) fn note_unsent(&mut self, load: Load) {
        self.spent = (self.spent - self.unit.of(load)).max(0.0);
    }

    /// Whether it is no reason to come back when it says: it said so before, and nothing was there.
    pub(crate) fn is_unreliable(&self) -> bool {
        self.renewal.is_broken()
    }

    /// Seconds until `load` may be sent. Whether an answer is due matters where nothing else can tell more.
    pub(crate) fn wait(&self, load: Load, now: Time, is_answer_due: bool) -> f64 {
        let cost = self.unit.of(load);
        if self.remaining.is_infinite() {
            return 0.0;
        }
        match (self.refill, self.resets()) {
            (Refill::Steady, _) => self.wait_for_refill(cost, now),
            (Refill::AtReset, _) if is_answer_due && self.renewal.is_doubtful() => {
                self.wait_for_answer(cost, now)
            }
            (Refill::AtReset, Some(reset)) => {
                let wait = self.wait_for_reset(reset, cost, now);
                self.wait_to_settle(load, now, is_answer_due).map_or(wait, |it| wait.min(it))
            }
            (Refill::AtReset, None) if is_answer_due => self.wait_for_answer(cost, now),
            (Refill::AtReset, None) => 0.0,
        }
    }

    fn wait_for_refill(&self, cost: f64, now: Time) -> f64 {
        let share = self.share;
        let elapsed = (now - self.read_at).as_secs_f64();
        let level = self.left() + self.rate * elapsed - self.cushion;
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
        let is_known = self.limit.is_finite() && !self.renewal.was_partial();
        self.remaining = if is_known { self.limit } else { 1.0 };
        (self.spent, self.read_at, self.reset_at) = (0.0, now, None);
    }

    fn wait_for_reset(&self, reset: Time, cost: f64, now: Time) -> f64 {
        let jitter = (reset - self.read_at).mul_f64(0.1).min(LONGEST_JITTER).mul_f64(self.jitter);
        let left = (reset + jitter - now).as_secs_f64();
        if left <= 0.0 {
            return 0.0;
        }
        let there = self.left() - self.spent;
        if there < cost {
            return left;
        }
        if there > self.limit * APPROACHING && self.limit.is_finite() {
            return 0.0;
        }
        let mine = self.mine();
        if mine < cost {
            return left;
        }
        // The last of it goes out before the reset, not at it.
        let each = ((reset - now).as_secs_f64() / (mine / cost + 1.0)).min(MOST_SPREAD);
        (each - (now - self.last_sent).as_secs_f64()).max(0.0)
    }

    /// It seems to count requests, but that may be chance. Before it is waited for until its reset, one request finds out.
    fn wait_to_settle(&self, load: Load, now: Time, is_answer_due: bool) -> Option<f64> {
        let is_open = self.unit == Unit::Untold && load.cost > load.requests;
        let may_pass = is_open && self.left() >= load.requests as f64;
        let settles = self.evidence.settles_in(now).filter(|_| may_pass)?;
        let least = if is_answer_due { START_STEP } else { Duration::ZERO };
        Some(settles.max(least).as_secs_f64())
    }

    /// Nothing says when it comes back, and the answer that is due may. Until then no more is sent than was there; but an
    /// answer may take long, so one request now and then goes all the same.
    fn wait_for_answer(&self, cost: f64, now: Time) -> f64 {
        if self.mine() >= cost {
            return 0.0;
        }
        let left = ASKED_AGAIN.saturating_sub(now - self.last_sent);
        // The answer may be here any moment, so nobody is told to wait much longer.
        left.min(START_STEP).as_secs_f64()
    }

    /// What is left of this client's share, where it comes back all at once.
    fn mine(&self) -> f64 {
        let is_shared = self.sharers() > 1.5 && self.limit.is_finite();
        let left_to_others = if is_shared { self.limit * 0.02 } else { 0.0 };
        self.share * (self.left() - left_to_others) - self.spent
    }
}

#[cfg(test)]
mod tests;
