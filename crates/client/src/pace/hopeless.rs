//! Requests that cost more than some limit admits at all, and refusals that no waiting helps.
//!
//! What such a limit is, is not certain: it may count requests, and then they pass. So they do not wait for it, but only one is on its way
//! until that is known. A server that says that it will never do is not asked the same at the speed of its answers: whoever costs as
//! much waits ever longer, others do not.

use std::time::Duration;

use tollgate_core::Time;

use super::Ticket;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hopeless {
    /// The last that may never pass and is not answered, and when it was sent.
    trial: Option<(u64, Time)>,
    /// When the last one was sent, or answered.
    tried_at: Time,
    /// How often in a row a server said never.
    in_a_row: u32,
    /// How many had been sent when it last did.
    set_after: u64,
    /// What costs so much waits, and until when.
    floor: u64,
    until: Time,
}

/// An answer may take long, and never come: after so long another one goes.
const LONGEST_TRIAL: Duration = Duration::from_secs(10);
/// So often it is said for nothing.
const EXCUSED: u32 = 2;
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

impl Hopeless {
    /// How long what costs so much waits for others of its kind.
    pub(super) fn left(&self, cost: u64, is_beyond: bool, now: Time) -> Duration {
        let hold = if self.holds(cost) { self.until - now } else { Duration::ZERO };
        let trial = self.trial.filter(|_| is_beyond || self.holds(cost));
        hold.max(trial.map_or(Duration::ZERO, |(_, sent_at)| sent_at + LONGEST_TRIAL - now))
    }

    /// Whether so much was refused for good of late.
    pub(super) fn holds(&self, cost: u64) -> bool {
        self.in_a_row > EXCUSED && cost >= self.floor
    }

    /// When this kind was last heard of. That says nothing of limits that others wait for.
    pub(super) fn tried_at(&self) -> Time {
        self.tried_at
    }

    pub(super) fn sent(&mut self, ticket: Ticket, now: Time) {
        if ticket.is_beyond || self.holds(ticket.cost) {
            (self.trial, self.tried_at) = (Some((ticket.number, now)), now);
        }
    }

    /// Its answer is here, or will not come.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.trial = self.trial.filter(|(number, _)| *number != ticket.number);
    }

    /// It can never pass. What was sent together was refused together, and counts once.
    pub(super) fn refused(&mut self, ticket: Ticket, sendings: u64, now: Time, jitter: f64) {
        self.tried_at = now;
        self.floor = if self.in_a_row == 0 { ticket.cost } else { self.floor.min(ticket.cost) };
        if self.in_a_row > 0 && ticket.number <= self.set_after {
            return;
        }
        self.set_after = sendings;
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(doublings) = self.in_a_row.checked_sub(EXCUSED + 1) {
            let backoff = FIRST_BACKOFF.saturating_mul(2u32.saturating_pow(doublings.min(16)));
            self.until = now + backoff.min(LONGEST_BACKOFF).mul_f64(0.5 + jitter);
        }
    }

    /// Something passed.
    pub(super) fn passed(&mut self, ticket: Ticket) {
        if ticket.cost >= self.floor {
            self.in_a_row = 0;
        }
    }
}
