//! A chain is decided all or nothing, as a slow model decides it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Counter;
use tollgate_engine::{
    Chain, Charge, Clock, FakeClock, Limit, Limiter, Period, Rate, Refusal, Rule,
    Strategy as OnRefusal, Verdict,
};

fn limiter() -> (FakeClock, Limiter<FakeClock>) {
    let clock = FakeClock::default();
    (clock.clone(), Limiter::with_clock(clock, 10_000))
}

fn bucket(rate: u64, capacity: u64) -> Limit {
    Limit::token_bucket(Rate::per_second(rate)).burst(capacity).build().unwrap()
}

/// One of each algorithm, with figures that a few charges exhaust.
fn limits() -> Vec<Limit> {
    vec![
        bucket(3, 9),
        Limit::leaky_bucket(Rate::per_second(2)).burst(5).build().unwrap(),
        Limit::gcra(Rate::per_minute(50)).burst(12).build().unwrap(),
        Limit::fixed_window(Rate::per_second(7)).build().unwrap(),
        Limit::sliding_window(Rate::per_second(8)).build().unwrap(),
        Limit::sliding_window_log(Rate::per_second(6)).build().unwrap(),
        Limit::quota(40, Period::Day, "UTC").unwrap(),
    ]
}

#[derive(Clone, Debug)]
struct Asked {
    rule: usize,
    user: u8,
    cost: u64,
    on_refusal: OnRefusal,
}

fn on_refusal() -> impl Strategy<Value = OnRefusal> {
    prop_oneof![
        5 => Just(OnRefusal::Reject),
        2 => Just(OnRefusal::Queue),
        2 => Just(OnRefusal::Degrade),
        2 => Just(OnRefusal::Observe),
    ]
}

fn request() -> impl Strategy<Value = (u64, Vec<Asked>)> {
    let asked = (0usize..7, 0u8..3, 0u64..6, on_refusal())
        .prop_map(|(rule, user, cost, on_refusal)| Asked { rule, user, cost, on_refusal });
    (0u64..700, proptest::collection::vec(asked, 0..12))
}

/// The law of PRODUCT §2 and §4, one counter at a time.
struct Model {
    limits: Vec<Limit>,
    counters: HashMap<(usize, u8), Counter>,
}

