//! Changed figures: counters keep their tokens.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Flat, Form, Limit, Rate, State, Time};

use crate::traces::{BEGIN, meter, scaled};

fn flat(limit: &Limit) -> &Flat {
    match limit.form() {
        Form::Flat(flat) => flat,
        Form::Log(_) => panic!("a log has no flat state"),
    }
}

fn bucket(rate: Rate, capacity: u64) -> Limit {
    Limit::token_bucket(rate).burst(capacity).build().unwrap()
}

/// What is left after `spent` of `old` when it becomes `new`, and two seconds later.
fn carried(old: &Limit, spent: u64, new: &Limit) -> (u64, u64) {
    let mut state = State::NEW;
    flat(old).charge(&mut state, spent, BEGIN);
    let state = flat(new).adopt(flat(old), state, BEGIN);
    let remaining = |at: Time| flat(new).standing(&state, at).remaining;
    (remaining(BEGIN), remaining(BEGIN + Duration::from_secs(2)))
}

#[test]
fn tokens_are_kept_clamped_and_not_filled() {
    let slow = Rate::per_second(1);
    let rows = [
        // old capacity, spent, new rate, new capacity → left at once, left after two seconds
        (10, 4, slow, 10, 6, 8),
        (10, 4, slow, 20, 6, 8),                 // higher: not filled
        (10, 4, slow, 5, 5, 5),                  // lower: clamped
        (10, 9, slow, 5, 1, 3),                  // lower, but above what is there
        (10, 4, Rate::per_second(3), 10, 6, 10), // faster from now on
        (10, 4, Rate::per_second(3), 20, 6, 12),
        (10, 0, slow, 20, 10, 12), // full is not filled either
    ];
    for (capacity, spent, rate, new_capacity, at_once, later) in rows {
        let got = carried(&bucket(slow, capacity), spent, &bucket(rate, new_capacity));
        assert_eq!(got, (at_once, later), "{capacity} − {spent} → {new_capacity} at {rate}");
    }
}

#[test]
fn a_window_keeps_what_was_charged() {
    let limit = |n| Limit::fixed_window(Rate::per_hour(n)).build().unwrap();
    assert_eq!(carried(&limit(100), 60, &limit(80)).0, 20);
    assert_eq!(carried(&limit(100), 60, &limit(50)).0, 0);
    assert_eq!(carried(&limit(100), 60, &limit(200)).0, 140);
}

#[test]
fn another_algorithm_or_window_starts_anew() {
    let per_second = bucket(Rate::per_second(5), 5);
    assert!(per_second.continues_as(&bucket(Rate::per_second(9), 50)));
    assert!(!per_second.continues_as(&bucket(Rate::per_minute(5), 5)));
    assert!(!per_second.continues_as(&Limit::gcra(Rate::per_second(5)).build().unwrap()));
}

proptest! {
    /// Between any two meters, in tokens: never more than there was, never more than fits, and less than one
    /// token lost.
    #[test]
    fn a_change_of_figures_grants_no_token(
        (_, old_capacity, old) in meter(), (_, new_capacity, new) in meter(),
        spent in scaled(1_000_000_000), after in scaled(86_400_000_000_000)
    ) {
        let mut state = State::NEW;
        flat(&old).charge(&mut state, spent.min(old_capacity), BEGIN);
        let at = BEGIN + Duration::from_nanos(after);
        let before = flat(&old).standing(&state, at).remaining;
        let now = flat(&new).adopt(flat(&old), state, at);
        let left = flat(&new).standing(&now, at).remaining;
        prop_assert!(left <= before.min(new_capacity));
        prop_assert!(left + 1 >= before.min(new_capacity));
        let same = flat(&old).adopt(flat(&old), state, at);
        prop_assert_eq!(flat(&old).standing(&same, at), flat(&old).standing(&state, at));
    }
}
