//! A chain in Redis is decided as the engine decides it in memory.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_engine::{
    Chain, Clock, FakeClock, Limit, Limiter, Period, Rate, Refusal, Rule, Strategy as OnRefusal,
    Verdict,
};
use tollgate_redis::driven::Driven;
use tollgate_redis::{Charge, Figures};

use crate::servers::{Brand, Server, on_both};

/// One of each algorithm, with figures that a few charges exhaust.
fn limits() -> Vec<Limit> {
    let bucket = Limit::token_bucket(Rate::per_second(3)).burst(9);
    vec![
        bucket.build().unwrap(),
        Limit::leaky_bucket(Rate::per_second(2)).burst(5).build().unwrap(),
        Limit::gcra(Rate::per_minute(50)).burst(12).build().unwrap(),
        Limit::fixed_window(Rate::per_second(7)).build().unwrap(),
        Limit::sliding_window(Rate::per_second(8)).build().unwrap(),
        Limit::sliding_window_log(Rate::per_second(6)).build().unwrap(),
        Limit::quota(40, Period::Day, "UTC").unwrap(),
    ]
}

type Asked = (usize, u8, u64, OnRefusal);

fn request() -> impl Strategy<Value = (u64, Vec<Asked>)> {
    let on_refusal = prop_oneof![
        5 => Just(OnRefusal::Reject),
        2 => Just(OnRefusal::Queue),
        2 => Just(OnRefusal::Degrade),
        2 => Just(OnRefusal::Observe),
    ];
    let asked = (0usize..7, 0u8..3, 0u64..6, on_refusal);
    (0u64..700, proptest::collection::vec(asked, 0..12))
}

/// The verdict with its wait rounded up to microseconds, which is what Redis counts in.
fn in_micros(verdict: Verdict) -> Verdict {
    let up = |refusal| match refusal {
        Refusal::Wait(nanos) => Refusal::Wait(nanos.div_ceil(1000) * 1000),
        Refusal::Never => Refusal::Never,
    };
    match verdict {
        Verdict::Refused { by, refusal } => Verdict::Refused { by, refusal: up(refusal) },
        Verdict::Queued { by, refusal } => Verdict::Queued { by, refusal: up(refusal) },
        other => other,
    }
}

fn chains_agree_with_the_engine(brand: Brand) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    let clock = FakeClock::default();
    let limiter = Limiter::with_clock(clock.clone(), 10_000);
    let limits = limits();
    let rules: Vec<Arc<Rule>> =
        limits.iter().map(|limit| limiter.define(limit.kind().name(), limit.clone())).collect();
    let figures: Vec<Figures> = limits.iter().map(|limit| Figures::of(limit).unwrap()).collect();

    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = [0; 4];
    for nth in 0..5000 {
        let (millis, mut asked) = request().new_tree(&mut runner).unwrap().current();
        clock.advance(Duration::from_millis(millis));
        let mut named = std::collections::HashSet::new();
        asked.retain(|(rule, user, ..)| named.insert((*rule, *user)));
        if asked.is_empty() {
            continue;
        }
        let mut chain = Chain::new();
        let keys: Vec<String> =
            asked.iter().map(|(rule, user, ..)| format!("{rule}/{user}")).collect();
        let mut charges = Vec::new();
        for ((rule, user, cost, strategy), key) in asked.iter().zip(&keys) {
            let charge = tollgate_engine::Charge::new(&rules[*rule], limiter.identity(user));
            chain.push(charge.cost(*cost).strategy(*strategy));
            charges.push(Charge::new(key, &figures[*rule]).cost(*cost).strategy(*strategy));
        }
        let expected = in_micros(limiter.take(&mut chain));
        let now = clock.now().as_nanos() / 1000;
        let value: redis::Value = driven.take(&charges, now).query(&mut connection).unwrap();
        let answer = driven.answer(&value, &charges).unwrap();
        assert_eq!(answer.verdict(), expected, "request {nth}: {asked:?}");
        for (index, decision) in answer.decisions().enumerate() {
            let mut standing = chain.standing(index);
            let nanos = standing.reset_after.as_nanos() as u64;
            standing.reset_after = Duration::from_micros(nanos.div_ceil(1000));
            assert_eq!(decision.standing, standing, "request {nth}, charge {index}: {asked:?}");
            assert_eq!(answer.is_charged(index), chain.is_charged(index));
        }
        seen[match expected {
            Verdict::Admitted => 0,
            Verdict::Degraded { .. } => 1,
            Verdict::Queued { .. } => 2,
            Verdict::Refused { .. } => 3,
        }] += 1;
    }
    assert!(seen.iter().all(|count| *count > 50), "every verdict is met: {seen:?}");
}

fn a_counter_named_twice_must_have_enough_for_both(brand: Brand) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    let now = 1_767_225_600_000_000;
    for limit in limits() {
        let (figures, key) = (Figures::of(&limit).unwrap(), limit.kind().name());
        let most = limit.capacity();
        let mut take = |first, second| {
            let of = |cost| Charge::new(key, &figures).cost(cost);
            let charges = [of(first), of(second)];
            let value: redis::Value = driven.take(&charges, now).query(&mut connection).unwrap();
            let answer = driven.answer(&value, &charges).unwrap();
            (answer.verdict().is_admitted(), answer.decisions().last().unwrap().standing.remaining)
        };
        assert!(!take(most, 1).0, "{key}");
        assert_eq!(take(most - 1, 1), (true, 0), "{key}");
    }
}

on_both! {
    agree_with_the_engine => chains_agree_with_the_engine;
    a_counter_named_twice => a_counter_named_twice_must_have_enough_for_both;
}
