//! New figures without pause: counters keep their tokens.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_engine::{
    Chain, Charge, Clock, FakeClock, Identity, Limit, Limiter, Period, Rate, Rule,
};

fn limiter() -> (FakeClock, Limiter<FakeClock>) {
    let clock = FakeClock::default();
    (clock.clone(), Limiter::with_clock(clock, 10_000))
}

fn bucket(rate: u64, capacity: u64) -> Limit {
    Limit::token_bucket(Rate::per_second(rate)).burst(capacity).build().unwrap()
}

#[test]
fn an_unchanged_limit_is_the_same_rule_and_keeps_its_counter() {
    let (_, limiter) = limiter();
    let rule = limiter.define("user", bucket(1, 10));
    let id = limiter.identity("alice");
    limiter.check(&rule, id, 4).unwrap();
    let again = limiter.define("user", bucket(1, 10));
    assert!(std::sync::Arc::ptr_eq(&rule, &again));
    drop((rule, again));
    // Also when nobody held it in between.
    let later = limiter.define("user", bucket(1, 10));
    assert_eq!(limiter.peek(&later, id).remaining, 6);
}

#[test]
fn changed_figures_take_effect_when_they_change_and_not_when_a_counter_is_next_seen() {
    let (clock, limiter) = limiter();
    let old = limiter.define("user", bucket(1, 10));
    let id = limiter.identity("alice");
    limiter.check(&old, id, 10).unwrap();
    clock.advance(Duration::from_secs(2));
    let middle = limiter.define("user", bucket(3, 100));
    clock.advance(Duration::from_secs(2));
    let new = limiter.define("user", bucket(1, 100));
    clock.advance(Duration::from_secs(2));
    // Two seconds at 1, two at 3, two at 1.
    assert_eq!(limiter.peek(&new, id).remaining, 10);
    drop((old, middle));
}

#[test]
fn whoever_still_holds_the_old_rule_is_decided_by_the_new_figures() {
    let (clock, limiter) = limiter();
    let old = limiter.define("user", bucket(1, 10));
    let id = limiter.identity("alice");
    limiter.check(&old, id, 1).unwrap();
    let new = limiter.define("user", bucket(1, 4));
    clock.advance(Duration::from_secs(100));
    assert_eq!(limiter.peek(&new, id).remaining, 4);
    let mut chain = Chain::new();
    chain.push(Charge::new(&old, id).cost(3));
    assert!(limiter.take(&mut chain).is_admitted());
    assert_eq!((chain.standing(0).limit, chain.standing(0).remaining), (4, 1));
    assert!(limiter.check(&old, id, 2).is_err());
    assert!(limiter.check(&new, id, 1).is_ok());
    clock.advance(Duration::from_secs(3));
    assert_eq!((limiter.peek(&old, id).remaining, limiter.peek(&new, id).remaining), (3, 3));
}

#[test]
fn whoever_joins_a_rule_changes_nothing_of_it_and_defines_it_only_where_there_is_none() {
    let (_, limiter) = limiter();
    let id = limiter.identity("alice");
    let first = limiter.join("user", bucket(1, 2));
    assert_eq!(first.limit(), &bucket(1, 2));
    let defined = limiter.define("user", bucket(1, 5));
    let joined = limiter.join("user", bucket(1, 2));
    assert!(std::sync::Arc::ptr_eq(&defined, &joined));
    for rule in [&first, &defined, &joined] {
        assert_eq!(limiter.peek(rule, id).limit, 5);
    }
    // Also where nobody has held it in between.
    drop((first, defined, joined));
    assert_eq!(limiter.join("user", bucket(1, 2)).limit(), &bucket(1, 5));
    // Another window is another counter.
    let per_minute = Limit::token_bucket(Rate::per_minute(2)).build().unwrap();
    assert_eq!(limiter.join("user", per_minute.clone()).limit(), &per_minute);
}

/// Everything there is to charge a counter with, under the rule that somebody still holds.
type Charging = fn(&Limiter<FakeClock>, &Rule, Identity, u64) -> bool;

const CHARGING: [Charging; 3] = [
    |limiter, rule, id, cost| limiter.check(rule, id, cost).is_ok(),
    |limiter, rule, id, cost| limiter.decide(rule, id, cost).is_allowed(),
    |limiter, rule, id, cost| {
        limiter.absorb(rule, id, cost);
        true
    },
];

/// Charged under its old figures an hour after they changed, a counter of 100 tokens had to wait for four days: as of
/// the moment of the change it lacked an hour's worth of the old, quicker rate.
#[test]
fn a_charge_under_an_old_rule_is_never_carried_over_as_of_a_moment_before_it() {
    for (charge, is_there) in CHARGING.into_iter().flat_map(|c| [(c, false), (c, true)]) {
        let (clock, limiter) = limiter();
        let (old, id) = (limiter.define("user", bucket(100, 100)), limiter.identity("alice"));
        if is_there {
            limiter.check(&old, id, 1).unwrap();
        }
        let new = limiter.define("user", bucket(1, 100));
        clock.advance(Duration::from_secs(3_600));
        assert!(charge(&limiter, &old, id, 1));
        assert_eq!(limiter.peek(&new, id).remaining, 99);
        assert_eq!(limiter.peek(&old, id).remaining, 99);
    }
}