impl Model {
    fn take(&mut self, asked: &[Asked], now: tollgate_engine::Time) -> Verdict {
        let mut refusals = Vec::new();
        for (index, a) in asked.iter().enumerate() {
            let limit = &self.limits[a.rule];
            let counter = self
                .counters
                .entry((a.rule, a.user))
                .or_insert_with(|| Counter::new(limit.clone()));
            if let Some(refusal) = counter.peek(a.cost, now).refusal {
                refusals.push((index, a.on_refusal, refusal));
            }
        }
        let has = |wanted: OnRefusal| refusals.iter().any(|r| r.1 == wanted);
        let longest = |wanted: &[OnRefusal]| {
            let mut of: Vec<_> = refusals.iter().filter(|r| wanted.contains(&r.1)).collect();
            of.sort_by_key(|r| (std::cmp::Reverse(r.2), r.0));
            (of[0].0, of[0].2)
        };
        if has(OnRefusal::Reject) {
            let (by, refusal) = longest(&[OnRefusal::Reject, OnRefusal::Queue]);
            return Verdict::Refused { by, refusal };
        }
        if has(OnRefusal::Queue) {
            let (by, refusal) = longest(&[OnRefusal::Queue]);
            return match refusal {
                Refusal::Never => Verdict::Refused { by, refusal },
                Refusal::Wait(_) => Verdict::Queued { by, refusal },
            };
        }
        for (index, a) in asked.iter().enumerate() {
            if refusals.iter().all(|r| r.0 != index) {
                self.counters.get_mut(&(a.rule, a.user)).unwrap().charge(a.cost, now);
            }
        }
        match refusals.iter().find(|r| r.1 == OnRefusal::Degrade) {
            Some(&(by, ..)) => Verdict::Degraded { by },
            None => Verdict::Admitted,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn chains_agree_with_the_model(requests in proptest::collection::vec(request(), 1..60)) {
        let (clock, limiter) = limiter();
        let limits = limits();
        let rules: Vec<Arc<Rule>> =
            limits.iter().zip(0..).map(|(l, i)| limiter.define(&format!("{i}"), l.clone())).collect();
        let mut model = Model { limits, counters: HashMap::new() };
        for (millis, mut asked) in requests {
            clock.advance(Duration::from_millis(millis));
            let mut seen = std::collections::HashSet::new();
            asked.retain(|a| seen.insert((a.rule, a.user)));
            let mut chain = Chain::new();
            for a in &asked {
                let charge = Charge::new(&rules[a.rule], limiter.identity(&a.user));
                chain.push(charge.cost(a.cost).strategy(a.on_refusal));
            }
            let now = clock.now();
            prop_assert_eq!(limiter.take(&mut chain), model.take(&asked, now));
            for (index, a) in asked.iter().enumerate() {
                let expected = model.counters[&(a.rule, a.user)].standing(now);
                prop_assert_eq!(chain.standing(index), expected);
                prop_assert_eq!(limiter.peek(&rules[a.rule], limiter.identity(&a.user)), expected);
            }
            let tightest = (0..asked.len()).min_by_key(|&i| {
                let standing = chain.standing(i);
                let further = standing.remaining / asked[i].cost.max(1);
                (further, std::cmp::Reverse(standing.reset_after), i)
            });
            prop_assert_eq!(chain.tightest(), tightest);
        }
    }

    /// Taken and given back at once, a chain leaves every counter as it was.
    #[test]
    fn a_chain_given_back_leaves_no_trace(requests in proptest::collection::vec(request(), 1..40)) {
        let (clock, limiter) = limiter();
        let rules: Vec<Arc<Rule>> =
            limits().into_iter().zip(0..).map(|(l, i)| limiter.define(&format!("{i}"), l)).collect();
        for (nth, (millis, asked)) in requests.into_iter().enumerate() {
            clock.advance(Duration::from_millis(millis));
            let standing = |a: &Asked| limiter.peek(&rules[a.rule], limiter.identity(&a.user));
            let before: Vec<_> = asked.iter().map(standing).collect();
            let mut chain = Chain::new();
            for a in &asked {
                chain.push(Charge::new(&rules[a.rule], limiter.identity(&a.user)).cost(a.cost));
            }
            let admitted = limiter.take(&mut chain).is_admitted();
            if !admitted || nth % 2 == 0 {
                limiter.give_back(&mut chain);
                limiter.give_back(&mut chain);
                prop_assert_eq!(asked.iter().map(standing).collect::<Vec<_>>(), before);
            }
        }
    }
}

#[test]
fn a_counter_charged_twice_in_one_chain_must_have_enough_for_both() {
    let (_, limiter) = limiter();
    for new in [true, false] {
        for limit in limits() {
            let rule = limiter.define(&format!("{new} {}", limit.kind().name()), limit);
            let id = limiter.identity("alice");
            if !new {
                limiter.check(&rule, id, 1).unwrap();
            }
            let most = limiter.peek(&rule, id).remaining;
            let take = |first, second| {
                let mut chain = Chain::new();
                chain.push(Charge::new(&rule, id).cost(first));
                chain.push(Charge::new(&rule, id).cost(second));
                limiter.take(&mut chain).is_admitted()
            };
            assert!(!take(most, 1), "{:?}", rule.limit().kind());
            assert_eq!(limiter.peek(&rule, id).remaining, most);
            assert!(take(most - 1, 1));
            assert_eq!(limiter.peek(&rule, id).remaining, 0);
        }
    }
}

/// Whether the counter is there or not: waiting does not help, and looking tells the same.
#[test]
fn a_chain_that_charges_a_counter_more_than_it_can_have_never_passes() {
    let (_, limiter) = limiter();
    for new in [true, false] {
        for limit in limits() {
            let rule = limiter.define(&format!("{new} {}", limit.kind().name()), limit);
            let (id, most) = (limiter.identity("alice"), rule.limit().capacity());
            if !new {
                limiter.check(&rule, id, 1).unwrap();
            }
            let mut chain = Chain::new();
            chain.push(Charge::new(&rule, id).cost(most - 2));
            chain.push(Charge::new(&rule, id).cost(3));
            let never = Verdict::Refused { by: 1, refusal: Refusal::Never };
            assert_eq!(limiter.take(&mut chain), never, "{new} {:?}", rule.limit().kind());
            limiter.look_at(&mut chain, limiter.clock().now());
            assert_eq!(chain.verdict(), never, "{new} {:?}", rule.limit().kind());
        }
    }
}

/// What only would have been refused is not charged, so it takes nothing from others in the chain.
#[test]
fn a_charge_that_is_only_observed_and_refused_costs_the_chain_nothing() {
    let (_, limiter) = limiter();
    for new in [true, false] {
        let rule = limiter.define(&format!("{new}"), bucket(1, 10));
        let id = limiter.identity("alice");
        if !new {
            limiter.check(&rule, id, 1).unwrap();
        }
        let mut chain = Chain::new();
        chain.push(Charge::new(&rule, id).cost(11).strategy(OnRefusal::Observe));
        chain.push(Charge::new(&rule, id).cost(5));
        assert!(limiter.take(&mut chain).is_admitted(), "{new}");
        assert_eq!((chain.is_charged(0), chain.is_charged(1)), (false, true));
    }
}

#[test]
fn the_longest_wait_is_reported_and_waiting_so_long_passes() {
    let (clock, limiter) = limiter();
    let fast = limiter.define("fast", bucket(10, 1));
    let slow = limiter.define("slow", bucket(1, 1));
    let id = limiter.identity("alice");
    let take = || {
        let mut chain = Chain::new();
        chain.push(Charge::new(&fast, id));
        chain.push(Charge::new(&slow, id));
        limiter.take(&mut chain)
    };
    assert_eq!(take(), Verdict::Admitted);
    let Verdict::Refused { by: 1, refusal } = take() else { panic!("slow refuses for longest") };
    assert_eq!(refusal.retry_after(), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(take(), Verdict::Admitted);
}

#[test]
fn a_chain_longer_than_any_shortcut_is_still_all_or_nothing() {
    let (_, limiter) = limiter();
    let rules: Vec<_> = (0..100).map(|i| limiter.define(&format!("{i}"), bucket(1, 5))).collect();
    let id = limiter.identity("alice");
    let take = |cost_of_last| {
        let mut chain = Chain::new();
        for rule in &rules[..99] {
            chain.push(Charge::new(rule, id));
        }
        chain.push(Charge::new(&rules[99], id).cost(cost_of_last));
        limiter.take(&mut chain)
    };
    assert_eq!(take(6), Verdict::Refused { by: 99, refusal: Refusal::Never });
    assert_eq!(take(1), Verdict::Admitted);
    assert!(rules.iter().all(|rule| limiter.peek(rule, id).remaining == 4));
}

#[test]
fn a_reset_counter_is_new() {
    let (_, limiter) = limiter();
    for limit in limits() {
        let rule = limiter.define(limit.kind().name(), limit);
        let id = limiter.identity("alice");
        limiter.check(&rule, id, 3).unwrap();
        limiter.reset(&rule, id);
        assert_eq!(limiter.peek(&rule, id).remaining, rule.limit().capacity());
    }
    assert_eq!(limiter.stats().held, 0);
}

/// Whoever stands behind others is told when they have all passed, however many windows that takes.
#[test]
fn waiting_behind_others_takes_as_long_as_they_do() {
    let minute = Rate::per_minute(10);
    let limits = [
        Limit::fixed_window(minute).build().unwrap(),
        Limit::sliding_window_log(minute).build().unwrap(),
        Limit::token_bucket(minute).burst(10).build().unwrap(),
    ];
    for limit in limits {
        for used in [0, 4, 10] {
            let (clock, limiter) = limiter();
            let (rule, id) = (limiter.define("all", limit.clone()), limiter.identity("all"));
            limiter.check(&rule, id, used).unwrap();
            let begin = clock.now();
            let told: Vec<_> =
                (0..45).map(|ahead| limiter.wait_behind(Charge::new(&rule, id), ahead)).collect();
            for (ahead, told) in told.into_iter().enumerate() {
                while let Err(refusal) = limiter.check(&rule, id, 1) {
                    clock.advance(refusal.retry_after().unwrap());
                }
                let kind = limit.kind();
                assert_eq!(told, Some(clock.now() - begin), "{kind:?}: {ahead} ahead, {used} used");
            }
        }
    }
}

/// Two limiters, one of which is asked the short way first.
#[test]
fn what_is_admitted_the_short_way_is_what_a_chain_admits() {
    for limit in limits() {
        let (clock, limiter) = limiter();
        let other = Limiter::with_clock(clock.clone(), 10_000);
        let (rule, same) = (limiter.define("r", limit.clone()), other.define("r", limit.clone()));
        let mut short = 0;
        for n in 0..300u64 {
            let (user, cost) = (n % 3, n % 4);
            let identity = limiter.identity(&user);
            let standing = limiter.admit_at(&rule, identity, cost, clock.now());
            short += u64::from(standing.is_some());
            let expected = other.decide(&same, other.identity(&user), cost);
            match standing {
                Some(standing) => {
                    assert_eq!(
                        (None, standing),
                        (expected.refusal, expected.standing),
                        "{limit:?}"
                    );
                }
                None => assert_eq!(limiter.decide(&rule, identity, cost), expected, "{limit:?}"),
            }
            clock.advance(Duration::from_millis(n * 37 % 250));
        }
        let is_log = limit == limits()[5];
        assert_eq!(short > 0, !is_log, "{limit:?}");
    }
}

/// One limit is skipped after all, the others stand; what was given back is not given back again with the rest.
#[test]
fn one_charge_of_a_chain_is_given_back_once() {
    let (_, limiter) = limiter();
    for limit in limits() {
        let name = limit.kind().name();
        let rules = ["own", "shared"]
            .map(|whose| limiter.define(&format!("{whose} {name}"), limit.clone()));
        let id = limiter.identity("alice");
        let left = || [0, 1].map(|nth| limiter.peek(&rules[nth], id).remaining);
        let before = left();
        let mut chain = Chain::new();
        for rule in &rules {
            chain.push(Charge::new(rule, id));
        }
        assert!(limiter.take(&mut chain).is_admitted());
        for _ in 0..2 {
            limiter.give_back_one(&mut chain, 0);
            assert_eq!(left(), [before[0], before[1] - 1], "{name}");
            assert_eq!([0, 1].map(|nth| chain.standing(nth).remaining), left());
            assert_eq!([0, 1].map(|nth| chain.is_charged(nth)), [false, true]);
        }
        limiter.give_back(&mut chain);
        assert_eq!(left(), before);
    }
}
