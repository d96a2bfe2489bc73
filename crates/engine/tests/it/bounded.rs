//! Memory is bounded, and nobody tracked pays for it.

use std::time::Duration;

use tollgate_engine::{Chain, Charge, FakeClock, Limit, Limiter, Rate, Verdict};

const CAP: usize = 20_000;

fn limiter() -> (FakeClock, Limiter<FakeClock>) {
    let clock = FakeClock::default();
    (clock.clone(), Limiter::with_clock(clock, CAP))
}

fn bucket(rate: Rate, capacity: u64) -> Limit {
    Limit::token_bucket(rate).burst(capacity).build().unwrap()
}

#[test]
fn a_flood_of_ten_million_keys_stays_within_the_cap_and_resets_nobody() {
    let (_, limiter) = limiter();
    let rule = limiter.define("user", bucket(Rate::per_day(1), 10));
    let tracked: Vec<_> = (0..100u64).map(|n| limiter.identity(&("tracked", n))).collect();
    for id in &tracked {
        limiter.check(&rule, *id, 7).unwrap();
    }
    let mut admitted = 0u64;
    for n in 0..10_000_000u64 {
        admitted += u64::from(limiter.check(&rule, limiter.identity(&n), 1).is_ok());
    }
    let stats = limiter.stats();
    assert!(stats.held <= CAP + CAP / 10, "{stats:?}");
    assert_eq!(stats.evicted, 0);
    assert_eq!(stats.overflowed, 10_000_000 - (CAP as u64 - 100));
    // Those that found no room shared one counter of ten tokens.
    assert_eq!(admitted, CAP as u64 - 100 + 10);
    for id in tracked {
        assert_eq!(limiter.peek(&rule, id).remaining, 3);
        assert!(limiter.check(&rule, id, 3).is_ok() && limiter.check(&rule, id, 1).is_err());
    }
}

#[test]
fn counters_that_equal_new_ones_make_room_and_others_stay() {
    let (clock, limiter) = limiter();
    let quick = limiter.define("quick", bucket(Rate::per_second(1), 10));
    let slow = limiter.define("slow", bucket(Rate::per_day(1), 10));
    let half = CAP as u64 / 2;
    for n in 0..half {
        limiter.check(&quick, limiter.identity(&n), 1).unwrap();
        limiter.check(&slow, limiter.identity(&n), 1).unwrap();
    }
    // Full, and the quick ones are full again: newcomers find room without anybody sharing.
    clock.advance(Duration::from_secs(1));
    for n in half..CAP as u64 {
        limiter.check(&slow, limiter.identity(&n), 1).unwrap();
    }
    let stats = limiter.stats();
    assert_eq!((stats.held, stats.evicted, stats.overflowed), (CAP, half, 0));
    assert!((0..CAP as u64).all(|n| limiter.peek(&slow, limiter.identity(&n)).remaining == 9));
    // Now none is left to evict.
    limiter.check(&slow, limiter.identity("late"), 1).unwrap();
    assert_eq!(limiter.stats().overflowed, 1);
    // Looking is no charge.
    assert_eq!(limiter.peek(&slow, limiter.identity("later")).remaining, 9);
    assert_eq!(limiter.stats().overflowed, 1);
}

/// A change of figures may have renewed anything: one counter that has been is found wherever it is.
#[test]
fn whatever_can_be_evicted_is_found_before_anybody_shares() {
    let (clock, limiter) = limiter();
    let quick = limiter.define("quick", bucket(Rate::per_second(1), 10));
    let slow = limiter.define("slow", bucket(Rate::per_day(1), 10));
    for n in 1..CAP as u64 {
        limiter.check(&slow, limiter.identity(&n), 1).unwrap();
    }
    for n in 0..20u64 {
        limiter.check(&quick, limiter.identity(&n), 1).unwrap();
        clock.advance(Duration::from_secs(5));
        limiter.define("other", bucket(Rate::per_second(1 + n), 10));
        limiter.check(&slow, limiter.identity(&("late", n)), 1).unwrap();
        limiter.reset(&slow, limiter.identity(&("late", n)));
    }
    let stats = limiter.stats();
    assert_eq!((stats.overflowed, stats.evicted), (0, 20));
}

#[test]
fn every_algorithm_is_forgotten_exactly_when_it_equals_a_new_one() {
    let second = Rate::per_second(5);
    let limits = [
        bucket(second, 5),
        Limit::fixed_window(second).build().unwrap(),
        Limit::sliding_window(second).build().unwrap(),
        Limit::sliding_window_log(second).build().unwrap(),
        Limit::quota(5, tollgate_engine::Period::Day, "UTC").unwrap(),
    ];
    for limit in limits {
        let (clock, limiter) = limiter();
        let rule = limiter.define("user", limit);
        let id = limiter.identity("alice");
        limiter.check(&rule, id, 5).unwrap();
        clock.advance(limiter.peek(&rule, id).reset_after - Duration::from_nanos(1));
        assert_eq!(limiter.sweep(), 0, "{:?}", rule.limit().kind());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limiter.sweep(), 1, "{:?}", rule.limit().kind());
        assert_eq!(limiter.stats().held, 0);
        assert_eq!(limiter.peek(&rule, id).remaining, 5);
    }
}

#[test]
fn a_refused_request_adds_no_counter() {
    let (_, limiter) = limiter();
    let user = limiter.define("user", bucket(Rate::per_day(1), 10));
    let tenant = limiter.define("tenant", bucket(Rate::per_day(1), 1));
    let acme = limiter.identity("acme");
    limiter.check(&tenant, acme, 1).unwrap();
    for n in 0..1_000u64 {
        let mut chain = Chain::new();
        chain.push(Charge::new(&user, limiter.identity(&n)));
        chain.push(Charge::new(&tenant, acme));
        assert!(matches!(limiter.take(&mut chain), Verdict::Refused { by: 1, .. }));
    }
    assert_eq!(limiter.stats().held, 1);
}

#[test]
fn a_full_store_still_decides_chains_all_or_nothing() {
    let (_, limiter) = limiter();
    let user = limiter.define("user", bucket(Rate::per_day(1), 10));
    let tenant = limiter.define("tenant", bucket(Rate::per_day(1), 15));
    let fill = limiter.define("fill", bucket(Rate::per_day(1), 10));
    for n in 0..CAP as u64 {
        limiter.check(&fill, limiter.identity(&n), 1).unwrap();
    }
    let take = |who: &str, cost: u64| {
        let mut chain = Chain::new();
        chain.push(Charge::new(&user, limiter.identity(who)).cost(cost));
        chain.push(Charge::new(&tenant, limiter.identity("acme")).cost(cost));
        limiter.take(&mut chain).is_admitted()
    };
    // All users share the ten tokens of the overflow counter, the tenant has its own overflow.
    assert!(take("alice", 6));
    assert!(!take("bob", 5));
    assert!(take("carol", 4));
    assert!(!take("dave", 1));
    assert!(limiter.stats().overflowed >= 6);
}
