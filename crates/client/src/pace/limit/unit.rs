//! In what a limit counts.
//!
//! A program says what a request costs, but a quota may count requests all the same, and no server says which. Whoever took a cost for
//! what such a limit is charged would stop before it is used up; whoever took a request for what a limit of costs is charged would be
//! refused again and again. The first is merely slow. So a limit counts costs until much speaks for requests, and nothing that others,
//! several nodes, rounded figures, a refill or a cost that is said too high can feign: see [`Evidence`].

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::Seen;

use super::{LimitPace, Reading, Refill};
use crate::pace::load::Load;

/// What a limit is charged for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// What it costs, as far as is known.
    #[default]
    Untold,
    /// One, whatever it costs.
    Requests,
    /// What it costs: when it was taken for one that counts requests, refusals showed that it is none.
    Costs,
}

impl Unit {
    pub(crate) fn count(self, load: Load) -> u64 {
        if self == Unit::Requests { load.requests } else { load.cost }
    }

    pub(super) fn of(self, load: Load) -> f64 {
        self.count(load) as f64
    }
}

/// How it stood before an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// What was left, if that compares with what is left now.
    pub(super) remaining: Option<f64>,
    pub(super) reset_at: Option<Time>,
}

/// What speaks for a limit that counts requests.
///
/// Either it goes down by one for each of them, many times in a row, **and** its reset stands still meanwhile. Where something comes back
/// all the time, what is left may go down by any little, but then all is back later each time: by more than the time that passes, if
/// anything is gone in the end. Readings of several nodes go up in between, or down by what a request costs in each round of them. What
/// is charged less than was said is still charged more than one; what is rounded, or not charged, does not go down.
///
/// Or what costs more than the limit ever admits passes again and again, and all that is gone then is a small part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// The first of the readings since which the reset has not moved.
    still: Option<Reset>,
    /// How many readings in a row it went down by no more than the requests that were sent.
    by_one: u32,
    /// How many requests that cost more than it admits took a small part of that.
    beyond: u32,
    /// Of refusals that nothing else explains there was one, when so many had been sent, and no such reading since.
    doubted_after: Option<u64>,
}

/// When it was to be reset, by a reading.
#[derive(Clone, Copy, Debug)]
struct Reset {
    remaining: f64,
    reset_at: Time,
    read_at: Time,
}

/// Resets are told in whole seconds: so near to each other they are the same, and so near to now it may have been.
const SAME_RESET: Duration = Duration::from_millis(1_500);

/// How long a reset has to stand still. If it moved with what is missing, it would have moved by more than this.
const STANDS_STILL: Duration = Duration::from_secs(5);

/// So many readings in a row are no chance.
const ENOUGH: u32 = 8;

/// What passed though less was left than it costs counts for so many of them: few limits of costs admit it.
const LACKED: u32 = ENOUGH / 2;

/// So many requests that cost more than there can be.
const ENOUGH_BEYOND: u32 = 2;

/// Which part of such a cost may be gone. Costs are said too high, but not by so much.
const SMALL_PART: f64 = 0.1;

impl Evidence {
    /// An answer says what is left and when it is reset; `before` is comparable.
    fn note_reset(&mut self, before: Option<f64>, now: Option<Reset>) {
        let is_still = |first: &Reset, now: Reset| {
            let moved = (now.reset_at - first.reset_at).max(first.reset_at - now.reset_at);
            let is_far = now.read_at + SAME_RESET < first.reset_at;
            is_far && moved <= SAME_RESET && now.remaining <= first.remaining
        };
        let kept = self
            .still
            .filter(|first| before.is_some() && now.is_some_and(|now| is_still(first, now)));
        if kept.is_none() {
            (self.still, self.by_one) = (now, 0);
        }
    }

    fn note_fall(&mut self, by: f64, sent: u64, has_lacked: bool) {
        if !(1.0..=sent as f64).contains(&by) {
            self.by_one = 0;
            return;
        }
        self.by_one = self.by_one.saturating_add(if has_lacked { LACKED } else { 1 });
        self.doubted_after = None;
    }

