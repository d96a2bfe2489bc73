//! What is learnt of a limit, reading by reading.

use super::*;

/// A limit of ten a second of which so many are left.
fn ten_a_second(remaining: u64) -> Seen {
    let second = Some(Duration::from_secs(1));
    let (limit, remaining) = (Some(10), Some(remaining));
    Seen { name: "a".to_owned(), limit, remaining, reset_after: second, window: second }
}

/// The answer to the `of`th request, so many milliseconds after the first.
fn reading(of: u64, millis: u64) -> Reading {
    let at = Time::from_secs(1_800_000_000) + Duration::from_millis(millis);
    Reading {
        at,
        number: of,
        of,
        unanswered: 0,
        charged: 1.0,
        is_refused: false,
        refused_for: None,
    }
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
    let refused_for = Some((1.0, Duration::from_millis(100)));
    let refused = Reading { is_refused: true, charged: 0.0, refused_for, ..reading(3, 500) };
    pace.read(&ten_a_second(0), &refused);
    assert!((9.9..10.1).contains(&pace.rate), "{}", pace.rate);
}
