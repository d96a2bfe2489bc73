//! Whether a server still tells of a limit.
//!
//! A server may stop showing a limit: because it is not tight any more, or because there is none any more. Whoever kept it would
//! count what is sent against figures that nobody renews, and wait for ever.

use std::time::Duration;

use tollgate_core::Time;

use super::Reading;
use crate::pace::Ticket;

/// What a server last told of a limit, and how often it did not since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    at: Time,
    /// The latest request whose answer showed it.
    number: u64,
    /// When it is all there again, as told.
    back_at: Option<Time>,
    /// How many answers in a row have told of other limits, but not of this one.
    left_out: u32,
    /// How many requests in a row have passed without a word of it though it was to be back.
    passed_without: u32,
}

/// How long a limit is kept that the server no longer shows.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// So many answers may leave it out: not every path of a server shows all limits.
const EXCUSED: u32 = 3;

impl Told {
    pub(super) fn new(reading: &Reading) -> Told {
        let Reading { at, number, .. } = *reading;
        Told { at, number, back_at: None, left_out: 0, passed_without: 0 }
    }

    /// An answer shows it.
    pub(super) fn again(&mut self, reading: &Reading) {
        self.at = self.at.max(reading.at);
        self.number = self.number.max(reading.number);
        (self.left_out, self.passed_without) = (0, 0);
    }

    pub(super) fn is_back_at(&mut self, back_at: Option<Time>) {
        self.back_at = back_at;
    }

    /// An answer told of other limits. A server shows those that are tight, so one that it stopped showing does not matter any
    /// more.
    pub(super) fn is_gone_beside_others(&mut self, now: Time) -> bool {
        self.left_out = self.left_out.saturating_add(1);
        self.left_out > EXCUSED && now - self.at > FORGOTTEN
    }

    /// This request passed, and its answer did not show it. That says nothing of a limit that was not back when it was sent.
    pub(super) fn is_gone(&mut self, ticket: Ticket) -> bool {
        let kept_until = (self.at + FORGOTTEN).max(self.back_at.unwrap_or(self.at));
        let was_asked = ticket.cost > 0 && ticket.number > self.number;
        if was_asked && ticket.sent_at > kept_until {
            self.passed_without = self.passed_without.saturating_add(1);
        }
        self.passed_without > EXCUSED
    }
}
