//! How fast one client may go against one server under one key: decided without clock or I/O.
//!
//! `(state, now) → (state, wait)`. The shell around it sleeps and sends.

mod hold;
mod hopeless;
mod limit;
mod load;
mod refused;
mod round;
mod silent;
mod ticket;

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::{Said, Seen};

use crate::LimitStatus;
use hold::Holds;
use hopeless::Hopeless;
use limit::{LimitPace, Reading, Refusal};
pub(crate) use load::Load;
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
    hopeless: Hopeless,
    /// When it last said anything.
    heard_at: Time,
    /// When it was last asked.
    sent_at: Time,
    /// When it was last asked or told how limits stand: not by what costs nothing and is answered without a word of them.
    limits_at: Time,
    /// However long a server wants us away, after so long it is asked again.
    longest_silence: Duration,
    sendings: u64,
    sent: Load,
    in_flight: u64,
    unanswered: Load,
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
            hopeless: Hopeless::default(),
            heard_at: Time::EPOCH,
            sent_at: Time::EPOCH,
            limits_at: Time::EPOCH,
            longest_silence,
            sendings: 0,
            sent: Load::default(),
            in_flight: 0,
            unanswered: Load::default(),
            answers: 0,
            began_at: Time::EPOCH,
            round: Round::default(),
            random: seed | 1,
        }
    }

    /// How long to wait before sending `cost`, if `ahead` is sent before it. Zero: not at all.
    pub(crate) fn wait(&self, now: Time, ahead: Load, cost: u64) -> Duration {
        let is_beyond = self.is_beyond(cost);
        let (limited, asked_at) = match cost {
            0 => (Duration::ZERO, self.used_at()),
            _ => (self.wait_for_limits(now, ahead, cost), self.limits_at),
        };
        let asked_at = if is_beyond { asked_at.max(self.hopeless.tried_at()) } else { asked_at };
        let limited = limited.max(self.hopeless.left(cost, is_beyond, now));
        let wait = limited.max(self.holds.left(now));
        // A server may be wrong, or lie. One question now and then finds out.
        wait.min(self.longest_silence.saturating_sub(now - asked_at))
    }

    fn wait_for_limits(&self, now: Time, ahead: Load, cost: u64) -> Duration {
        let mut wait = self.silent.wait(ahead.plus(self.load(cost)).cost as f64, now);
        let load = ahead.plus(Load::of(cost));
        // What can never pass waits in vain. The server says so, and charges nothing for it.
        for limit in self.limits.iter().filter(|limit| !limit.never_admits(cost)) {
            wait = wait.max(limit.wait(load, now, self.in_flight > 0));
        }
        as_wait(wait)
    }

    /// Whether it costs more than some limit ever admits. Then it is refused, and charged to none; or that limit counts requests.
    fn is_beyond(&self, cost: u64) -> bool {
        self.limits.iter().any(|limit| limit.never_admits(cost))
    }

    /// Whether nobody is to wait behind such a request, because it waits for what others need not wait for.
    pub(crate) fn sets_aside(&self, cost: u64) -> bool {
        self.is_beyond(cost) || self.hopeless.holds(cost)
    }

    /// What a request counts as until it is answered. Of those that go beyond a limit only one is on its way, and nobody is to wait for what it
    /// is said to cost.
    pub(crate) fn load(&self, cost: u64) -> Load {
        Load::of(if self.is_beyond(cost) { 1 } else { cost })
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
        let load = self.load(cost);
        self.sent = self.sent.plus(load);
        self.sent_at = now;
        self.in_flight += 1;
        self.unanswered = self.unanswered.plus(load);
        let (number, is_beyond) = (self.sendings, self.is_beyond(cost));
        let ticket = Ticket { number, cost, is_beyond, load, of: self.sent, sent_at: now };
        if cost == 0 {
            return ticket;
        }
        self.hopeless.sent(ticket, now);
        // What does not wait for a limit does not ask how that stands either.
        if !is_beyond {
            self.limits_at = now;
        }
        let jitter = self.draw();
        for limit in &mut self.limits {
            let wait = as_wait(limit.wait(load, now, is_answer_due));
            if !limit.never_admits(cost) && !wait.is_zero() {
                limit.defied_by = Some(ticket.number);
            }
            limit.note_sent(ticket, jitter);
        }
        self.silent.note_sent(load.cost as f64, now);
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
        if self.tells_of_limits(ticket, said, is_refused) {
            self.limits_at = now;
        }
        if is_refused {
            self.doubt_units(ticket, said);
        }
        let is_limited = is_refused && !self.is_hopeless(ticket.cost, said);
        let lacking: Vec<&Seen> = match is_limited {
            true => said.limits.iter().filter(|seen| self.lacks(seen, ticket.cost)).collect(),
            false => Vec::new(),
        };
        // Of several that lack something nobody knows whose wait it is.
        let after = said.retry_after.filter(|_| lacking.len() == 1);
        let round = now - ticket.sent_at;
        self.round.note(round, now);
        let reading = Reading {
            at: ticket.sent_at + round.min(self.round.shortest()),
            number: ticket.number,
            of: ticket.of,
            unanswered: self.unanswered,
            load: Load::of(ticket.cost),
            is_charged: !is_refused,
            has_passed: matches!(outcome, Outcome::Passed | Outcome::Begun),
            has_only_begun: outcome == Outcome::Begun,
            refusal: is_limited.then(|| Refusal::new(ticket.cost, after, self.sendings)),
        };
        if !said.limits.is_empty() {
            let shown = |limit: &LimitPace| said.limits.iter().any(|seen| seen.name == limit.name);
            self.limits.retain_mut(|limit| shown(limit) || !limit.is_gone_beside_others(now));
        }
        self.note_resource(ticket, said);
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
            Outcome::Refused if is_limited => self.note_refusal((now, ticket), said, &lacking),
            Outcome::Refused => {
                let jitter = self.draw();
                self.hopeless.refused(ticket, self.sendings, now, jitter);
            }
            Outcome::Passed | Outcome::Excused => self.passed(ticket),
            Outcome::Failed => self.silent.passed(),
            Outcome::Begun => {}
        }
    }

    /// Whether an answer tells how limits stand that others wait for.
    fn tells_of_limits(&self, ticket: Ticket, said: &Said, is_refused: bool) -> bool {
        if !ticket.is_beyond {
            return ticket.cost > 0 || is_refused || !said.limits.is_empty();
        }
        let is_shown = |limit: &LimitPace| said.limits.iter().any(|seen| seen.name == limit.name);
        self.limits.iter().filter(|limit| limit.never_admits(ticket.cost)).all(is_shown)
    }

    /// It was not refused. So whatever it was sent in spite of is over, unless its answer spoke of that again; and so is, by and
    /// by, what no answer speaks of.
    pub(crate) fn passed(&mut self, ticket: Ticket) {
        self.silent.passed();
        self.holds.passed(ticket.number);
        self.hopeless.passed(ticket);
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
        // What it was charged shows nothing.
        self.limits.iter_mut().for_each(LimitPace::refute_unit);
        let said = Said { retry_after: said.retry_after, ..Said::default() };
        // It was said at the call's end, so it is the newest word.
        let (number, load) = (self.sendings, Load::of(1));
        let of = self.sent;
        let ticket = Ticket { number, cost: 1, is_beyond: false, load, of, sent_at: now };
        self.note_refusal((now, ticket), &said, &[]);
    }

    pub(crate) fn limits(&self, now: Time) -> Vec<LimitStatus> {
        self.limits.iter().map(|limit| limit.status(now)).collect()
    }

    /// Whether some limit is taken for one that counts requests.
    #[cfg(test)]
    pub(crate) fn counts_requests(&self) -> bool {
        self.limits.iter().any(|limit| limit.unit == limit::Unit::Requests)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// When it was last asked or heard of.
    pub(crate) fn used_at(&self) -> Time {
        self.heard_at.max(self.sent_at)
    }

    /// Where a server names what it charged, calls that are charged to one of these use up no other.
    fn note_resource(&mut self, ticket: Ticket, said: &Said) {
        let named = |name: &str| said.limits.iter().any(|seen| seen.name == name);
        if said.limits.iter().any(|seen| seen.is_resource) {
            let others = self.limits.iter_mut().filter(|limit| limit.is_resource);
            for other in others.filter(|limit| !named(&limit.name)) {
                other.note_unsent(ticket.load);
            }
        }
    }

    /// Its answer will not come.
    pub(crate) fn lost(&mut self, ticket: Ticket) {
        self.forget(ticket);
    }

    /// It was not even sent, so nothing was charged for it.
    pub(crate) fn never_sent(&mut self, ticket: Ticket) {
        self.forget(ticket);
        for limit in &mut self.limits {
            limit.note_unsent(ticket.load);
        }
    }

    fn forget(&mut self, ticket: Ticket) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unanswered = self.unanswered.minus(ticket.load);
        self.hopeless.forget(ticket);
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

/// As long as can be waited, and less than a nanosecond not at all.
fn as_wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
