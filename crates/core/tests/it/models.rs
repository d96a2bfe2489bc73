//! Each algorithm against a slow model in rational numbers that is right at a glance.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use tollgate_core::{Counter, Kind, Limit, Rate, Time, Window};

use crate::traces::{
    BEGIN, Step, later, meter, quota, rate, refilled_in, scaled, steps, steps_within, window,
};

fn ratio(numer: impl Into<BigInt>, denom: impl Into<BigInt>) -> BigRational {
    BigRational::new(numer.into(), denom.into())
}

fn whole(n: u64) -> BigRational {
    BigRational::from_integer(n.into())
}

fn floor(r: &BigRational) -> u64 {
    r.floor().to_integer().max(BigInt::ZERO).try_into().unwrap()
}

fn ceil(r: &BigRational) -> u64 {
    u64::try_from(r.ceil().to_integer().max(BigInt::ZERO)).unwrap_or(u64::MAX)
}

/// What a model says of one request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    remaining: u64,
    reset_nanos: u64,
}

fn answer(counter: &mut Counter, cost: u64, now: Time) -> Answer {
    let decision = counter.take(cost, now);
    Answer {
        allowed: decision.is_allowed(),
        remaining: decision.standing.remaining,
        reset_nanos: u64::try_from(decision.standing.reset_after.as_nanos()).unwrap(),
    }
}

/// Tokens as a fraction, refilled by elapsed time: the sentence that defines a token bucket.
struct BucketModel {
    rate: Rate,
    capacity: u64,
    tokens: BigRational,
    last: Time,
}

impl BucketModel {
    fn take(&mut self, cost: u64, now: Time) -> Answer {
        let per_nano = ratio(self.rate.tokens(), self.rate.window().nanos());
        let elapsed = whole(now.as_nanos() - self.last.as_nanos());
        self.tokens = (&self.tokens + elapsed * &per_nano).min(whole(self.capacity));
        self.last = now;
        let allowed = self.tokens >= whole(cost);
        if allowed {
            self.tokens -= whole(cost);
        }
        let missing = whole(self.capacity) - &self.tokens;
        Answer { allowed, remaining: floor(&self.tokens), reset_nanos: ceil(&(missing / per_nano)) }
    }
}

/// All charges ever made, looked through anew for each request.
struct HistoryModel {
    kind: Kind,
    limit: u64,
    window: Window,
    charges: Vec<(u64, u64)>,
}

impl HistoryModel {
    fn sum(&self, from: u64, until: u64) -> u64 {
        self.charges.iter().filter(|(t, _)| (from..until).contains(t)).map(|(_, c)| c).sum()
    }

    fn used(&self, now: u64) -> BigRational {
        let w = self.window.nanos();
        let start = now / w * w;
        match self.kind {
            Kind::FixedWindow => whole(self.sum(start, start + w)),
            Kind::SlidingWindowLog => whole(self.sum((now + 1).saturating_sub(w), now + 1)),
            Kind::SlidingWindow => {
                let previous = whole(self.sum(start.saturating_sub(w), start));
                previous * ratio(start + w - now, w) + whole(self.sum(start, start + w))
            }
            other => panic!("{other:?} is not a window"),
        }
    }

    fn reset(&self, now: u64) -> u64 {
        let w = self.window.nanos();
        let next = now / w * w + w;
        match self.kind {
            Kind::FixedWindow => next,
            Kind::SlidingWindowLog => {
                let newest = self.charges.iter().map(|(t, _)| t + w).max();
                newest.unwrap_or(now).max(now)
            }
            _ if self.sum(next - w, next) > 0 => next + w,
            _ if self.sum((next - w).saturating_sub(w), next - w) > 0 => next,
            _ => now,
        }
    }

    fn take(&mut self, cost: u64, now: Time) -> Answer {
        let now = now.as_nanos();
        let allowed = self.used(now) + whole(cost) <= whole(self.limit);
        if allowed {
            self.charges.push((now, cost));
        }
        let remaining = floor(&(whole(self.limit) - self.used(now)));
        Answer { allowed, remaining, reset_nanos: self.reset(now) - now }
    }
}

