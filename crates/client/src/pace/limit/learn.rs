//! What an answer teaches about a limit: its figures, how it comes back, and whose part of it is whose.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::Seen;

use super::unit::Before;
use super::{LimitPace, Reading, Refill};

/// How much of a logarithm sharers are undercounted by, so that shares become equal.
const LEVELLING: f64 = 0.03;

/// Seconds over which a rate is watched, at least and at most: less, and the way's delays would look like refill.
const WATCHED: (f64, f64) = (0.2, 1.0);

/// A client that asks often is not idle before so many seconds.
const NOT_YET_IDLE: f64 = 1.0;

/// What a refusal leaves of a share.
const AFTER_REFUSAL: f64 = 0.7;

/// Which part of the rate's upper bound is taken for the rate. A refusal bounds it by how long one token takes at most.
const RATE_OF_BOUND: f64 = 0.7;

impl LimitPace {
    pub(super) fn note_figures(&mut self, seen: &Seen, now: Time) {
        let told = (self.limit, self.window);
        if let Some(limit) = seen.limit.filter(|limit| *limit > 0) {
            self.limit = limit as f64;
        }
        self.window = seen.window.or(self.window);
        if told != (self.limit, self.window) {
            (self.rate, self.rate_below) = (0.0, f64::INFINITY);
        }
        let window = self.window.map_or(f64::INFINITY, |window| window.as_secs_f64().max(1e-3));
        // A window says how fast only of a limit that is known.
        if self.limit.is_finite() {
            self.rate = self.rate.max(self.limit / window);
        }
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
    pub(super) fn first_guess(&self, seen: &Seen) -> Refill {
        let is_rated = self.rate.is_finite() && self.rate > 0.0;
        let Some(remaining) = seen.remaining.filter(|_| is_rated) else { return Refill::AtReset };
        let (least, most) = self.bucket_resets_in(remaining as f64);
        let reset = seen.reset_after.map_or(most, |after| after.as_secs_f64());
        if (least..=most).contains(&reset) { Refill::Steady } else { Refill::AtReset }
    }

    /// Takes in what an answer says.
    pub(crate) fn read(&mut self, seen: &Seen, reading: &Reading) {
        self.told.again(reading);
        self.defied_by = self.defied_by.filter(|number| *number > reading.number);
        self.is_resource |= seen.is_resource;
        self.learn_unit_beyond(seen, reading);
        if reading.of.cost < self.read_of.cost {
            // Overtaken: what it was charged is in what was read already.
            self.own_late += reading.charged(self.unit);
            return;
        }
        if let Some(remaining) = seen.remaining.map(|r| r as f64)
            && let Some(refusal) = reading.refusal_by(remaining, self.unit)
            && let Some(after) = refusal.after
        {
            let bound = refusal.missing(remaining, self.unit) / after.as_secs_f64().max(1e-4);
            self.rate_below = self.rate_below.min(bound);
            // What was learnt before may have been learnt from an odd figure.
            self.rate = self.rate.min(self.rate_below);
        }
        let (figures, reset_before) = ((self.limit, self.window), self.reset_at);
        let elapsed = (reading.at - self.read_at).as_secs_f64();
        self.note_figures(seen, reading.at);
        let Some(told) = seen.remaining.map(|r| r as f64) else { return };
        // What is left under other figures, or is more than there can be, compares with nothing.
        let is_comparable = figures == (self.limit, self.window)
            && self.remaining.is_finite()
            && self.remaining.max(told) <= self.limit;
        let before = is_comparable.then_some(self.remaining);
        let remaining = told.min(self.limit);
        let stood = Before { remaining: before, reset_at: reset_before };
        self.learn_unit(before, told, reading);
        self.renewal.read(reading, (remaining, self.limit), self.unit);
        self.learn_refill(stood, remaining, reading);
        self.learn_share(before, remaining, elapsed, reading);
        self.rebase(seen, reading);
    }

    fn learn_refill(&mut self, before: Before, remaining: f64, reading: &Reading) {
        let second = Duration::from_secs(1);
        let early = before.reset_at.is_some_and(|reset| reading.at + second < reset);
        let came_back = before.remaining.is_some_and(|before| remaining > before);
        let refusal = reading.refusal_by(remaining, self.unit);
        let wait = refusal
            .and_then(|refusal| Some((refusal.missing(remaining, self.unit), refusal.after?)));
        match (self.refill, wait) {
            // It came back before it was to: bit by bit, then.
            (Refill::AtReset, _) if self.rate > 0.0 && early && came_back => {
                self.refill = Refill::Steady;
            }
            // What is missing takes longer to come back than the rate could take.
            (Refill::Steady, Some((missing, after))) => {
                let longest = missing / self.rate;
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

    fn learn_share(
        &mut self,
        before: Option<f64>,
        remaining: f64,
        elapsed: f64,
        reading: &Reading,
    ) {
        let charged = reading.charged(self.unit);
        let own = charged + std::mem::take(&mut self.own_late);
        let was_full = remaining + charged >= self.limit;
        let total = match (self.refill, before) {
            // A full bucket does not tell how long it has been full.
            _ if was_full => own,
            (_, None) => own,
            (Refill::Steady, Some(before)) => self.rate * elapsed - (remaining - before),
            (Refill::AtReset, Some(before)) if remaining > before => own,
            (Refill::AtReset, Some(before)) => before - remaining,
        };
        // Who asks for nothing for long gives nothing away by that: it counts as a pause like any other, and so does what the others
        // spent in it. Whoever asks but now and then for good is not idle for long.
        let is_idle = self.interval > 0.0 && elapsed > (8.0 * self.interval).max(NOT_YET_IDLE);
        let (watched, total) = match is_idle {
            true => (self.interval, total * self.interval / elapsed),
            false => (elapsed, total),
        };
        let paused = if is_idle { 8.0 * self.interval } else { elapsed };
        self.interval += (paused - self.interval) / 8.0;
        let memory = (8.0 * self.interval).max(0.1);
        let kept = (-watched / memory).exp();
        self.own = self.own * kept + own;
        self.total = (self.total * kept + total).max(self.own);
        if let Some(refusal) = reading.refusal_by(remaining, self.unit)
            && reading.number > self.cut_after
        {
            self.own *= AFTER_REFUSAL;
            self.cut_after = refusal.sendings;
        }
        match before {
            Some(before) => self.learn_rate(remaining - before + own, elapsed),
            None => (self.gained, self.watched) = (0.0, 0.0),
        }
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
            // A refusal's wait is rounded up, so its bound may be below what was told.
            self.rate = (0.9 * seen).min(most).min(self.rate_below).max(self.rate);
        }
    }

    pub(super) fn rebase(&mut self, seen: &Seen, reading: &Reading) {
        self.remaining = seen.remaining.map_or(self.remaining, |r| r as f64);
        self.read_at = reading.at;
        self.read_of = reading.of;
        self.told.is_back_at(self.resets());
        self.spent = self.unit.of(reading.unanswered);
        self.share = self.sharers().powf(1.0 - LEVELLING).recip();
        self.cushion = LimitPace::cushion_of(self.limit);
    }

    /// What is left for others' surprises: their requests vary by the root of their number. A bucket of few tokens has none to leave.
    fn cushion_of(limit: f64) -> f64 {
        let room = (limit - 1.0) / 2.0 + 0.05;
        let cushion = (2.0 * limit.sqrt()).min(limit / 4.0).min(room);
        if cushion.is_finite() { cushion } else { 0.0 }
    }
}
