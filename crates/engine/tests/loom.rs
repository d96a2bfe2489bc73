//! Every interleaving of small chains, by loom: run by `cargo xtask test` with `--cfg tollgate_loom`.

#![cfg(tollgate_loom)]

use loom::sync::Arc;
use loom::thread;
use tollgate_engine::{Chain, Charge, FakeClock, Limit, Limiter, Rate, Rule};

type Limits = (Limiter<FakeClock>, std::sync::Arc<Rule>, std::sync::Arc<Rule>);

/// Two limits of one token each, on counters that exist.
fn limits() -> Arc<Limits> {
    let limiter = Limiter::with_clock(FakeClock::default(), 100);
    let one = Limit::token_bucket(Rate::per_day(1)).burst(2).build().expect("good figures");
    let (x, y) = (limiter.define("x", one.clone()), limiter.define("y", one));
    for rule in [&x, &y] {
        limiter.check(rule, limiter.identity("all"), 1).expect("full");
    }
    Arc::new((limiter, x, y))
}

fn take(limiter: &Limiter<FakeClock>, rules: &[&Rule]) -> bool {
    let mut chain = Chain::new();
    for rule in rules {
        chain.push(Charge::new(rule, limiter.identity("all")));
    }
    limiter.take(&mut chain).is_admitted()
}

#[test]
fn two_chains_in_opposite_order_admit_exactly_one() {
    loom::model(|| {
        let limits = limits();
        let other = Arc::clone(&limits);
        let first = thread::spawn(move || take(&other.0, &[&other.1, &other.2]));
        let second = take(&limits.0, &[&limits.2, &limits.1]);
        assert!(first.join().expect("no panic") ^ second);
        for rule in [&limits.1, &limits.2] {
            assert_eq!(limits.0.peek(rule, limits.0.identity("all")).remaining, 0);
        }
    });
}

#[test]
fn a_chain_that_fails_later_refuses_nobody() {
    loom::model(|| {
        let limits = limits();
        limits.0.check(&limits.2, limits.0.identity("all"), 1).expect("one left");
        let other = Arc::clone(&limits);
        let failing = thread::spawn(move || take(&other.0, &[&other.1, &other.2]));
        assert!(limits.0.check(&limits.1, limits.0.identity("all"), 1).is_ok());
        assert!(!failing.join().expect("no panic"));
    });
}

#[test]
fn a_charge_given_back_is_never_admitted_twice() {
    loom::model(|| {
        let limits = limits();
        let other = Arc::clone(&limits);
        let giving = thread::spawn(move || {
            let (limiter, x, _) = &*other;
            let mut chain = Chain::new();
            chain.push(Charge::new(x, limiter.identity("all")));
            let admitted = limiter.take(&mut chain).is_admitted();
            limiter.give_back(&mut chain);
            admitted
        });
        let kept = take(&limits.0, &[&limits.1, &limits.2]);
        let gave = giving.join().expect("no panic");
        assert!(kept || gave);
        let left = limits.0.peek(&limits.1, limits.0.identity("all")).remaining;
        assert_eq!(left, u64::from(!kept));
    });
}

/// Whoever charges under the old figures while they change is counted under the new ones.
#[test]
fn a_charge_while_figures_change_is_not_lost() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let limits = limits();
        let other = Arc::clone(&limits);
        let charging = thread::spawn(move || take(&other.0, &[&other.1]));
        let two = Limit::token_bucket(Rate::per_day(2)).burst(2).build().expect("good figures");
        let new = limits.0.define("x", two);
        let id = limits.0.identity("all");
        let second = limits.0.check(&new, id, 1).is_ok();
        assert!(charging.join().expect("no panic") ^ second);
        assert_eq!(limits.0.peek(&new, id).remaining, 0);
        assert_eq!(limits.0.peek(&limits.1, id).remaining, 0);
    });
}
