//! One request on its way, and what became of it.

use tollgate_core::Time;

use super::load::Load;

/// One request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Among all that were sent.
    pub(super) number: u64,
    /// As the program says.
    pub(super) cost: u64,
    /// Some limit seemed never to admit so much.
    pub(super) is_beyond: bool,
    /// What it counts as while it is on its way.
    pub(super) load: Load,
    /// What was sent up to and including it.
    pub(super) of: Load,
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
    /// Limits let it pass, and were charged.
    Passed,
    /// It was not refused by a limit, but perhaps not charged either: what was asked for was turned down, or a limit was skipped.
    Excused,
    /// The server was in trouble: nobody knows whether a limit was asked.
    Failed,
    /// Not yet, but it may still be.
    Begun,
    /// A limit refused it.
    Refused,
}
