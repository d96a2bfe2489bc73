//! What others consumed is charged as if it had been consumed here.

use std::time::Duration;

use tollgate_core::Counter;
use tollgate_engine::{Clock, FakeClock, Limit, Limiter, Period, Rate};

fn limits() -> Vec<Limit> {
    vec![
        Limit::token_bucket(Rate::per_second(3)).burst(9).build().unwrap(),
        Limit::leaky_bucket(Rate::per_second(2)).burst(5).paced().build().unwrap(),
        Limit::gcra(Rate::per_minute(50)).burst(12).build().unwrap(),
        Limit::fixed_window(Rate::per_second(7)).build().unwrap(),
        Limit::sliding_window(Rate::per_second(8)).build().unwrap(),
        Limit::sliding_window_log(Rate::per_second(6)).build().unwrap(),
        Limit::quota(40, Period::Day, "UTC").unwrap(),
    ]
}

#[test]
fn absorbed_charges_agree_with_the_core() {
    let clock = FakeClock::default();
    let limiter = Limiter::with_clock(clock.clone(), 1000);
    for limit in limits() {
        let rule = limiter.define(limit.kind().name(), limit.clone());
        let (id, mut counter) = (limiter.identity("alice"), Counter::new(limit));
        for nth in 0..200u64 {
            clock.advance(Duration::from_millis(nth * 37 % 900));
            let now = clock.now();
            if nth % 3 == 0 {
                limiter.absorb(&rule, id, nth % 23);
                counter.charge(nth % 23, now);
            } else {
                assert_eq!(limiter.decide(&rule, id, nth % 4), counter.take(nth % 4, now));
            }
            assert_eq!(limiter.peek(&rule, id), counter.standing(now));
        }
    }
}

#[test]
fn what_a_full_store_absorbs_goes_to_the_overflow_counter() {
    let limiter = Limiter::with_clock(FakeClock::default(), 10);
    let limit = Limit::token_bucket(Rate::per_day(1)).burst(1000).build().unwrap();
    let rule = limiter.define("user", limit);
    for nth in 0..100u64 {
        limiter.absorb(&rule, limiter.identity(&nth), 1);
    }
    assert!(limiter.stats().held <= 11, "{:?}", limiter.stats());
    assert_eq!(limiter.stats().overflowed, 90);
    assert_eq!(limiter.peek(&rule, limiter.identity("newcomer")).remaining, 910);
}
