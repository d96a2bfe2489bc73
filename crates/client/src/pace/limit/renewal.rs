//! Whether a limit comes back when it says.
//!
//! Some servers tell when something comes back, not when everything does: a window that rolls, of which the reset is always a
//! second away. Who takes that for the end of a window sends all of it each time, and is refused each time.

use super::{Reading, Unit};
use crate::pace::Ticket;
use crate::pace::load::Load;

/// What became of the last resets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Renewal {
    /// What had been sent when it was to be back, until an answer shows how much was.
    of: Option<Load>,
    /// The last time less than half was there.
    was_partial: bool,
    /// How often in a row nothing was.
    broken: u32,
}

/// So often nothing is there for other reasons: others may have been faster.
const EXCUSED: u32 = 2;

impl Renewal {
    /// It should be back by now; this is the first that is sent.
    pub(super) fn begin(&mut self, ticket: Ticket) {
        self.of = Some(ticket.of.minus(ticket.load));
    }

    /// An answer shows what was left after it.
    pub(super) fn read(&mut self, reading: &Reading, (remaining, limit): (f64, f64), unit: Unit) {
        let is_of_it = |before: &Load| reading.of.cost > before.cost;
        let Some(before) = self.of.filter(is_of_it) else { return };
        self.of = None;
        let is_refused = reading.refusal_by(remaining, unit).is_some();
        let spent = if reading.refusal.is_some() { 0.0 } else { unit.of(reading.of.minus(before)) };
        self.was_partial = limit.is_finite() && remaining + spent < limit / 2.0;
        self.broken = if is_refused { self.broken.saturating_add(1) } else { 0 };
    }

    /// Whether only an answer tells how much there is, and none has come yet.
    pub(super) fn is_doubtful(&self) -> bool {
        self.was_partial && self.of.is_some()
    }

    pub(super) fn was_partial(&self) -> bool {
        self.was_partial
    }

    /// Whether it has said once too often that it would be back.
    pub(super) fn is_broken(&self) -> bool {
        self.broken >= EXCUSED
    }
}
