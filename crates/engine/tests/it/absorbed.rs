//! What others consumed is charged as if it had been consumed here.

use std::time::Duration;

use tollgate_core::{Counter, Kind};
use tollgate_engine::{Before, Clock, FakeClock, Limit, Limiter, Period, Rate};

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

/// Whoever asks meanwhile finds the counter as it was told or as it was before, and never as one that was made new for it.
#[test]
fn a_counter_that_is_told_what_is_left_is_never_found_full() {
    let limiter = Limiter::with_clock(FakeClock::default(), 1000);
    let limit = Limit::token_bucket(Rate::per_day(1)).burst(1000).build().unwrap();
    let (rule, id) = (limiter.define("user", limit), limiter.identity("alice"));
    limiter.absorb(&rule, id, 1500);
    std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| (0..100_000).filter(|_| limiter.check(&rule, id, 1).is_ok()).count());
        while !asking.is_finished() {
            limiter.absorb_by(&rule, id, Before::Forgotten, |remaining| remaining + 500);
        }
        assert_eq!(asking.join().unwrap(), 0);
    });
}

#[test]
fn a_counter_is_told_what_is_left_whatever_it_was() {
    let limiter = Limiter::with_clock(FakeClock::default(), 1000);
    // Of one that lets out evenly nothing is left right after a charge.
    for limit in limits().into_iter().filter(|limit| limit.kind() != Kind::LeakyBucket) {
        let rule = limiter.define(limit.kind().name(), limit.clone());
        for consumed in [0, 1, 4, 100] {
            let id = limiter.identity(&consumed);
            limiter.absorb(&rule, id, consumed);
            limiter.absorb_by(&rule, id, Before::Forgotten, |remaining| remaining - 2);
            assert_eq!(limiter.peek(&rule, id).remaining, 2, "{consumed} of {limit:?}");
            limiter.absorb_by(&rule, id, Before::Kept, |remaining| remaining - 1);
            assert_eq!(limiter.peek(&rule, id).remaining, 1, "{consumed} of {limit:?}");
        }
    }
}

#[test]
fn nothing_consumed_of_a_new_counter_leaves_none() {
    let limiter = Limiter::with_clock(FakeClock::default(), 1000);
    let limit = Limit::token_bucket(Rate::per_second(1)).burst(5).build().unwrap();
    let (rule, id) = (limiter.define("user", limit), limiter.identity("alice"));
    limiter.absorb(&rule, id, 0);
    limiter.absorb_by(&rule, id, Before::Forgotten, |remaining| remaining - 5);
    assert_eq!((limiter.stats().held, limiter.peek(&rule, id).remaining), (0, 5));
}

/// What remains of a counter that many share is nobody's own: what one of them has left says nothing of it.
#[test]
fn what_one_has_left_is_not_said_of_the_overflow_counter() {
    let limiter = Limiter::with_clock(FakeClock::default(), 10);
    let limit = Limit::token_bucket(Rate::per_day(1)).burst(1000).build().unwrap();
    let rule = limiter.define("user", limit);
    for nth in 0..15u64 {
        limiter.check(&rule, limiter.identity(&nth), 1).unwrap();
    }
    let newcomer = limiter.identity("newcomer");
    for before in [Before::Kept, Before::Forgotten] {
        limiter.absorb_by(&rule, newcomer, before, |remaining| remaining);
        assert_eq!(limiter.peek(&rule, newcomer).remaining, 995, "{before:?}");
    }
    limiter.absorb(&rule, newcomer, 5);
    assert_eq!(limiter.peek(&rule, newcomer).remaining, 990);
}
