//! The first moments after an outage: nodes know too little of one another, and have something to tell.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{FakeClock, Limit, LimitError, Limiter, Rate, Time};
use tollgate_policy::shapes::Consistency;
use tollgate_redis::driven::{Account, News};

use crate::accounts::Desk;
use crate::gated::{Node, TERMS, Terms, hash, is_admitted};
use crate::newcomers;
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run, until};

/// Late enough that a test has asked before an answer comes.
const LATER: Duration = Duration::from_millis(100);

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// How much a node admits of each counter, asked for so much.
async fn drain(node: &Node, times: u64) -> [u64; NAMES.len()] {
    let mut admitted = [0; NAMES.len()];
    for (nth, name) in NAMES.iter().enumerate() {
        for _ in 0..times {
            let is_admitted = node.admits(name, hash(nth)).await;
            admitted[nth] += u64::from(is_admitted);
        }
    }
    admitted
}

fn left(server: &Server) -> Vec<Option<i64>> {
    let of = |name| server.ask(&["HGET", &format!("tollgate:ratelimit:{name}"), "tokens"]);
    NAMES.iter().map(of).collect()
}

/// A node's own counter is the whole limit. It was not told what the others spent of it in the outage, so until it is its share
/// goes on. What broke: it decided by its own counter as soon as the breaker closed.
fn a_node_that_was_not_told_goes_on_with_its_share(brand: Brand) {
    let server = Server::start(brand);
    let proxies = [Proxy::to(server.port()), Proxy::to(server.port())];
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, ..TERMS };
        let nodes = [
            Node::start(&proxies[0].url(), terms).await,
            Node::start(&proxies[1].url(), terms).await,
        ];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for node in &nodes {
            for (nth, name) in NAMES.iter().enumerate() {
                node.hears_of(name, hash(nth)).await;
            }
            assert_eq!(drain(node, 1).await, [1; NAMES.len()]);
        }
        let knows = |node: &Node| {
            NAMES.iter().enumerate().all(|(nth, name)| node.left_of(name, hash(nth)) == 98)
        };
        until("all know it", || nodes.iter().all(knows)).await;
        for (node, proxy) in nodes.iter().zip(&proxies) {
            proxy.cut();
            node.down().await;
        }
        for node in &nodes {
            assert_eq!(drain(node, 100).await, [49; NAMES.len()], "its share of what is left");
        }
        proxies[1].mend();
        until("the other has told it", || left(&server) == [Some(49); NAMES.len()]).await;
        proxies[0].delay(LATER);
        proxies[0].mend();
        nodes[0].up().await;
        assert_eq!(drain(&nodes[0], 100).await, [0; NAMES.len()]);
        proxies[0].delay(Duration::ZERO);
        until("all is told", || left(&server) == [Some(0); NAMES.len()]).await;
        assert_eq!(drain(&nodes[0], 10).await, [0; NAMES.len()]);
    });
}

/// Whoever can wait is decided by what Redis has.
fn requests_wait_for_the_first_answer(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let cut_off = newcomers::Node::start_at(&proxy.url(), newcomers::LONG).await;
        let other = newcomers::Node::start(&server, newcomers::LONG).await;
        until("they know of one another", || cut_off.shared.state().nodes == 2).await;
        assert_eq!((cut_off.burst(1).await, other.burst(1).await), (1, 1));
        let tokens = || {
            let key = server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).pop();
            key.and_then(|key| server.ask::<Option<i64>>(&["HGET", &key, "tokens"]))
        };
        until("all is told", || tokens() == Some(98)).await;
        proxy.cut();
        // It is in use all the while: nothing but the outage makes it old.
        let mut admitted = 1;
        while cut_off.shared.state().is_up {
            admitted += cut_off.burst(1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(other.burst(48).await, 48);
        until("the other has told it", || tokens().is_some_and(|left| left <= 50)).await;
        proxy.mend();
        until("Redis is up", || cut_off.shared.state().is_up).await;
        assert_eq!(admitted + cut_off.burst(newcomers::CAPACITY).await, 51, "what is left");
    });
}

