//! A server that says nothing: its limit is found by being refused, as TCP finds a link's.
//!
//! A refusal takes the rate to a part of what was sent of late; from there it climbs evenly, and past where it was
//! refused until it is refused again. Without a refusal there is no limit.

use std::time::Duration;

use tollgate_core::Time;

/// Additive increase, multiplicative decrease, of a rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silent {
    /// As of the last refusal: the rate it left, and how much it climbs a second.
    found: Option<Found>,
    /// Sent in the present second and in the one before.
    bin: u64,
    in_bin: f64,
    in_previous: f64,
    refusals_in_a_row: u32,
    credit: f64,
    credited_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    at: Time,
    rate: f64,
}

/// What a refusal leaves of the rate.
const DECREASE: f64 = 0.7;
/// What part of the rate is added a second.
const INCREASE: f64 = 0.05;
/// The lowest rate a refusal leads to, a second.
const LEAST: f64 = 0.2;
/// Refusals of what was sent together count once.
const ONE_EVENT: Duration = Duration::from_millis(500);
/// After so long without a refusal there is no limit any more.
const FORGOTTEN: Duration = Duration::from_secs(600);
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
const BIN: u64 = 1_000_000_000;

impl Silent {
    pub(crate) fn note_sent(&mut self, cost: f64, now: Time) {
        let bin = now.as_nanos() / BIN;
        if bin != self.bin {
            self.in_previous = if bin == self.bin + 1 { self.in_bin } else { 0.0 };
            (self.bin, self.in_bin) = (bin, 0.0);
        }
        self.in_bin += cost;
        if self.found.is_some() {
            self.credit = self.credit_at(now, cost) - cost;
            self.credited_at = now;
        }
    }

    /// Sent a second, of late.
    fn sent_rate(&self, now: Time) -> f64 {
        let into = (now.as_nanos() % BIN) as f64 / BIN as f64;
        self.in_bin + self.in_previous * (1.0 - into)
    }

    fn rate(&self, now: Time) -> Option<f64> {
        let found = self.found.filter(|found| now - found.at < FORGOTTEN)?;
        Some(found.rate * (1.0 + INCREASE * (now - found.at).as_secs_f64()))
    }

    /// A tenth of a second's worth at most, but as much as is wanted now.
    fn credit_at(&self, now: Time, cost: f64) -> f64 {
        let rate = self.rate(now).unwrap_or(f64::MAX);
        let gained = rate * (now - self.credited_at).as_secs_f64();
        (self.credit + gained).min((rate * 0.1).max(cost))
    }

    /// Seconds until `cost` may be sent.
    pub(crate) fn wait(&self, cost: f64, now: Time) -> f64 {
        let Some(rate) = self.rate(now) else { return 0.0 };
        ((cost - self.credit_at(now, cost)) / rate).max(0.0)
    }

    /// A refusal that nothing else explains. Tells how long to back off if the server did not.
    pub(crate) fn refused(&mut self, now: Time) -> Duration {
        let same_event = self.found.is_some_and(|found| now - found.at < ONE_EVENT);
        if !same_event {
            let sent = self.sent_rate(now);
            let rate = self.rate(now).map_or(sent, |rate| rate.min(sent.max(LEAST)));
            self.found = Some(Found { at: now, rate: (rate * DECREASE).max(LEAST) });
            (self.credit, self.credited_at) = (0.0, now);
            self.refusals_in_a_row = self.refusals_in_a_row.saturating_add(1);
        }
        let doubled = 2u32.saturating_pow(self.refusals_in_a_row.saturating_sub(1).min(16));
        FIRST_BACKOFF.saturating_mul(doubled).min(LONGEST_BACKOFF)
    }

    /// Something passed.
    pub(crate) fn passed(&mut self) {
        self.refusals_in_a_row = 0;
    }
}
