//! One request on its way, and what became of it.

use tollgate_core::Time;

/// One request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Among all that were sent.
    pub(super) number: u64,
    pub(super) cost: u64,
    /// What was sent up to and including it, counted in cost.
    pub(super) of: u64,
    pub(super) sent_at: Time,
}

impl Ticket {
    /// Something else kept it back until now: its answer is not to be dated by when it had leave.
    pub(crate) fn leaves_at(&mut self, now: Time) {
        self.sent_at = now;
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not refused by a limit.
    Passed,
    /// The server was in trouble: nobody knows whether a limit was asked.
    Failed,
    /// Not yet, but it may still be.
    Begun,
    /// A limit refused it.
    Refused,
}
