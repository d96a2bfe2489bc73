//! How fast one client may go against one server under one key: decided without clock or I/O.
//!
//! `(state, now) → (state, wait)`. The shell around it sleeps and sends.

mod hold;
mod limit;
mod round;
mod silent;
mod ticket;

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::{Said, Seen};

use crate::LimitStatus;
use hold::{Holds, Word};
use limit::{LimitPace, Reading, Refusal};
use round::Round;
use silent::Silent;
pub(crate) use ticket::{Outcome, Ticket};

/// How many limits of one server are kept.
const MOST_LIMITS: usize = 16;

/// After so many answers, what a limit allows is known well enough to use it at once.
const FIRST_ANSWERS: u64 = 16;

/// So many are sent before the first answer, and one more each step.
const FIRST_SENT: u64 = 2;
pub(crate) const START_STEP: Duration = Duration::from_millis(25);

/// Everything known about one server under one key.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    limits: Vec<LimitPace>,
    silent: Silent,
    /// The server asked to stay away.
    holds: Holds,
    /// When it last said anything.
    heard_at: Time,
    /// When it was last asked.
    sent_at: Time,
    /// When it was last asked or told how limits stand: not by what costs nothing and is answered without a word of them.
    limits_at: Time,
    /// However long a server wants us away, after so long it is asked again.
    longest_silence: Duration,
    sendings: u64,
    /// The cost of all of them.
    sent: u64,
    in_flight: u64,
    /// The cost of what is in flight.
    unanswered: u64,
    answers: u64,
    /// When the first that is unanswered was sent.
    began_at: Time,
    round: Round,
    random: u64,
}

impl Pace {
    pub(crate) fn new(longest_silence: Duration, seed: u64) -> Pace {
        Pace {
            limits: Vec::new(),
            silent: Silent::default(),
            holds: Holds::default(),
            heard_at: Time::EPOCH,
            sent_at: Time::EPOCH,
            limits_at: Time::EPOCH,
            longest_silence,
            sendings: 0,
            sent: 0,
            in_flight: 0,
            unanswered: 0,
            answers: 0,
            began_at: Time::EPOCH,
            round: Round::default(),
            random: seed | 1,
        }
    }

    /// How long to wait before sending `cost`, if `ahead` is sent before it. Zero: not at all.
    pub(crate) fn wait(&self, now: Time, ahead: u64, cost: u64) -> Duration {
        let (limited, asked_at) = match cost {
            0 => (Duration::ZERO, self.used_at()),
            _ => (self.wait_for_limits(now, ahead.saturating_add(cost)), self.limits_at),
        };
        let wait = limited.max(self.holds.left(now));
        // A server may be wrong, or lie. One question now and then finds out.
        wait.min(self.longest_silence.saturating_sub(now - asked_at))
    }

    fn wait_for_limits(&self, now: Time, cost: u64) -> Duration {
        let cost = cost as f64;
        let mut wait = self.silent.wait(cost, now);
        for limit in &self.limits {
            wait = wait.max(limit.wait(cost, now, self.in_flight > 0));
        }
        as_wait(wait)
    }

    /// Whether too much is unanswered to send more. At first nobody knows how many others share a limit, so what is in
    /// flight grows with the answers; and with time, because some servers take long.
    pub(crate) fn is_starting(&self, now: Time) -> bool {
        if self.answers >= FIRST_ANSWERS {
            return false;
        }
        let steps = (now - self.began_at).as_nanos() / START_STEP.as_nanos();
        u128::from(self.in_flight) >= u128::from(FIRST_SENT + 2 * self.answers) + steps
    }

    /// A request goes out.
    pub(crate) fn send(&mut self, now: Time, cost: u64) -> Ticket {
        if self.in_flight == 0 && self.answers == 0 {
            self.began_at = now;
        }
        let is_answer_due = self.in_flight > 0;
        self.sendings += 1;
        self.sent = self.sent.saturating_add(cost);
        self.sent_at = now;
        self.in_flight += 1;
        self.unanswered = self.unanswered.saturating_add(cost);
        let ticket = Ticket { number: self.sendings, cost, of: self.sent, sent_at: now };
        if cost == 0 {
            return ticket;
        }
        self.limits_at = now;
        let jitter = self.draw();
        for limit in &mut self.limits {
            if !as_wait(limit.wait(cost as f64, now, is_answer_due)).is_zero() {
                limit.defied_by = Some(ticket.number);
            }
            limit.note_sent(ticket, jitter);
        }
        self.silent.note_sent(cost as f64, now);
        ticket
    }

    /// Whether the server has asked to be left alone since.
    pub(crate) fn calls_off(&self, now: Time, ticket: Ticket) -> bool {
        self.holds.calls_off(ticket.number, now)
    }

