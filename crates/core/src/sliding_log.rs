//! Sliding window by a log: exact, at the price of remembering every charge of the window.
//!
//! Entries carry running totals, so what is in view and when enough has left are both found by
//! bisection. A charge made at `t` is in view until, not including, `t + window`.

use std::collections::VecDeque;

use crate::{Algorithm, Receipt, Refusal, Standing, Time, Window};

/// The exact sliding window, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: Window,
}

/// The charges of one identity that may still be in view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// In order of time, moments distinct.
    entries: VecDeque<Entry>,
    /// The running total before the first entry.
    base: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    nanos: u64,
    /// All that was ever charged up to and with this entry.
    total: u64,
}

impl Log {
    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |last| last.total)
    }

    /// The running total before the entry at `index`.
    fn total_before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.base, |i| self.entries[i].total)
    }
}

impl SlidingLog {
    pub(crate) fn new(limit: u64, window: Window) -> SlidingLog {
        SlidingLog { limit, window }
    }

    /// How many entries have left the view. Entries that time going back left in the future stay.
    fn expired(&self, log: &Log, now: Time) -> usize {
        log.entries.partition_point(|e| self.leaves_at(e) <= now.as_nanos())
    }

    fn leaves_at(&self, entry: &Entry) -> u64 {
        entry.nanos.saturating_add(self.window.nanos())
    }

    /// The receipt of the charge of `cost` after which the log was to be renewed at `renewed_at`.
    pub fn receipt_of(&self, renewed_at: Time, cost: u64) -> Receipt {
        let made_at = renewed_at.as_nanos().saturating_sub(self.window.nanos());
        Receipt { cost, mark: u128::from(made_at) }
    }

    fn used(&self, log: &Log, now: Time) -> u64 {
        log.total() - log.total_before(self.expired(log, now))
    }
}

impl Algorithm for SlidingLog {
    type State = Log;

    fn refusal(&self, log: &Log, cost: u64, now: Time) -> Option<Refusal> {
        if cost > self.limit {
            return Some(Refusal::Never);
        }
        let excess = self.used(log, now).saturating_add(cost).saturating_sub(self.limit);
        if excess == 0 {
            return None;
        }
        let must_leave = log.total_before(self.expired(log, now)) + excess;
        let last = log.entries.partition_point(|e| e.total < must_leave);
        let leaves_at = log.entries.get(last).map_or(u64::MAX, |e| self.leaves_at(e));
        Some(Refusal::Wait(leaves_at.saturating_sub(now.as_nanos()).max(1)))
    }

    fn charge(&self, log: &mut Log, cost: u64, now: Time) {
        let expired = self.expired(log, now);
        log.base = log.total_before(expired);
        log.entries.drain(..expired);
        if log.entries.is_empty() {
            log.base = 0;
        }
        if cost == 0 {
            return;
        }
        let total = log.total().saturating_add(cost);
        match log.entries.back_mut() {
            Some(last) if last.nanos >= now.as_nanos() => last.total = total,
            _ => log.entries.push_back(Entry { nanos: now.as_nanos(), total }),
        }
    }

    fn receipt(&self, charged: &Log, cost: u64) -> Receipt {
        self.receipt_of(self.renewed_at(charged), cost)
    }

    fn give_back(&self, log: &mut Log, receipt: Receipt, _now: Time) {
        let Ok(index) = log.entries.binary_search_by_key(&receipt.mark, |e| u128::from(e.nanos))
        else {
            return;
        };
        let held = log.entries[index].total - log.total_before(index);
        let back = held.min(receipt.cost);
        for entry in log.entries.range_mut(index..) {
            entry.total -= back;
        }
        if back == held {
            log.entries.remove(index);
        }
    }

    fn standing(&self, log: &Log, now: Time) -> Standing {
        Standing {
            limit: self.limit,
            remaining: self.limit.saturating_sub(self.used(log, now)),
            reset_after: self.renewed_at(log) - now,
        }
    }

    fn renewed_at(&self, log: &Log) -> Time {
        log.entries.back().map_or(Time::EPOCH, |last| Time::from_nanos(self.leaves_at(last)))
    }
}
