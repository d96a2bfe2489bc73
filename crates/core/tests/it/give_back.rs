//! A charge given back: as if it had never been made, and never more.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Counter, Limit, Rate};

use crate::traces::{BEGIN, Step, later, limit_or_quota_and_steps};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn given_back_at_once_a_charge_leaves_no_trace((limit, steps) in limit_or_quota_and_steps()) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        for (i, Step { after, cost }) in steps.into_iter().enumerate() {
            now = later(now, after);
            if i % 2 == 0 {
                counter.take(cost, now);
                continue;
            }
            let before = counter.standing(now);
            if counter.peek(cost, now).is_allowed() {
                let receipt = counter.charge(cost, now);
                counter.give_back(receipt, now);
            }
            prop_assert_eq!(counter.standing(now), before);
        }
    }

    /// Whatever others charge meanwhile, the counter never has more than if the charge had not been made.
    #[test]
    fn given_back_later_a_charge_grants_nothing(
        (limit, steps) in limit_or_quota_and_steps(), at in 0usize..60, wait in 0usize..60
    ) {
        let mut with = Counter::new(limit.clone());
        let mut without = Counter::new(limit);
        let (mut now, mut receipt) = (BEGIN, None);
        for (i, Step { after, cost }) in steps.into_iter().enumerate() {
            now = later(now, after);
            if i == at {
                receipt = Some(with.charge(cost, now));
                continue;
            }
            if i >= at + wait && let Some(receipt) = receipt.take() {
                with.give_back(receipt, now);
            }
            if receipt.is_none() {
                prop_assert!(with.standing(now).remaining <= without.standing(now).remaining);
            }
            with.charge(cost, now);
            without.charge(cost, now);
        }
    }
}

/// The case that makes a receipt necessary: the bucket refilled meanwhile and was spent again.
#[test]
fn tokens_that_time_has_refilled_are_not_given_a_second_time() {
    let limit = Limit::token_bucket(Rate::per_second(10)).burst(10).build().unwrap();
    let mut counter = Counter::new(limit);
    let receipt = counter.charge(10, BEGIN);
    let now = BEGIN + Duration::from_secs(5);
    assert!(counter.take(10, now).is_allowed());
    counter.give_back(receipt, now);
    assert_eq!(counter.standing(now).remaining, 0);
}

/// A bucket that was never full in between gets the whole charge back, however late.
#[test]
fn a_busy_bucket_gets_the_whole_charge_back() {
    let limit = Limit::token_bucket(Rate::per_second(10)).burst(100).build().unwrap();
    let mut counter = Counter::new(limit);
    counter.charge(60, BEGIN);
    let receipt = counter.charge(5, BEGIN);
    let now = BEGIN + Duration::from_secs(2);
    counter.charge(20, now);
    assert_eq!(counter.standing(now).remaining, 35);
    counter.give_back(receipt, now);
    assert_eq!(counter.standing(now).remaining, 40);
}
