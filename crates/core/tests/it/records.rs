//! What the design records say each algorithm does, as they say it.

use std::time::Duration;

use tollgate_core::{Counter, Limit, LimitBuilder, Rate, Time};

use crate::traces::BEGIN;

fn counter(limit: LimitBuilder) -> Counter {
    Counter::new(limit.build().unwrap())
}

fn after(millis: u64) -> Time {
    BEGIN + Duration::from_millis(millis)
}

/// How many of `n` requests at one moment pass.
fn pass(counter: &mut Counter, n: u64, now: Time) -> u64 {
    (0..n).filter(|_| counter.take(1, now).is_allowed()).count() as u64
}

/// Record 002: 100 requests at the end of a second and 100 at the beginning of the next. The fixed window lets
/// twice the limit through; no other does.
#[test]
fn only_the_fixed_window_spikes_at_a_boundary() {
    let rate = Rate::per_second(100);
    let rows = [
        ("fixed window", Limit::fixed_window(rate), 100),
        ("sliding window", Limit::sliding_window(rate), 0),
        ("sliding window log", Limit::sliding_window_log(rate), 0),
        ("token bucket", Limit::token_bucket(rate), 0),
        ("leaky bucket", Limit::leaky_bucket(rate), 0),
        ("gcra", Limit::gcra(rate), 0),
    ];
    for (name, limit, across) in rows {
        let mut counter = counter(limit);
        assert_eq!(pass(&mut counter, 150, after(999)), 100, "{name}");
        let spike = pass(&mut counter, 150, after(1000));
        // A millisecond of a meter's refill is a tenth of a token.
        assert_eq!(spike, across, "{name}");
    }
}

/// Records 000 and 001: bursts beyond the sustained rate, up to the capacity.
#[test]
fn buckets_and_gcra_allow_bursts_and_windows_do_not_have_them() {
    for limit in [Limit::token_bucket, Limit::leaky_bucket, Limit::gcra] {
        let mut counter = counter(limit(Rate::per_second(100)).burst(500));
        assert_eq!(pass(&mut counter, 600, BEGIN), 500);
        assert_eq!(pass(&mut counter, 600, after(1000)), 100);
    }
    for limit in [Limit::fixed_window, Limit::sliding_window, Limit::sliding_window_log] {
        assert!(limit(Rate::per_second(100)).burst(500).build().is_err());
    }
}

/// Record 001's tests: under the limit, over it, and refilled after a second.
#[test]
fn ten_pass_the_next_does_not_and_after_a_second_ten_pass_again() {
    let mut counter = counter(Limit::token_bucket(Rate::per_second(10)).burst(10));
    assert_eq!(pass(&mut counter, 10, BEGIN), 10);
    assert!(!counter.take(1, BEGIN).is_allowed());
    assert_eq!(pass(&mut counter, 20, after(1000)), 10);
}

/// Record 001's tiers: capacity and refill rate a second.
#[test]
fn tiers_hold_what_their_table_says() {
    for (capacity, refill) in [(100, 10), (1_000, 100), (10_000, 1_000)] {
        let mut counter = counter(Limit::token_bucket(Rate::per_second(refill)).burst(capacity));
        assert_eq!(pass(&mut counter, capacity + 5, BEGIN), capacity);
        assert_eq!(pass(&mut counter, capacity, after(1000)), refill);
        assert_eq!(counter.standing(after(1000)).reset_after.as_secs(), capacity / refill);
    }
}

/// Record 002: Retry-After is ceil((1 − tokens) / refillRate), to the millisecond where asked; record
/// 003: an empty bucket's next token takes one refill rate's inverse.
#[test]
fn retry_after_is_the_time_the_missing_part_of_a_token_takes() {
    let mut counter = counter(Limit::token_bucket(Rate::per_second(4)).burst(1));
    counter.take(1, BEGIN);
    for (millis, wait) in [(0, 250), (100, 150), (249, 1)] {
        let refused = counter.take(1, after(millis));
        assert_eq!(refused.retry_after(), Some(Duration::from_millis(wait)));
    }
    assert!(counter.take(1, after(250)).is_allowed());
}

/// Record 002's steps of GCRA, literally: accept if now ≥ TAT − τ, then TAT = max(TAT, now) + T.
#[test]
fn gcra_is_the_theoretical_arrival_time() {
    let (interval, capacity) = (10_000_000u64, 5u64);
    let tolerance = (capacity - 1) * interval;
    let mut counter = counter(Limit::gcra(Rate::per_second(100)).burst(capacity));
    let mut arrival = 0;
    for step in 0..2_000u64 {
        let now = Time::from_nanos(BEGIN.as_nanos() + step * 1_700_003);
        let accept = now.as_nanos() >= u64::saturating_sub(arrival, tolerance);
        if accept {
            arrival = arrival.max(now.as_nanos()) + interval;
        }
        assert_eq!(counter.take(1, now).is_allowed(), accept, "step {step}");
        // remaining = max(0, τ − max(0, TAT − now)) / T, and one more because this τ is for the others.
        let ahead = arrival.saturating_sub(now.as_nanos());
        let remaining = (tolerance + interval).saturating_sub(ahead) / interval;
        assert_eq!(counter.standing(now).remaining, remaining);
    }
}

/// Record 000, example 3: of 1,000 tokens, 100 at ten, or 1,000 at one, or 50 and 500.
#[test]
fn costs_add_up() {
    for (dear, cheap) in [(100, 0), (0, 1_000), (50, 500)] {
        let mut counter = counter(Limit::token_bucket(Rate::per_minute(1_000)));
        assert!((0..dear).all(|_| counter.take(10, BEGIN).is_allowed()));
        assert!((0..cheap).all(|_| counter.take(1, BEGIN).is_allowed()));
        assert!(!counter.take(1, BEGIN).is_allowed());
    }
}