    /// Its answer came in.
    pub(crate) fn heard(&mut self, now: Time, ticket: Ticket, said: &Said, outcome: Outcome) {
        self.forget(ticket);
        // A server that tells of no limit has none to be careful about.
        self.answers += if said.limits.is_empty() { FIRST_ANSWERS } else { 1 };
        self.heard_at = now;
        let is_refused = outcome == Outcome::Refused;
        if ticket.cost > 0 || is_refused || !said.limits.is_empty() {
            self.limits_at = now;
        }
        let is_limited = is_refused && !is_hopeless(ticket.cost, said);
        let charged = if is_refused { 0.0 } else { ticket.cost as f64 };
        let round = now - ticket.sent_at;
        self.round.note(round, now);
        let reading = Reading {
            at: ticket.sent_at + round.min(self.round.shortest()),
            number: ticket.number,
            of: ticket.of,
            unanswered: self.unanswered,
            charged,
            refusal: is_limited.then(|| Refusal::new(ticket.cost, said, self.sendings)),
        };
        if !said.limits.is_empty() {
            let shown = |limit: &LimitPace| said.limits.iter().any(|seen| seen.name == limit.name);
            self.limits.retain_mut(|limit| shown(limit) || !limit.is_gone_beside_others(now));
        }
        for seen in &said.limits {
            let known = self.limits.iter().position(|limit| limit.name == seen.name);
            match known {
                Some(index) => self.limits[index].read(seen, &reading),
                None if self.limits.len() < MOST_LIMITS => {
                    let jitter = self.draw();
                    self.limits.push(LimitPace::new(seen, &reading, jitter));
                }
                None => {}
            }
        }
        match outcome {
            Outcome::Refused if is_limited => self.note_refusal(now, ticket, said),
            Outcome::Refused => {}
            Outcome::Passed => self.passed(ticket),
            Outcome::Failed => self.silent.passed(),
            Outcome::Begun => {}
        }
    }

    /// It was not refused. So whatever it was sent in spite of is over, unless its answer spoke of that again; and so is, by and
    /// by, what no answer speaks of.
    pub(crate) fn passed(&mut self, ticket: Ticket) {
        self.silent.passed();
        self.holds.passed(ticket.number);
        self.limits
            .retain_mut(|limit| limit.defied_by != Some(ticket.number) && !limit.is_gone(ticket));
    }

    /// It was answered by leading elsewhere, with headers that nobody saw: it passed, and what it was charged is not known.
    #[cfg(feature = "reqwest")]
    pub(crate) fn redirected(&mut self, now: Time, ticket: Ticket) {
        self.forget(ticket);
        self.answers += 1;
        self.heard_at = now;
        self.silent.passed();
        self.holds.passed(ticket.number);
    }

    /// A call that had been answered was refused after all. When its limits were as it says nobody knows, so none explains it.
    pub(crate) fn refused_late(&mut self, now: Time, said: &Said) {
        (self.heard_at, self.limits_at) = (now, now);
        let said = Said { retry_after: said.retry_after, ..Said::default() };
        // It was said at the call's end, so it is the newest word.
        let ticket = Ticket { number: self.sendings, cost: 1, of: self.sent, sent_at: now };
        self.note_refusal(now, ticket, &said);
    }

    pub(crate) fn limits(&self, now: Time) -> Vec<LimitStatus> {
        self.limits.iter().map(|limit| limit.status(now)).collect()
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// When it was last asked or heard of.
    pub(crate) fn used_at(&self) -> Time {
        self.heard_at.max(self.sent_at)
    }

    fn note_refusal(&mut self, now: Time, ticket: Ticket, said: &Said) {
        let cost = ticket.cost;
        let after = said.retry_after.filter(|after| !after.is_zero());
        if let Some(after) = after {
            let spread = after.mul_f64(0.1).min(Duration::from_secs(1));
            let until = now + after + spread.mul_f64(self.draw());
            let latest = now + after + spread;
            self.holds.tell(Word { until, latest, ticket, said, sendings: self.sendings });
        }
        // A limit that explains the refusal is handled by its own pace, if there is anything to wait for.
        let lacks = |seen: &&Seen| seen.remaining.is_some_and(|remaining| remaining < cost);
        let mut lacking = said.limits.iter().filter(lacks);
        let is_explained = lacking.any(|seen| {
            let is_told = after.is_some() || self.waits_for(&seen.name, cost, now);
            is_told && !self.is_unreliable(&seen.name)
        });
        if !is_explained {
            let backoff = self.silent.refused(now);
            if after.is_none() {
                let until = now + backoff.mul_f64(0.5 + self.draw());
                self.holds.guess(until, ticket, self.sendings);
            }
        }
        let jitter = self.draw();
        for limit in &mut self.limits {
            limit.jitter = jitter;
        }
    }

    fn waits_for(&self, name: &str, cost: u64, now: Time) -> bool {
        let mut known = self.limits.iter().filter(|limit| limit.name == name);
        known.any(|limit| limit.wait(cost as f64, now, false) > 0.0)
    }

    fn is_unreliable(&self, name: &str) -> bool {
        self.limits.iter().any(|limit| limit.name == name && limit.is_unreliable())
    }

    /// Its answer will not come.
    pub(crate) fn lost(&mut self, ticket: Ticket) {
        self.forget(ticket);
    }

    /// It was not even sent, so nothing was charged for it.
    pub(crate) fn never_sent(&mut self, ticket: Ticket) {
        self.forget(ticket);
        for limit in &mut self.limits {
            limit.note_unsent(ticket.cost as f64);
        }
    }

    fn forget(&mut self, ticket: Ticket) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unanswered = self.unanswered.saturating_sub(ticket.cost);
    }

    /// Between 0 and 1 (xorshift64*).
    pub(crate) fn draw(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

/// Whether this request can never pass, say because it costs more than the limit: the server wants no retry, says no time
/// and has enough left of everything. That is no sign of being too fast.
fn is_hopeless(cost: u64, said: &Said) -> bool {
    let has_enough = |seen: &Seen| seen.remaining.is_some_and(|remaining| remaining >= cost);
    said.should_retry == Some(false)
        && said.retry_after.is_none()
        && !said.limits.is_empty()
        && said.limits.iter().all(has_enough)
}

/// As long as can be waited, and less than a nanosecond not at all.
fn as_wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
