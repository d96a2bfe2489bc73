//! A decision allocates nothing once its counters are there, whether it admits, refuses or gives back.

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use tollgate_engine::{Chain, Charge, FakeClock, Limit, Limiter, Period, Rate, Rule};

/// Every algorithm with a flat state, which a few charges exhaust. A log is as long as its rate, and exempt.
fn limits() -> [Limit; 6] {
    [
        Limit::token_bucket(Rate::per_second(3)).burst(9).build().unwrap(),
        Limit::leaky_bucket(Rate::per_second(2)).burst(5).build().unwrap(),
        Limit::gcra(Rate::per_minute(50)).burst(12).build().unwrap(),
        Limit::fixed_window(Rate::per_second(7)).build().unwrap(),
        Limit::sliding_window(Rate::per_second(8)).build().unwrap(),
        Limit::quota(40, Period::Month, "Europe/Berlin").unwrap(),
    ]
}

fn defined() -> (FakeClock, Limiter<FakeClock>, Vec<Arc<Rule>>) {
    let clock = FakeClock::default();
    let limiter = Limiter::with_clock(clock.clone(), 1_000);
    let rules = limits().map(|limit| limiter.define(&format!("{limit:?}"), limit));
    (clock, limiter, rules.to_vec())
}

#[test]
fn a_single_check_allocates_nothing() {
    let (clock, limiter, rules) = defined();
    for rule in &rules {
        let alice = limiter.identity("alice");
        limiter.check(rule, alice, 1).unwrap();
        let (mut admitted, mut refused) = (0, 0);
        let allocated = measure(|| {
            for _ in 0..100 {
                clock.advance(Duration::from_millis(50));
                match limiter.check(rule, limiter.identity("alice"), 1) {
                    Ok(()) => admitted += 1,
                    Err(_) => refused += 1,
                }
                limiter.peek(rule, alice);
            }
        });
        assert_eq!(allocated.count_total, 0, "{rule:?}");
        assert!(admitted > 0 && refused > 0, "{admitted} admitted, {refused} refused by {rule:?}");
    }
}

#[test]
fn a_chain_allocates_nothing() {
    let (clock, limiter, rules) = defined();
    let ids = ["client", "tenant", "partner", "system"].map(|name| limiter.identity(name));
    let (mut admitted, mut refused) = (0, 0);
    let mut take = || {
        clock.advance(Duration::from_millis(50));
        let mut chain = Chain::new();
        for (rule, id) in rules.iter().zip(ids.iter().cycle()) {
            chain.push(Charge::new(rule, *id));
        }
        match limiter.take(&mut chain).is_admitted() {
            true => admitted += 1,
            false => refused += 1,
        }
        chain.tightest();
        limiter.give_back(&mut chain);
        // What was given back is charged again, so that it runs out.
        limiter.take(&mut chain);
    };
    take();
    assert_eq!(measure(|| (0..100).for_each(|_| take())).count_total, 0);
    assert!(admitted > 0 && refused > 0, "{admitted} admitted, {refused} refused");
}