fn agrees(mut model: HistoryModel, limit: Limit, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut counter, mut now) = (Counter::new(limit), BEGIN);
    for Step { after, cost } in steps {
        now = later(now, after);
        prop_assert_eq!(answer(&mut counter, cost, now), model.take(cost, now), "at {:?}", now);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn meters_agree_with_a_bucket_of_fractions(
        ((rate, capacity, limit), steps) in meter().prop_flat_map(|m| {
            let steps = steps(m.1);
            (Just(m), steps)
        })
    ) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        let mut model = BucketModel { rate, capacity, tokens: whole(capacity), last: BEGIN };
        for Step { after, cost } in steps {
            now = later(now, after);
            prop_assert_eq!(answer(&mut counter, cost, now), model.take(cost, now), "at {:?}", now);
        }
    }

    #[test]
    fn windows_agree_with_their_history(
        (kind, rate, steps) in (
            proptest::sample::select(&[Kind::FixedWindow, Kind::SlidingWindow][..]),
            rate(),
        ).prop_flat_map(|(kind, rate)| (Just(kind), Just(rate), steps(rate.tokens())))
    ) {
        let model = HistoryModel {
            kind, limit: rate.tokens(), window: rate.window(), charges: Vec::new(),
        };
        agrees(model, Limit::of(kind, rate).build().unwrap(), steps)?;
    }

    #[test]
    fn log_agrees_with_its_history(
        (rate, steps) in (window(), scaled(65_536)).prop_flat_map(|(window, tokens)| {
            (Just(Rate::new(tokens, window)), steps(tokens))
        })
    ) {
        let model = HistoryModel {
            kind: Kind::SlidingWindowLog,
            limit: rate.tokens(),
            window: rate.window(),
            charges: Vec::new(),
        };
        agrees(model, Limit::sliding_window_log(rate).build().unwrap(), steps)?;
    }
}

/// The moment from which the next one is let out, as a fraction of nanoseconds.
struct PacedModel {
    rate: Rate,
    capacity: u64,
    free_at: BigRational,
}

impl PacedModel {
    fn take(&mut self, cost: u64, now: Time) -> Answer {
        let now = whole(now.as_nanos());
        let allowed = cost <= self.capacity && now >= self.free_at;
        if allowed {
            self.free_at =
                &now + ratio(cost, self.rate.tokens()) * whole(self.rate.window().nanos());
        }
        let is_free = now >= self.free_at;
        let remaining = if is_free { self.capacity } else { 0 };
        Answer { allowed, remaining, reset_nanos: ceil(&(&self.free_at - now)) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_paced_leaky_bucket_agrees_with_the_moment_it_lets_the_next_out(
        (rate, capacity, steps) in (rate(), scaled(1_000_000_000)).prop_flat_map(|(rate, capacity)| {
            (Just(rate), Just(capacity), steps_within(capacity, refilled_in(rate, capacity)))
        })
    ) {
        let limit = Limit::leaky_bucket(rate).burst(capacity).paced().build().unwrap();
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        let mut model = PacedModel { rate, capacity, free_at: whole(0) };
        for Step { after, cost } in steps {
            now = later(now, after);
            prop_assert_eq!(answer(&mut counter, cost, now), model.take(cost, now), "at {:?}", now);
        }
    }

    /// Where periods end is shown by a walk through the calendar; here, what is left of each.
    #[test]
    fn a_quota_agrees_with_the_charges_of_its_period(
        (limit, steps) in quota().prop_flat_map(|limit| {
            let steps = steps(limit.capacity());
            (Just(limit), steps)
        })
    ) {
        let (mut counter, mut now) = (Counter::new(limit.clone()), BEGIN);
        let mut charges: Vec<(Time, u64)> = Vec::new();
        for Step { after, cost } in steps {
            now = later(now, after);
            let (begin, end) = limit.period_at(now).unwrap();
            let used = |charges: &[(Time, u64)]| -> u64 {
                charges.iter().filter(|(at, _)| (begin..end).contains(at)).map(|(_, cost)| cost).sum()
            };
            let allowed = cost <= limit.capacity() - used(&charges);
            if allowed {
                charges.push((now, cost));
            }
            let left = limit.capacity() - used(&charges);
            let answer = answer(&mut counter, cost, now);
            prop_assert_eq!((answer.allowed, answer.remaining), (allowed, left), "at {:?}", now);
        }
    }
}

/// The three descriptions of a meter answer alike to the nanosecond.
#[test]
fn token_bucket_leaky_bucket_and_gcra_are_one_meter() {
    let build = |kind| Counter::new(Limit::of(kind, Rate::per_minute(7)).burst(5).build().unwrap());
    let mut all = [Kind::TokenBucket, Kind::LeakyBucket, Kind::Gcra].map(build);
    for i in 0..500u64 {
        let now = later(BEGIN, i * 1_700_000_001);
        let answers = all.each_mut().map(|c| c.take(1 + i % 3, now));
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
    }
}
