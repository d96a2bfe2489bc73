//! What the answer to one request says, beside a limit's figures.

use std::time::Duration;

use tollgate_core::Time;

use super::Unit;
use crate::pace::load::Load;

/// What was answered to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Time,
    /// Of the request, among all that were sent.
    pub(crate) number: u64,
    /// Which sending is answered, counted up to and including it.
    pub(crate) of: Load,
    /// What is still unanswered.
    pub(crate) unanswered: Load,
    /// What the request costs.
    pub(crate) load: Load,
    /// Whether limits were charged: not if one refused.
    pub(crate) is_charged: bool,
    /// Whether all limits are known to have let it pass, and to have been charged.
    pub(crate) has_passed: bool,
    /// Though it may still be refused.
    pub(crate) has_only_begun: bool,
    /// Some limit refused it; not necessarily each that the answer shows.
    pub(crate) refusal: Option<Refusal>,
}

/// A request was refused because it came too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// What it would have cost.
    load: Load,
    /// How long until it would pass, where that is the wait for one limit alone.
    pub(crate) after: Option<Duration>,
    /// How many had been sent when it was heard.
    pub(crate) sendings: u64,
}

impl Refusal {
    pub(crate) fn new(cost: u64, after: Option<Duration>, sendings: u64) -> Refusal {
        Refusal { load: Load::of(cost), after, sendings }
    }

    /// What a limit lacks with so much left.
    pub(crate) fn missing(&self, remaining: f64, unit: Unit) -> f64 {
        (unit.of(self.load) - remaining).max(0.0)
    }
}

impl Reading {
    /// What a limit was charged that counts so.
    pub(crate) fn charged(&self, unit: Unit) -> f64 {
        if self.is_charged { unit.of(self.load) } else { 0.0 }
    }

    /// The refusal, if a limit with so much left is a reason for it. One with enough left learns nothing from what others refuse.
    pub(crate) fn refusal_by(&self, remaining: f64, unit: Unit) -> Option<Refusal> {
        self.refusal.filter(|refusal| refusal.missing(remaining, unit) > 0.0)
    }
}
