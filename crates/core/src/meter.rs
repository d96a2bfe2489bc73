//! Token bucket, leaky bucket and GCRA: three descriptions of one meter.
//!
//! A token bucket of `capacity` tokens refilled at `rate`, a leaky bucket of `capacity` that leaks at
//! `rate`, and GCRA with emission interval `T = 1 / rate` and tolerance `τ = (capacity − 1) · T` admit
//! exactly the same traces (ITU-T I.371 shows it for the last two). So the arithmetic stands once. What is
//! kept is GCRA's theoretical arrival time: the moment the bucket is full again.
//!
//! To be exact for every rate the moment is kept in units of `1 / rate` nanoseconds: with `rate / window`
//! in lowest terms a nanosecond is worth `per_nano` units and a token `per_token` units, both integers.
//! Nothing is ever rounded in the state, so nothing drifts. `per_nano < 2⁴⁷` and time `< 2⁶³` keep the
//! product below 2¹¹⁰; `capacity · per_token < 2¹¹⁰` is checked when the limit is built.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::{Algorithm, Rate, Receipt, Refusal, Standing, State, Time};

/// The meter behind [`TokenBucket`](crate::Kind::TokenBucket), leaky bucket and GCRA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meter {
    per_nano: NonZeroU64,
    per_token: NonZeroU64,
    /// `capacity · per_token`
    full: u128,
    capacity: u64,
    /// Released evenly: a charge passes only when every earlier one has been paid off.
    paced: bool,
}

impl Meter {
    /// Figures that [`LimitBuilder`](crate::LimitBuilder) has checked; `None` if they would overflow.
    pub(crate) fn new(rate: Rate, capacity: u64, paced: bool) -> Option<Meter> {
        let divisor = gcd(rate.tokens(), rate.window().nanos());
        let per_nano = NonZeroU64::new(rate.tokens().checked_div(divisor)?)?;
        let per_token = NonZeroU64::new(rate.window().nanos() / divisor)?;
        let full = u128::from(capacity) * u128::from(per_token.get());
        (full < 1 << 110).then_some(Meter { per_nano, per_token, full, capacity, paced })
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.paced
    }

    #[inline]
    fn units_at(&self, now: Time) -> u128 {
        u128::from(now.as_nanos()) * u128::from(self.per_nano.get())
    }

    /// Units of `cost` tokens. Costs may exceed the capacity here: a forced charge leaves a debt.
    #[inline]
    fn units_of(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.per_token.get())
    }

    /// Units missing to a full bucket.
    #[inline]
    fn missing(&self, state: State, now: Time) -> u128 {
        state.to_bits().saturating_sub(self.units_at(now))
    }

    /// Nanoseconds in which `units` are paid off, rounded up.
    #[inline]
    fn nanos_for(&self, units: u128) -> u64 {
        saturate(div_ceil(units, self.per_nano))
    }

    /// The state under these figures of a counter that `old` wrote, changed over at `at`: its whole and
    /// partial tokens are kept, clamped to a lower capacity and not filled to a higher one.
    pub(crate) fn adopt(&self, old: &Meter, state: State, at: Time) -> State {
        let missing = old.missing(state, at);
        // Exact where both sides keep tokens in the same units, else rounded against the caller by
        // less than a unit: a change of figures may not grant a token.
        let scaled = |units: u128| {
            let whole = units / u128::from(old.per_token.get());
            let part = units % u128::from(old.per_token.get());
            let part =
                (part * u128::from(self.per_token.get())).div_ceil(u128::from(old.per_token.get()));
            whole.saturating_mul(u128::from(self.per_token.get())).saturating_add(part)
        };
        let missing = if missing <= old.full {
            let lost = scaled(missing);
            let tokens =
                (u128::from(old.capacity) * u128::from(self.per_token.get())).saturating_sub(lost);
            self.full.saturating_sub(tokens)
        } else {
            self.full.saturating_add(scaled(missing - old.full))
        };
        if missing == 0 { State::NEW } else { State::from_bits(self.units_at(at) + missing) }
    }
}

impl Algorithm for Meter {
    type State = State;

    #[inline]
    fn refusal(&self, state: &State, cost: u64, now: Time) -> Option<Refusal> {
        if cost > self.capacity {
            return Some(Refusal::Never);
        }
        let room = if self.paced { 0 } else { self.full - self.units_of(cost) };
        let missing = self.missing(*state, now);
        if missing <= room { None } else { Some(Refusal::Wait(self.nanos_for(missing - room))) }
    }

    #[inline]
    fn charge(&self, state: &mut State, cost: u64, now: Time) {
        let from = state.to_bits().max(self.units_at(now));
        *state = State::from_bits(from.saturating_add(self.units_of(cost)));
    }

    #[inline]
    fn receipt(&self, charged: &State, cost: u64) -> Receipt {
        Receipt { cost, mark: charged.to_bits() }
    }

    fn give_back(&self, state: &mut State, receipt: Receipt, now: Time) {
        // Right after the charge the bucket was to be full at `mark`; without it, at `mark − cost` at the
        // earliest, and from then on time would have refilled it in vain. So what is still owed of the
        // charge is at least what is left until `mark`: giving back that much never grants anything.
        let owed = receipt.mark.saturating_sub(self.units_at(now));
        let back = self.units_of(receipt.cost).min(owed);
        *state = State::from_bits(state.to_bits().saturating_sub(back));
    }

    #[inline]
    fn standing(&self, state: &State, now: Time) -> Standing {
        let missing = self.missing(*state, now);
        let remaining = match (self.paced, self.full.checked_sub(missing)) {
            (true, _) => {
                if missing == 0 {
                    self.capacity
                } else {
                    0
                }
            }
            (false, None) => 0,
            (false, Some(there)) => saturate(div_floor(there, self.per_token)),
        };
        Standing {
            limit: self.capacity,
            remaining,
            reset_after: Duration::from_nanos(self.nanos_for(missing)),
        }
    }

    #[inline]
    fn renewed_at(&self, state: &State) -> Time {
        Time::from_nanos(self.nanos_for(state.to_bits()))
    }
}

/// 128-bit division is many times slower than 64-bit, and nearly every dividend is small.
#[inline]
fn div_floor(value: u128, by: NonZeroU64) -> u128 {
    match u64::try_from(value) {
        Ok(small) => u128::from(small / by),
        Err(_) => value / u128::from(by.get()),
    }
}

#[inline]
fn div_ceil(value: u128, by: NonZeroU64) -> u128 {
    match u64::try_from(value) {
        Ok(small) => u128::from(small.div_ceil(by.get())),
        Err(_) => value.div_ceil(u128::from(by.get())),
    }
}

#[inline]
fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