    /// Whether the reset has stood still for long while something went.
    fn is_reset_still(&self, remaining: f64, now: Time) -> bool {
        self.still
            .is_some_and(|first| now - first.read_at >= STANDS_STILL && remaining < first.remaining)
    }

    /// How long until one more request that passes can settle it.
    pub(super) fn settles_in(&self, now: Time) -> Option<Duration> {
        let first = self.still.filter(|_| self.by_one >= LACKED)?;
        Some(first.read_at + STANDS_STILL - now)
    }

    fn refute(&mut self) {
        (self.by_one, self.beyond) = (0, 0);
    }
}

impl LimitPace {
    /// Whether it can not admit so much at once, however long it is waited for.
    pub(crate) fn never_admits(&self, cost: u64) -> bool {
        self.unit.of(Load::of(cost)) > self.limit
    }

    /// What passed may show that it counts requests.
    pub(super) fn learn_unit(&mut self, before: Option<f64>, told: f64, reading: &Reading) {
        let reset = self.reset_at.filter(|_| self.refill == Refill::AtReset);
        let now = reset.map(|reset_at| Reset { remaining: told, reset_at, read_at: reading.at });
        self.evidence.note_reset(before, now);
        let cost = reading.load.cost as f64;
        if reading.refusal.is_some() && told < cost && self.unit == Unit::Untold {
            self.evidence.refute();
        }
        if let Some(before) = before.filter(|_| reading.has_passed && cost > 1.0) {
            let sent = reading.of.minus(self.read_of).requests;
            self.evidence.note_fall(before - told, sent, before < cost);
        }
        let is_still = self.evidence.is_reset_still(told, reading.at);
        if is_still && self.evidence.by_one >= ENOUGH {
            self.count_requests();
        }
    }

    /// The same of what costs more than it ever admits. All that it took is gone, whichever was answered first. What was only begun may
    /// still be refused.
    pub(super) fn learn_unit_beyond(&mut self, seen: &Seen, reading: &Reading) {
        let (Some(limit), Some(told)) = (seen.limit, seen.remaining) else { return };
        let (cost, gone) = (reading.load.cost, limit.saturating_sub(told));
        // A limit of which nothing is left whatever passes is a lie, and would be waited for.
        let is_small = told >= 1 && gone >= 1 && gone as f64 <= cost as f64 * SMALL_PART;
        if reading.has_passed && !reading.has_only_begun && cost > limit && is_small {
            self.evidence.beyond = self.evidence.beyond.saturating_add(1);
            self.evidence.doubted_after = None;
        }
        if self.evidence.beyond >= ENOUGH_BEYOND {
            self.count_requests();
        }
    }

    fn count_requests(&mut self) {
        if self.unit != Unit::Requests {
            self.count_by(Unit::Requests);
        }
    }

    /// A refusal of the request of this number that nothing explains, unless this limit counts costs after all. Others than limits refuse
    /// too, so one is not enough; and when it was wrong to doubt, less shows that than did at first.
    pub(crate) fn doubt(&mut self, number: u64, sendings: u64) {
        match self.evidence.doubted_after {
            None => self.evidence.doubted_after = Some(sendings),
            Some(after) if number > after => {
                self.count_by(Unit::Costs);
                let still = self.evidence.still;
                self.evidence = Evidence { still, by_one: ENOUGH - LACKED, ..Evidence::default() };
            }
            Some(_) => {}
        }
    }

    /// What spoke for requests does so no longer, unless it was enough.
    pub(crate) fn refute_unit(&mut self) {
        self.evidence.refute();
    }

    /// What was measured in other units compares with nothing.
    fn count_by(&mut self, unit: Unit) {
        self.unit = unit;
        (self.own, self.total, self.own_late) = (1.0, 1.0, 0.0);
        (self.gained, self.watched) = (0.0, 0.0);
    }
}
