//! However nodes renew, spend, crash and lose answers, leased counters never admit more than their limit.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_engine::{Kind, Limit, Period, Rate};
use tollgate_policy::shapes::Consistency;
use tollgate_redis::driven::Driven;
use tollgate_redis::{Figures, Leases, Settings, Strict};

use crate::gated::{self, Counts, KEY, TERMS, Terms, is_admitted};
use crate::servers::{Brand, Server, calls, on_both, run};

const BEGIN: u64 = 1_767_225_600_000_000;

#[derive(Clone, Debug)]
enum Act {
    /// Asks to hold at least and at most so many; the answer may be lost on its way.
    Renew {
        least: u64,
        most: u64,
        is_lost: bool,
    },
    /// Spends so many hundredths of what it holds.
    Spend {
        hundredths: u64,
    },
    Crash,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    left: u64,
    granted: u64,
    mark: i64,
    until: u64,
}

fn acts(capacity: u64, span: u64) -> impl Strategy<Value = Vec<(u64, usize, Act)>> {
    let after = prop_oneof![3 => Just(0), 4 => 0..span / 20, 2 => 0..span, 1 => 0..3 * span];
    let act = prop_oneof![
        6 => (0..=capacity, 0..=capacity, proptest::bool::weighted(0.15)).prop_map(|(one, two, is_lost)| {
            Act::Renew { least: one.min(two), most: one.max(two), is_lost }
        }),
        8 => (0u64..=100).prop_map(|hundredths| Act::Spend { hundredths }),
        1 => Just(Act::Crash),
    ];
    proptest::collection::vec((after, 0usize..3, act), 10..80)
}

fn limits() -> impl Strategy<Value = Limit> {
    let rate = (1u64..2000, proptest::sample::select(&tollgate_engine::Window::ALL[..2]))
        .prop_map(|(tokens, window)| Rate::new(tokens, window));
    prop_oneof![
        4 => (rate.clone(), 1u64..500).prop_map(|(rate, capacity)| {
            Limit::token_bucket(rate).burst(capacity).build().unwrap()
        }),
        1 => rate.clone().prop_map(|rate| Limit::fixed_window(rate).build().unwrap()),
        1 => rate.prop_map(|rate| Limit::sliding_window(rate).build().unwrap()),
        1 => (1u64..1000).prop_map(|limit| Limit::quota(limit, Period::Day, "UTC").unwrap()),
    ]
}

/// Every interval between two charges is within what the limit promises.
fn assert_within(limit: &Limit, spent: &[(u64, u64)]) {
    let most = u128::from(limit.capacity());
    let window = limit.rate().map_or(86_400_000_000, |rate| rate.window().nanos() / 1000);
    for (first, &(from, _)) in spent.iter().enumerate() {
        let mut sum = 0u128;
        for &(at, tokens) in &spent[first..] {
            sum += u128::from(tokens);
            match limit.kind() {
                Kind::TokenBucket => {
                    let rate = u128::from(limit.rate().unwrap().tokens());
                    let scaled = sum.saturating_sub(most) * u128::from(window);
                    assert!(
                        scaled <= rate * u128::from(at - from),
                        "{sum} from {from} to {at}: {spent:?}"
                    );
                }
                _ if at / window == from / window => {
                    assert!(sum <= most, "{sum} in a window: {spent:?}");
                }
                _ => {}
            }
        }
    }
    if limit.kind() == Kind::SlidingWindow {
        for &(now, _) in spent {
            let of = |nth: u64| {
                let in_window = spent.iter().filter(|(at, _)| *at <= now && at / window == nth);
                in_window.map(|(_, tokens)| u128::from(*tokens)).sum::<u128>()
            };
            let (index, in_view) = (now / window, u128::from(window - now % window));
            let estimate = of(index - 1) * in_view + of(index) * u128::from(window);
            assert!(estimate <= most * u128::from(window), "at {now}: {spent:?}");
        }
    }
}

fn no_schedule_exceeds_the_limit(brand: Brand) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[13; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut all_spent = 0u64;
    for nth in 0..600 {
        let limit = limits().new_tree(&mut runner).unwrap().current();
        let figures = Figures::of(&limit).unwrap();
        let span = 1_000_000;
        let acts = acts(limit.capacity(), span).new_tree(&mut runner).unwrap().current();
        let (key, mut now) = (format!("lease/{nth}"), BEGIN + 977 * nth);
        let mut nodes = [Node { mark: -1, ..Node::default() }; 3];
        let mut spent = Vec::new();
        for (after, who, act) in &acts {
            now += after;
            let node = &mut nodes[*who];
            match *act {
                Act::Crash => *node = Node { mark: -1, ..Node::default() },
                Act::Spend { hundredths } if now < node.until => {
                    let tokens = node.left * hundredths / 100;
                    node.left -= tokens;
                    spent.push((now, tokens));
                }
                Act::Spend { .. } => {}
                Act::Renew { least, most, is_lost } => {
                    let unspent = if now < node.until { node.left.min(node.granted) } else { 0 };
                    let told = if node.granted == 0 {
                        (0, 0, -1)
                    } else {
                        (node.granted, unspent, node.mark)
                    };
                    let cmd = driven.lease(&key, &figures, [least, most], told, now);
                    let value: redis::Value = cmd.query(&mut connection).unwrap();
                    (node.granted, node.left) = (0, node.left.min(most));
                    if !is_lost {
                        let (holds, lives, mark) = driven.granted(&value).unwrap();
                        assert!(holds <= most.max(unspent));
                        *node = Node { left: holds, granted: holds, mark, until: now + lives };
                    }
                }
            }
        }
        spent.retain(|(_, tokens)| *tokens > 0);
        all_spent += spent.iter().map(|(_, tokens)| tokens).sum::<u64>();
        assert_within(&limit, &spent);
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert!(left != -1, "{key} never expires");
    }
    assert!(all_spent > 10_000, "the schedules spend something: {all_spent}");
}

