//! The three tiers of record 004: order, defaults, all or nothing, change at run time.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollgate_engine::{FakeClock, Limiter, Refusal, ThreeTier, Tier, TierRefusal, Tiers};

fn three_tier() -> (FakeClock, ThreeTier<FakeClock>) {
    let clock = FakeClock::default();
    let limiter = Limiter::with_clock(clock.clone(), 10_000);
    (clock, ThreeTier::with_limiter(limiter, Tiers::default()).unwrap())
}

fn millis(n: u64) -> Refusal {
    Refusal::Wait(n * 1_000_000)
}

#[test]
fn defaults_are_those_of_the_record() {
    let expected = Tiers {
        threshold: 100,
        client: Tier { rate: 50, capacity: 100 },
        organization: Tier { rate: 500, capacity: 1_000 },
    };
    assert_eq!(Tiers::default(), expected);
}

#[test]
fn backpressure_is_first_and_consumes_nothing() {
    let (_, tiers) = three_tier();
    tiers.backpressure().set_pending(150);
    for _ in 0..500 {
        let refused = tiers.check("alice", "acme").unwrap_err();
        assert_eq!(refused, TierRefusal::Backpressure(Duration::from_millis(500)));
    }
    tiers.backpressure().set_pending(100);
    assert!((0..100).all(|_| tiers.check("alice", "acme").is_ok()));
}

#[test]
fn a_client_is_contained_without_touching_its_organization() {
    let (clock, tiers) = three_tier();
    assert!((0..100).all(|_| tiers.check("alice", "acme").is_ok()));
    for _ in 0..1_000 {
        assert_eq!(tiers.check("alice", "acme"), Err(TierRefusal::Client(millis(20))));
    }
    // 900 of the organization's tokens are left for nine others.
    for client in 0..9 {
        assert!((0..100).all(|_| tiers.check(&format!("client {client}"), "acme").is_ok()));
    }
    assert_eq!(tiers.check("tenth", "acme"), Err(TierRefusal::Organization(millis(2))));
    assert!(tiers.check("alice", "other organization").is_ok());
    clock.advance(Duration::from_millis(20));
    assert!(tiers.check("alice", "acme").is_ok());
}

#[test]
fn a_request_the_organization_refuses_costs_the_client_nothing() {
    let (_, tiers) = three_tier();
    for client in 0..10 {
        assert!((0..100).all(|_| tiers.check(&format!("client {client}"), "acme").is_ok()));
    }
    assert!((0..500).all(|_| tiers.check("patient", "acme").is_err()));
    tiers
        .update(Tiers { organization: Tier { rate: 500, capacity: 2_000 }, ..Tiers::default() })
        .unwrap();
    // Raised, but not filled.
    assert_eq!(tiers.check("patient", "acme"), Err(TierRefusal::Organization(millis(2))));
}

#[test]
fn figures_change_at_run_time_and_buckets_keep_their_tokens() {
    let (_, tiers) = three_tier();
    assert!((0..40).all(|_| tiers.check("alice", "acme").is_ok()));
    let client = Tier { rate: 10, capacity: 30 };
    tiers.update(Tiers { threshold: 5, client, ..Tiers::default() }).unwrap();
    tiers.backpressure().set_pending(6);
    assert!(matches!(tiers.check("alice", "acme"), Err(TierRefusal::Backpressure(_))));
    tiers.backpressure().set_pending(5);
    assert!((0..30).all(|_| tiers.check("alice", "acme").is_ok()));
    assert_eq!(tiers.check("alice", "acme"), Err(TierRefusal::Client(millis(100))));
}

#[test]
fn figures_that_make_no_sense_change_nothing() {
    let (_, tiers) = three_tier();
    let bad =
        Tiers { organization: Tier { rate: 0, capacity: 1 }, threshold: 1, ..Tiers::default() };
    let error = tiers.update(bad).unwrap_err();
    assert_eq!(error.to_string(), "a rate of 0 would admit nobody: write a rate of at least 1");
    assert_eq!(tiers.backpressure().threshold(), 100);
    assert!((0..100).all(|_| tiers.check("alice", "acme").is_ok()));
}

#[test]
fn a_cost_above_a_capacity_never_passes() {
    let (_, tiers) = three_tier();
    let refused = tiers.check_cost("alice", "acme", 101).unwrap_err();
    assert_eq!(refused, TierRefusal::Client(Refusal::Never));
    assert_eq!(refused.retry_after(), None);
}

/// Whichever comes last, all of its figures are in force.
#[test]
fn updates_at_the_same_time_do_not_mix() {
    const ROUNDS: u64 = 10_000;
    let (_, tiers) = three_tier();
    let update = |figure: u64| {
        let client = Tier { rate: 1, capacity: figure };
        tiers.update(Tiers { threshold: figure, client, ..Tiers::default() }).unwrap();
    };
    let is_mixed = || {
        let never = Err(TierRefusal::Client(Refusal::Never));
        let threshold = tiers.backpressure().threshold();
        let check = |cost| tiers.check_cost("alice", "acme", cost);
        check(threshold + 1) != never || check(threshold) == never
    };
    // Whoever comes to a meeting spins until both are there, so that both go on in the same moment.
    let came = AtomicU64::new(0);
    let meet = |meeting: u64| {
        came.fetch_add(1, SeqCst);
        for turn in 0u64.. {
            match came.load(SeqCst) >= 2 * meeting {
                true => break,
                false if turn < 1_000 => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
    };
    let mixed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for figure in [10, 20] {
            let (update, is_mixed, meet, mixed) = (&update, &is_mixed, &meet, &mixed);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    meet(2 * round + 1);
                    update(figure);
                    meet(2 * round + 2);
                    // The other waits at the next meeting meanwhile.
                    if figure == 10 && is_mixed() {
                        mixed.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(mixed.into_inner(), 0, "of {ROUNDS}");
}
