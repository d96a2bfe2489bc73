//! What a refusal means: which limits lacked something, whether waiting helps, and for how long to stay away.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::{Said, Seen};

use super::hold::Word;
use super::limit::Unit;
use super::{Load, Pace, Ticket};

impl Pace {
    /// What a limit of this name would be charged.
    fn charge(&self, name: &str, cost: u64) -> u64 {
        let known = self.limits.iter().find(|limit| limit.name == name);
        known.map_or(Unit::default(), |limit| limit.unit).count(Load::of(cost))
    }

    /// Whether less is left of a limit than it would be charged.
    pub(super) fn lacks(&self, seen: &Seen, cost: u64) -> bool {
        let charge = self.charge(&seen.name, cost);
        seen.remaining.is_some_and(|remaining| remaining < charge)
    }

    /// Whether this request can never pass: the server wants no retry and says no time, and it costs more than a limit admits at all,
    /// or there is enough left of everything. That is no sign of being too fast.
    pub(super) fn is_hopeless(&self, cost: u64, said: &Said) -> bool {
        let has_enough = |seen: &Seen| seen.remaining.is_some() && !self.lacks(seen, cost);
        // Of none at all nothing passes, whatever it costs: that may end.
        let is_beyond = |seen: &Seen| {
            let charge = self.charge(&seen.name, cost);
            seen.limit.is_some_and(|limit| limit > 0 && limit < charge)
        };
        said.should_retry == Some(false)
            && said.retry_after.is_none()
            && !said.limits.is_empty()
            && (said.limits.iter().all(has_enough) || said.limits.iter().any(is_beyond))
    }

    /// A refusal that no limit explains, as they are taken to count: then one that has less left than this costs may count costs. One
    /// that never has so much explains it before others do.
    pub(super) fn doubt_units(&mut self, ticket: Ticket, said: &Said) {
        let cost = ticket.cost;
        if said.limits.iter().any(|seen| self.lacks(seen, cost)) {
            return;
        }
        let never_has = |seen: &Seen| seen.limit.is_some_and(|limit| limit < cost);
        let is_never = said.limits.iter().any(never_has);
        let lacks = |seen: &&Seen| match is_never {
            true => never_has(seen),
            false => seen.remaining.is_some_and(|remaining| remaining < cost),
        };
        for seen in said.limits.iter().filter(lacks) {
            let known = self.limits.iter_mut().find(|limit| limit.name == seen.name);
            if let Some(limit) = known.filter(|limit| limit.unit == Unit::Requests) {
                limit.doubt(ticket.number, self.sendings);
            }
        }
    }

    pub(super) fn note_refusal(
        &mut self,
        (now, ticket): (Time, Ticket),
        said: &Said,
        lacking: &[&Seen],
    ) {
        let after = said.retry_after.filter(|after| !after.is_zero());
        if let Some(after) = after {
            let spread = after.mul_f64(0.1).min(Duration::from_secs(1));
            let until = now + after + spread.mul_f64(self.draw());
            let latest = now + after + spread;
            self.holds.tell(Word { until, latest, ticket, said, lacking, sendings: self.sendings });
        }
        // A limit that explains the refusal is handled by its own pace, if there is anything to wait for.
        let is_explained = lacking.iter().any(|seen| {
            let is_told = after.is_some() || self.waits_for(&seen.name, ticket.cost, now);
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

    /// Whether the next one that costs so much waits for this limit.
    fn waits_for(&self, name: &str, cost: u64, now: Time) -> bool {
        let mut known = self.limits.iter().filter(|limit| limit.name == name);
        known.any(|limit| !limit.never_admits(cost) && limit.wait(Load::of(cost), now, false) > 0.0)
    }

    fn is_unreliable(&self, name: &str) -> bool {
        self.limits.iter().any(|limit| limit.name == name && limit.is_unreliable())
    }
}