fn bucket(capacity: u64) -> Figures {
    Figures::of(&Limit::token_bucket(Rate::per_day(1)).burst(capacity).build().unwrap()).unwrap()
}

async fn node(server: &Server) -> Leases {
    let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(10));
    let strict = Strict::start(settings);
    strict.up().await;
    Leases::new(strict, Duration::from_secs(20), 10_000)
}

/// Takes until it is refused twenty times, or `most`; tells how many were admitted.
async fn drain(leases: &Leases, figures: &Figures, most: u64) -> u64 {
    let (mut admitted, mut refused) = (0, 0);
    while refused < 20 && admitted < most {
        match leases.take("one", figures, 1).await.unwrap().is_allowed() {
            true => admitted += 1,
            false => refused += 1,
        }
    }
    admitted
}

fn nodes_together_admit_exactly_the_limit(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = bucket(20_000);
        let nodes = [node(&server).await, node(&server).await, node(&server).await];
        let drains = nodes.iter().map(|leases| {
            let (leases, limit) = (leases.clone(), limit.clone());
            tokio::spawn(async move { drain(&leases, &limit, u64::MAX).await })
        });
        let drains: Vec<_> = drains.collect();
        let mut admitted = 0;
        for drain in drains {
            admitted += drain.await.unwrap();
        }
        assert!(admitted <= 20_000, "{admitted}");
        for leases in &nodes {
            leases.close().await;
        }
        // What the others had left was returned, to the token.
        let last = node(&server).await;
        admitted += drain(&last, &limit, u64::MAX).await;
        assert_eq!(admitted, 20_000);
        let calls = calls(&server);
        assert!(calls < 2000, "slices spare calls: {calls} for {admitted} decisions");
    });
}

fn a_crash_strands_a_slice_and_nothing_more(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = bucket(5000);
        let crashed = node(&server).await;
        let before = drain(&crashed, &limit, 1000).await;
        // As kill -9 leaves it: nothing is returned, nothing is told.
        drop(crashed);
        let other = node(&server).await;
        let after = drain(&other, &limit, u64::MAX).await;
        other.close().await;
        assert!(before + after <= 5000);
        let left = |field| server.ask::<u64>(&["HGET", "one", field]);
        let stranded = 5000 - before - after - left("tokens");
        let slice = left("leased") + left("leased_before");
        assert!(stranded <= slice, "{stranded} stranded of a slice of {slice}");
    });
}

fn a_slice_outlasts_an_outage_but_not_its_end(brand: Brand) {
    let mut server = Server::start(brand);
    run(async {
        let limit = bucket(36_000);
        let leases = node(&server).await;
        drain(&leases, &limit, 2000).await;
        server.kill();
        let mut spent = 0;
        while leases.spend("one", 1) {
            spent += 1;
        }
        assert!(spent > 0, "what is held is spent without Redis");
        assert!(leases.take("one", &limit, 1).await.is_err());
    });
}

/// A request was charged in one window and is given back in the next, of which all is spent by then.
fn a_charge_is_not_given_back_to_another_window(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let consistency = Consistency::Lease;
        let terms = Terms { counts: Counts::Window, rate: (1, "second"), consistency, ..TERMS };
        let node = gated::Node::start(&server.url(), terms).await;
        let counter = node.counter();
        let window = || server.ask::<Option<u64>>(&["HGET", KEY, "window_start"]);
        loop {
            let all_of_a_window = async || loop {
                let charged = node.ask_for(&counter, 100).await;
                if is_admitted(charged) {
                    return charged;
                }
            };
            let first = all_of_a_window().await;
            let second = all_of_a_window().await;
            let begun = window();
            node.give_back(&counter, 100, second);
            let is_back = is_admitted(node.ask_for(&counter, 100).await);
            node.give_back(&counter, 100, first);
            let is_exceeded = is_admitted(node.ask_for(&counter, 100).await);
            // Where the window was over meanwhile they say nothing.
            if window() == begun {
                assert!(is_back, "what was charged in this window");
                assert!(!is_exceeded, "what was charged in another");
                return;
            }
        }
    });
}

/// A tenant's quota is one counter, under whichever plan its users are.
fn a_slice_of_one_limit_is_not_spent_under_another(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let free = Terms { counts: Counts::Quota, consistency: Consistency::Lease, ..TERMS };
        let pro = gated::Node::start(&server.url(), Terms { capacity: 1000, ..free }).await;
        let counter = pro.counter();
        let charged = pro.ask_for(&counter, 500).await;
        assert!(is_admitted(charged));
        pro.give_back(&counter, 100, charged);
        let free = pro.reloaded(free);
        assert!(!is_admitted(free.ask_for(&free.counter(), 1).await), "400 of 100 are used");
        assert!(is_admitted(pro.ask_for(&pro.counter(), 600).await), "400 of 1000 are");
    });
}

on_both! {
    two_limits => a_slice_of_one_limit_is_not_spent_under_another;
    another_window => a_charge_is_not_given_back_to_another_window;
    no_schedule => no_schedule_exceeds_the_limit;
    exactly => nodes_together_admit_exactly_the_limit;
    crash => a_crash_strands_a_slice_and_nothing_more;
    outage => a_slice_outlasts_an_outage_but_not_its_end;
}