/// A node is cut off for ten minutes in which others use half of the limit. What broke: it was charged all of that at once, so it
/// refused everybody for minutes, though Redis had half of the limit left.
fn a_node_that_comes_back_has_what_redis_has(brand: Brand) {
    let server = Server::start(brand);
    let limits: [fn() -> Result<Limit, LimitError>; 6] = [
        || Limit::token_bucket(Rate::per_second(100)).build(),
        || Limit::gcra(Rate::per_second(100)).build(),
        || Limit::leaky_bucket(Rate::per_second(100)).paced().build(),
        || Limit::fixed_window(Rate::per_minute(6000)).build(),
        || Limit::sliding_window(Rate::per_minute(6000)).build(),
        || Limit::sliding_window_log(Rate::per_minute(6000)).build(),
    ];
    for limit in limits {
        let limit = limit().unwrap();
        server.ask::<()>(&["FLUSHALL"]);
        let mut desk = Desk::of(&server, &limit);
        let clock = FakeClock::at(Time::from_nanos(1000 * desk.now));
        let limiter = Limiter::with_clock(clock.clone(), 100);
        let (rule, id) = (limiter.define("user", limit.clone()), limiter.identity("alice"));
        let (mut cut_off, mut other) = (Account::default(), Account::default());
        limiter.check(&rule, id, 1).unwrap();
        cut_off.consume(1);
        desk.sync("cut off", &mut cut_off).apply(&limiter, &rule, id);
        for _ in 0..630 {
            desk.now += 1_000_000;
            other.consume(50);
            desk.sync("other", &mut other);
        }
        clock.set(Time::from_nanos(1000 * desk.now));
        desk.sync("cut off", &mut cut_off).catch_up(&limiter, &rule, id);
        // What a node is told that knew nothing.
        let News::Left(rest) = desk.sync("new", &mut Account::default()) else { panic!() };
        let standing = limiter.peek(&rule, id);
        match limit.is_paced() {
            true => assert_eq!(standing.reset_after, Duration::from_millis(500)),
            false => assert_eq!(standing.remaining as i64, rest, "{limit:?}"),
        }
        assert!(rest > 0, "{limit:?}");
        // And what was too much stays so.
        other.consume(limit.capacity());
        desk.sync("other", &mut other);
        desk.sync("cut off", &mut cut_off).apply(&limiter, &rule, id);
        limiter.check(&rule, id, 1).unwrap_err();
    }
}

/// What a node admitted in an outage of a strict counter is charged before Redis is asked for more. What broke: with many counters
/// to tell of, Redis granted what it had to whoever asked before it was told.
fn what_is_owed_is_charged_first(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let node = Node::start(&proxy.url(), TERMS).await;
        let names: Vec<String> = (0..600).map(|nth| format!("many{nth}")).collect();
        let counters: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(nth, name)| node.counter_of(name, (nth as u128) << 64 | 7))
            .collect();
        let ask = async |cost| {
            let all = join_all(counters.iter().map(|counter| node.ask_for(counter, cost))).await;
            all.into_iter().filter(|answered| is_admitted(*answered)).count()
        };
        proxy.cut();
        node.down().await;
        assert_eq!(ask(100).await, names.len(), "it is alone: its share is all");
        proxy.delay(LATER);
        proxy.mend();
        node.up().await;
        assert_eq!(ask(1).await, 0);
        proxy.delay(Duration::ZERO);
        assert_eq!(node.shared.close().await, 0);
        for name in &names {
            let key = format!("tollgate:ratelimit:{name}");
            assert_eq!(server.ask::<i64>(&["HGET", &key, "tokens"]), 0, "it is charged once");
        }
    });
}

on_both! {
    lump => a_node_that_comes_back_has_what_redis_has;
    owed => what_is_owed_is_charged_first;
    share => a_node_that_was_not_told_goes_on_with_its_share;
    asked => requests_wait_for_the_first_answer;
}
