//! Real threads: nothing admitted twice, nobody refused by a ghost.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_engine::{Chain, Charge, FakeClock, Limit, Limiter, Rate};

const THREADS: u64 = 8;

fn limiter() -> Limiter<FakeClock> {
    Limiter::with_clock(FakeClock::default(), 100_000)
}

fn bucket(capacity: u64) -> Limit {
    Limit::token_bucket(Rate::per_day(1)).burst(capacity).build().unwrap()
}

fn together(work: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn threads_together_admit_exactly_the_limit_of_every_counter() {
    let limiter = limiter();
    let user = limiter.define("user", bucket(300));
    let tenant = limiter.define("tenant", bucket(1_000));
    let system = limiter.define("system", bucket(2_500));
    let admitted = AtomicU64::new(0);
    let by_user: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
    together(|thread| {
        for n in 0..5_000u64 {
            let who = (n * 7 + thread * 3) % 16;
            let mut chain = Chain::new();
            // Half of them the other way round: order of charges is not order of locks.
            let charges = [
                Charge::new(&user, limiter.identity(&who)),
                Charge::new(&tenant, limiter.identity(&(who % 4))),
                Charge::new(&system, limiter.identity("system")),
            ];
            let order: [usize; 3] = if n % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
            order.into_iter().for_each(|i| chain.push(charges[i]));
            if limiter.take(&mut chain).is_admitted() {
                admitted.fetch_add(1, Relaxed);
                by_user[who as usize].fetch_add(1, Relaxed);
            }
        }
    });
    let admitted = admitted.into_inner();
    assert_eq!(admitted, 2_500);
    assert_eq!(limiter.peek(&system, limiter.identity("system")).remaining, 0);
    let by_user: Vec<u64> = by_user.into_iter().map(AtomicU64::into_inner).collect();
    for tenant_id in 0..4u64 {
        let spent: u64 =
            (0..16u64).filter(|u| u % 4 == tenant_id).map(|u| by_user[u as usize]).sum();
        let left = limiter.peek(&tenant, limiter.identity(&tenant_id)).remaining;
        assert_eq!(left, 1_000 - spent);
    }
    for (who, spent) in (0u64..).zip(by_user) {
        assert_eq!(limiter.peek(&user, limiter.identity(&who)).remaining, 300 - spent);
    }
}

/// Some requests always fail at their second limit, after their first has agreed. Whoever asks only the first
/// must never notice: every one of exactly as many as the limit allows passes.
#[test]
fn nobody_is_refused_because_of_a_charge_that_is_not_kept() {
    for _ in 0..20 {
        let limiter = limiter();
        let shared = limiter.define("shared", bucket(4 * 500));
        let closed = limiter.define("closed", bucket(1));
        let (id, none) = (limiter.identity("shared"), limiter.identity("closed"));
        limiter.check(&closed, none, 1).unwrap();
        let (refused, wrongly_admitted) = (AtomicU64::new(0), AtomicU64::new(0));
        together(|thread| {
            for _ in 0..500 {
                if thread % 2 == 0 {
                    refused.fetch_add(u64::from(limiter.check(&shared, id, 1).is_err()), Relaxed);
                } else {
                    let mut chain = Chain::new();
                    chain.push(Charge::new(&shared, id).cost(100));
                    chain.push(Charge::new(&closed, none));
                    let admitted = limiter.take(&mut chain).is_admitted();
                    wrongly_admitted.fetch_add(u64::from(admitted), Relaxed);
                }
            }
        });
        assert_eq!((refused.into_inner(), wrongly_admitted.into_inner()), (0, 0));
        assert_eq!(limiter.peek(&shared, id).remaining, 0);
    }
}

#[test]
fn new_identities_of_many_threads_are_all_counted_once() {
    let limiter = limiter();
    let rule = limiter.define("user", bucket(THREADS));
    let refused = AtomicU64::new(0);
    together(|_| {
        for n in 0..5_000u64 {
            let checked = limiter.check(&rule, limiter.identity(&n), 1);
            refused.fetch_add(u64::from(checked.is_err()), Relaxed);
        }
    });
    assert_eq!(refused.into_inner(), 0);
    assert_eq!(limiter.stats().held, 5_000);
    assert!((0..5_000u64).all(|n| limiter.peek(&rule, limiter.identity(&n)).remaining == 0));
}

/// Threads that all find the store full at once: it stays within a tenth of its bound, nobody's counter is reset, and
/// whoever finds no room shares the overflow counter with all others that do not.
#[test]
fn threads_at_the_cap_stay_within_it_and_reset_nobody() {
    const CAP: usize = 2_000;
    let limiter = Limiter::with_clock(FakeClock::default(), CAP);
    let rule = limiter.define("user", bucket(10));
    let tracked: Vec<_> = (0..100u64).map(|n| limiter.identity(&("tracked", n))).collect();
    tracked.iter().for_each(|id| limiter.check(&rule, *id, 7).unwrap());
    let (admitted, most) = (AtomicU64::new(0), AtomicU64::new(0));
    together(|thread| {
        for n in 0..10_000u64 {
            let id = limiter.identity(&(thread, n));
            admitted.fetch_add(u64::from(limiter.check(&rule, id, 1).is_ok()), Relaxed);
            most.fetch_max(limiter.stats().held as u64, Relaxed);
            let known = tracked[n as usize % tracked.len()];
            assert_eq!(limiter.peek(&rule, known).remaining, 3);
        }
    });
    let (held, most) = (limiter.stats().held as u64, most.into_inner());
    assert!(most <= (CAP + CAP / 10) as u64, "{most}");
    // Each newcomer with a counter of its own, and ten tokens for all others together.
    assert_eq!(admitted.into_inner(), held - 100 - 1 + 10);
}
