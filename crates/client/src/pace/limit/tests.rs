//! What is learnt of a limit, reading by reading.

use super::*;

/// A limit of ten a second of which so many are left.
fn ten_a_second(remaining: u64) -> Seen {
    let second = Some(Duration::from_secs(1));
    let (limit, remaining) = (Some(10), Some(remaining));
    Seen {
        name: "a".to_owned(),
        limit,
        remaining,
        reset_after: second,
        window: second,
        ..Seen::default()
    }
}

/// The answer to the `of`th request, so many milliseconds after the first.
fn reading(of: u64, millis: u64) -> Reading {
    let at = Time::from_secs(1_800_000_000) + Duration::from_millis(millis);
    Reading {
        at,
        number: of,
        of: Load { cost: of, requests: of },
        unanswered: Load::default(),
        load: Load::of(1),
        is_charged: true,
        has_passed: true,
        has_only_begun: false,
        refusal: None,
    }
}

/// The answer that refuses the `of`th request, which costs so much, because nothing is left.
fn refused(of: u64, millis: u64, cost: u64, after: Duration) -> Reading {
    let refusal = Some(Refusal::new(cost, Some(after), of));
    Reading { is_charged: false, has_passed: false, refusal, ..reading(of, millis) }
}

/// After four tenths of a second with nothing left, so many.
fn told_of(remaining: u64) -> LimitPace {
    let mut pace = LimitPace::new(&ten_a_second(0), &reading(1, 0), 0.5);
    pace.read(&ten_a_second(remaining), &reading(2, 400));
    pace
}

#[test]
fn more_than_there_can_be_teaches_no_rate() {
    assert_eq!(told_of(1_000_000_000_000_000).rate, 10.0);
}

/// All of a bucket may be there again because its window is shorter than a second, or because a server was wrong.
#[test]
fn a_refusal_bounds_the_rate_that_was_learnt() {
    let mut pace = told_of(10);
    assert!(pace.rate > 20.0, "{}", pace.rate);
    pace.read(&ten_a_second(0), &refused(3, 500, 1, Duration::from_millis(100)));
    assert!((9.9..10.1).contains(&pace.rate), "{}", pace.rate);
}

/// A wait is told in whole seconds, so what it bounds the rate by may be less than the rate.
#[test]
fn no_refusal_takes_the_rate_below_what_was_told() {
    // Ten in what is really 1.25 s.
    let left = |remaining: u64| {
        let window = Some(Duration::from_secs(2));
        Seen { reset_after: window, window, ..ten_a_second(remaining) }
    };
    let mut pace = LimitPace::new(&left(0), &reading(1, 0), 0.5);
    pace.read(&left(0), &refused(5, 10, 4, Duration::from_secs(1)));
    assert_eq!(pace.rate, 5.0);
    for (n, remaining) in [(6, 2), (7, 5), (8, 8)] {
        pace.read(&left(remaining), &reading(n, 500 * (n - 5)));
        assert!(pace.rate >= 5.0, "{} after the {n}th", pace.rate);
    }
}

/// Fifty who share a window, first often and then now and then for good: they do not become fewer by that.
#[test]
fn who_asks_but_now_and_then_knows_of_the_others() {
    let left = |remaining: u64| {
        let window = Some(Duration::from_secs(3600));
        let (limit, remaining) = (Some(1_000_000), Some(remaining));
        Seen {
            name: "a".to_owned(),
            limit,
            remaining,
            reset_after: window,
            window,
            ..Seen::default()
        }
    };
    let mut pace = LimitPace::new(&left(900_000), &reading(1, 0), 0.5);
    let mut millis = 0;
    for n in 1..200 {
        millis += if n < 40 { 50 } else { 5_000 };
        pace.read(&left(900_000 - 50 * n), &reading(1 + n, millis));
        if n > 30 {
            let sharers = pace.sharers();
            assert!((25.0..=100.0).contains(&sharers), "{sharers} after the {n}th");
        }
    }
}
