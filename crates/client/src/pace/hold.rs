//! How long a server asked to be left alone, and what shows that it is over.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_wire::read::{Said, Seen};

use super::Ticket;

/// What was asked for, one hold for each cause. A server may change its mind, or have been wrong: its newest word about a cause
/// counts, and a request that was sent in spite of a hold and passed lifts it.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    told: Vec<Hold>,
    /// Of a refusal that did not say for how long.
    guessed: Option<Hold>,
}

#[derive(Clone, Debug)]
struct Hold {
    until: Time,
    /// How many had been sent when it was set. An answer to any of them is older than the hold.
    set_after: u64,
    /// When the request was sent to which it was the answer. Of two words the later one's counts, whichever came in first.
    asked_at: (Time, u64),
    /// The limits that lacked what was asked for; none where the server named none.
    causes: Vec<String>,
}

/// What a server says in answer to a request that it refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'s> {
    /// When to come back, a little later than it says, and the latest that this can be.
    pub(super) until: Time,
    pub(super) latest: Time,
    pub(super) ticket: Ticket,
    pub(super) said: &'s Said,
    /// Of the limits that it shows, those that lacked what was asked for.
    pub(super) lacking: &'s [&'s Seen],
    /// How many had been sent when it was heard.
    pub(super) sendings: u64,
}

impl Hold {
    /// Whether this answer speaks of all that it was set for. One that shows a limit shows how that stands now, whether or not it
    /// is what refused.
    fn is_told_anew(&self, said: &Said, causes: &[String]) -> bool {
        let is_shown = |cause: &String| said.limits.iter().any(|seen| seen.name == *cause);
        match self.causes.is_empty() {
            true => causes.is_empty(),
            false => self.causes.iter().all(is_shown),
        }
    }
}

/// So many causes are told apart. What comes beyond takes the place of the one that is over first.
const MOST: usize = 4;

impl Holds {
    fn all(&self) -> impl Iterator<Item = &Hold> {
        self.told.iter().chain(&self.guessed)
    }

    pub(super) fn left(&self, now: Time) -> Duration {
        self.all().map(|hold| hold.until - now).max().unwrap_or_default()
    }

    /// The server says how long.
    pub(super) fn tell(&mut self, word: Word<'_>) {
        let Word { mut until, latest, ticket, said, lacking, sendings } = word;
        let causes: Vec<String> = lacking.iter().map(|seen| seen.name.clone()).collect();
        let asked_at = (ticket.sent_at, ticket.number);
        // A hold that is over stays in the list for this: what is older than its word is over too.
        if self.told.iter().any(|hold| hold.asked_at > asked_at && hold.causes == causes) {
            return;
        }
        self.guessed = None;
        self.told.retain(|hold| {
            let is_over = hold.asked_at <= asked_at && hold.is_told_anew(said, &causes);
            if is_over {
                // Refusals of what was sent together say the same: who heard many is not to be back the sooner for it.
                until = until.max(hold.until.min(latest));
            }
            !is_over
        });
        if self.told.len() >= MOST
            && let Some(first) = (0..MOST).min_by_key(|index| self.told[*index].until)
        {
            self.told.swap_remove(first);
        }
        self.told.push(Hold { until, set_after: sendings, asked_at, causes });
    }

    /// It refused and did not say for how long: that takes nothing back of what it said.
    pub(super) fn guess(&mut self, until: Time, ticket: Ticket, sendings: u64) {
        if self.guessed.as_ref().is_none_or(|hold| hold.until < until) {
            let asked_at = (ticket.sent_at, ticket.number);
            self.guessed = Some(Hold { until, set_after: sendings, asked_at, causes: Vec::new() });
        }
    }

    /// Whether one was set after the request of this number had leave to be sent, and is in force.
    pub(super) fn calls_off(&self, number: u64, now: Time) -> bool {
        self.all().any(|hold| number <= hold.set_after && now < hold.until)
    }

    /// The request of this number passed.
    pub(super) fn passed(&mut self, number: u64) {
        self.told.retain(|hold| number <= hold.set_after);
        self.guessed = self.guessed.take().filter(|hold| number <= hold.set_after);
    }
}
