//! What the answer to one request says, beside a limit's figures.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::{Said, Seen};

/// What was answered to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Time,
    /// Of the request, among all that were sent.
    pub(crate) number: u64,
    /// Which sending is answered, counted in cost up to and including it.
    pub(crate) of: u64,
    /// What is still unanswered.
    pub(crate) unanswered: u64,
    /// What the limit was charged: nothing if it refused.
    pub(crate) charged: f64,
    /// Some limit refused it; not necessarily each that the answer shows.
    pub(crate) refusal: Option<Refusal>,
}

/// A request was refused because it came too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// What it would have cost.
    cost: f64,
    /// How long until it would pass, where that is the wait for one limit alone.
    pub(crate) after: Option<Duration>,
    /// How many had been sent when it was heard.
    pub(crate) sendings: u64,
}

impl Refusal {
    pub(crate) fn new(cost: u64, said: &Said, sendings: u64) -> Refusal {
        let lacks = |seen: &&Seen| seen.remaining.is_some_and(|remaining| remaining < cost);
        // Of several that lack something nobody knows whose wait it is.
        let is_of_one = said.limits.iter().filter(lacks).count() == 1;
        let after = said.retry_after.filter(|_| is_of_one);
        Refusal { cost: cost as f64, after, sendings }
    }

    /// What a limit lacks with so much left.
    pub(crate) fn missing(&self, remaining: f64) -> f64 {
        (self.cost - remaining).max(0.0)
    }
}

impl Reading {
    /// The refusal, if a limit with so much left is a reason for it. One with enough left learns nothing from what others refuse.
    pub(crate) fn refusal_by(&self, remaining: f64) -> Option<Refusal> {
        self.refusal.filter(|refusal| refusal.missing(remaining) > 0.0)
    }
}