#[test]
fn two_rules_of_one_counter_never_admit_its_capacity_twice() {
    for (charge, is_there) in CHARGING.into_iter().flat_map(|c| [(c, false), (c, true)]) {
        let (clock, limiter) = limiter();
        let (old, id) = (limiter.define("user", bucket(1, 10)), limiter.identity("alice"));
        if is_there {
            limiter.check(&old, id, 1).unwrap();
        }
        let new = limiter.define("user", bucket(1_000, 10));
        clock.advance(Duration::from_secs(1));
        assert!(charge(&limiter, &old, id, 10));
        assert!(limiter.check(&new, id, 1).is_err());
        assert!(limiter.check(&old, id, 1).is_err());
    }
}

/// What took a rule's place decides for whoever holds the old one, also after it was replaced itself, nobody
/// held it in between, and what was in the middle is forgotten.
#[test]
fn an_old_rule_is_decided_by_the_newest_whoever_holds_that() {
    let (clock, limiter) = limiter();
    let (old, id) = (limiter.define("user", bucket(100, 100)), limiter.identity("alice"));
    for rate in [3, 5, 1] {
        drop(limiter.define("user", bucket(rate, 100)));
        limiter.sweep();
    }
    clock.advance(Duration::from_secs(3_600));
    limiter.check(&old, id, 60).unwrap();
    clock.advance(Duration::from_secs(10));
    assert_eq!(limiter.peek(&old, id).remaining, 50);
    assert_eq!(limiter.peek(&limiter.define("user", bucket(1, 100)), id).remaining, 50);
}

#[test]
fn another_algorithm_or_window_starts_anew() {
    let (_, limiter) = limiter();
    let id = limiter.identity("alice");
    let rule = limiter.define("user", bucket(1, 10));
    limiter.check(&rule, id, 10).unwrap();
    let rule = limiter.define("user", Limit::gcra(Rate::per_second(1)).burst(10).build().unwrap());
    assert_eq!(limiter.peek(&rule, id).remaining, 10);
    let per_minute = Limit::token_bucket(Rate::per_minute(60)).burst(10).build().unwrap();
    let rule = limiter.define("user", per_minute);
    assert_eq!(limiter.peek(&rule, id).remaining, 10);
    let rule = limiter.define("user", bucket(1, 10));
    assert_eq!(limiter.peek(&rule, id).remaining, 0);
}

#[test]
fn one_quota_counter_serves_plans_with_different_limits() {
    let (_, limiter) = limiter();
    let quota = |n| Limit::quota(n, Period::Month, "UTC").unwrap();
    let free = limiter.define("quota", quota(100));
    let pro = limiter.define("quota", quota(1_000));
    let id = limiter.identity("alice");
    limiter.check(&free, id, 90).unwrap();
    assert_eq!(limiter.peek(&pro, id).remaining, 910);
    limiter.check(&pro, id, 60).unwrap();
    assert_eq!(limiter.peek(&free, id).remaining, 0);
    assert_eq!(limiter.peek(&pro, id).remaining, 850);
}

/// A slower rate must not let an old counter be forgotten by its old, quicker figures.
#[test]
fn counters_are_forgotten_by_present_figures() {
    let (clock, limiter) = limiter();
    let quick = limiter.define("user", bucket(100, 100));
    let id = limiter.identity("alice");
    limiter.check(&quick, id, 100).unwrap();
    let slow = limiter.define("user", bucket(1, 100));
    clock.advance(Duration::from_secs(50));
    assert_eq!(limiter.sweep(), 0);
    assert_eq!(limiter.peek(&slow, id).remaining, 50);
    clock.advance(Duration::from_secs(50));
    assert_eq!(limiter.sweep(), 1);
}

#[test]
fn a_charge_made_under_old_figures_is_given_back_or_kept_but_never_grants() {
    let (_, limiter) = limiter();
    let old = limiter.define("user", bucket(1, 10));
    let id = limiter.identity("alice");
    let mut chain = Chain::new();
    chain.push(Charge::new(&old, id).cost(4));
    assert!(limiter.take(&mut chain).is_admitted());
    let new = limiter.define("user", bucket(5, 10));
    limiter.check(&new, id, 1).unwrap();
    limiter.give_back(&mut chain);
    assert!(limiter.peek(&new, id).remaining <= 9);
}

/// Thousands of definitions under load while time passes: numbers of rules are reused, nothing is admitted twice.
#[test]
fn reconfiguring_under_load_admits_exactly_what_is_there() {
    let (clock, limiter) = limiter();
    let begin = clock.now();
    let first = limiter.define("user", bucket(1, 1_000_000));
    let id = limiter.identity("alice");
    let (admitted, done) = (AtomicU64::new(0), AtomicBool::new(false));
    limiter.check(&first, id, 1_000_000 - 20_000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut nth = 0u64;
                while !done.load(Relaxed) {
                    nth += 1;
                    let rate = 1 + nth % 7;
                    let rule = limiter.define("user", bucket(rate, 1_000_000 - nth % 3));
                    admitted.fetch_add(u64::from(limiter.check(&rule, id, 1).is_ok()), Relaxed);
                    if nth.is_multiple_of(100) {
                        limiter.sweep();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..40_000 {
                admitted.fetch_add(u64::from(limiter.check(&first, id, 1).is_ok()), Relaxed);
                clock.advance(Duration::from_micros(50));
            }
            done.store(true, Relaxed);
        });
    });
    // No more is earned than at the quickest rate. A lower capacity may only take tokens away.
    let earned = (clock.now() - begin).as_secs() * 7 + 7;
    let admitted = admitted.into_inner();
    assert!(admitted <= 20_000 + earned, "{admitted} with {earned} earned");
    assert!(admitted > 0);
}
