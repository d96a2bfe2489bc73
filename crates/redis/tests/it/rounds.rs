//! When hybrid counters are told: at once after a rest, never all at the same moment, and what that says of the bound.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_engine::{Limit, Limiter, Rate, Rule};
use tollgate_redis::{Figures, Hybrid, Leases, Settings, Strict};

use crate::hybrid::node_telling_every;
use crate::servers::{Brand, Server, calls, on_both, run, until};

const HOUR: Duration = Duration::from_secs(3600);

/// After an outage every counter is due. Requests come the same way, and have a deadline.
fn many_are_due(brand: Brand) {
    const MANY: usize = 10_000;
    let mut server = Server::start(brand);
    server.kill();
    run(async {
        let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(30));
        let strict = Strict::start(settings);
        let limiter = Arc::new(Limiter::new());
        let hybrid = Hybrid::start(strict.clone(), Arc::clone(&limiter), (HOUR, 10 * MANY));
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let rule = limiter.define("user", limit);
        for nth in 0..MANY {
            let id = limiter.identity(&nth);
            limiter.check(&rule, id, 1).unwrap();
            assert!(hybrid.consumed(&format!("user/{nth}"), (&rule, id), &figures, 1));
        }
        assert_eq!(hybrid.in_use(), MANY);
        // Before the first can be told.
        let begin = Instant::now();
        assert!(server.try_start());
        strict.up().await;
        until("all are told", || server.ask::<usize>(&["DBSIZE"]) == MANY).await;
        let took = begin.elapsed().as_secs_f64();
        let calls: u64 = strict.took().buckets.iter().map(|(_, count)| count).sum();
        let each = strict.took().seconds / calls as f64;
        assert!(each < took / 10.0, "a call waited {each} s of {took} s: {calls} calls");
        assert_eq!(strict.times_opened(), 0);
    });
}

/// And what a node that stops has to tell.
fn first_charges_are_told_at_once(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (one, of_one, rule) = node_telling_every(HOUR, &server, &limit).await;
        let id = of_one.identity("alice");
        assert!(one.consumed("alice", (&rule, id), &figures, 3));
        let total = || server.ask::<Option<i64>>(&["HGET", "alice", "total"]);
        until("the first charge is told", || total() == Some(3)).await;
        one.consumed("alice", (&rule, id), &figures, 4);
        one.close().await;
        assert_eq!(total(), Some(7));
    });
}

fn the_bound_is_measured(brand: Brand) {
    let server = Server::start(brand);
    let interval = Duration::from_millis(20);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(10_000).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (one, of_one, rule_one) = node_telling_every(interval, &server, &limit).await;
        let (two, of_two, rule_two) = node_telling_every(interval, &server, &limit).await;
        let (id_one, id_two) = (of_one.identity("alice"), of_two.identity("alice"));
        assert_eq!(two.staleness(), 2 * interval);
        assert_eq!((two.overshoot(), two.round_trip()), (0, Duration::ZERO));
        two.consumed("alice", (&rule_two, id_two), &figures, 1);
        let total = || server.ask::<Option<i64>>(&["HGET", "alice", "total"]);
        until("it is told", || total() == Some(1)).await;
        until("it is answered", || two.round_trip() > Duration::ZERO).await;
        assert_eq!(two.overshoot(), 0, "nobody else consumed anything");
        one.consumed("alice", (&rule_one, id_one), &figures, 5000);
        // It is in use meanwhile: what rests learns nothing until it is asked for.
        until("it is known", || {
            two.consumed("alice", (&rule_two, id_two), &figures, 0);
            of_two.peek(&rule_two, id_two).remaining <= 5000
        })
        .await;
        let (bound, trip) = (two.overshoot(), two.round_trip());
        assert!(bound > 0 && trip > Duration::ZERO, "{bound} in {trip:?}");
        assert!(two.overshoot() >= bound && two.round_trip() >= trip, "whoever else reads it");
    });
}

/// Most callers of a public service come once. What broke: each of them cost 66 scripts until it was forgotten.
fn a_counter_that_rests_is_not_asked_for(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (node, limiter, rule) =
            node_telling_every(Duration::from_millis(5), &server, &limit).await;
        let id = limiter.identity("alice");
        node.consumed("alice", (&rule, id), &figures, 3);
        until("it is forgotten", || node.in_use() == 0).await;
        assert_eq!(server.ask::<i64>(&["HGET", "alice", "total"]), 3);
        let asked = calls(&server);
        assert!(asked <= 8, "{asked} scripts");
    });
}

/// A way to a server, and a limit of which each user has a counter.
async fn with_a_limit(server: &Server) -> (Strict, Arc<Limiter>, Arc<Rule>, Arc<Figures>) {
    let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
    let figures = Arc::new(Figures::of(&limit).unwrap());
    let strict = Strict::start(Settings::new(&server.url()).unwrap().timeout(HOUR));
    strict.up().await;
    let limiter = Arc::new(Limiter::new());
    let rule = limiter.define("user", limit);
    (strict, limiter, rule, figures)
}

/// A small `max_keys` is not divided into shards of one or two, some of which are full while others are empty.
fn few_counters_have_room(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (strict, limiter, rule, figures) = with_a_limit(&server).await;
        let hybrid = Hybrid::start(strict.clone(), Arc::clone(&limiter), (HOUR, 200));
        let leases = Leases::new(strict, HOUR, 200);
        let mut shared = 0;
        for nth in 0..200 {
            let (key, id) = (format!("user/{nth}"), limiter.identity(&nth));
            shared += u32::from(hybrid.consumed(&key, (&rule, id), &figures, 1));
            shared += u32::from(leases.take(&format!("leased/{nth}"), &figures, 1).await.is_ok());
        }
        assert_eq!(shared, 400);
        let id = limiter.identity("another");
        assert!(!hybrid.consumed("another", (&rule, id), &figures, 1));
        assert_eq!(hybrid.unshared(), 1);
        assert!(leases.take("another", &figures, 1).await.is_err());
    });
}

/// What broke: counters that nobody used any more filled `max_keys` for minutes, and each node granted the whole limit of every other.
fn counters_that_rest_make_room(brand: Brand) {
    const MOST: usize = 200;
    let server = Server::start(brand);
    run(async {
        let (strict, limiter, rule, figures) = with_a_limit(&server).await;
        // Long enough that none is forgotten by itself meanwhile.
        let interval = Duration::from_millis(500);
        let hybrid = Hybrid::start(strict, Arc::clone(&limiter), (interval, MOST));
        let consume = |key: &str| hybrid.consumed(key, (&rule, limiter.identity(key)), &figures, 1);
        for nth in 0..MOST {
            assert!(consume(&format!("user/{nth}")));
        }
        until("some of them rest", || consume("another")).await;
        let total = || server.ask::<Option<i64>>(&["HGET", "another", "total"]);
        until("it is told", || total() == Some(1)).await;
    });
}

on_both! {
    makes_room => counters_that_rest_make_room;
    resting => a_counter_that_rests_is_not_asked_for;
    few => few_counters_have_room;
    burst => many_are_due;
    at_once => first_charges_are_told_at_once;
    bound => the_bound_is_measured;
}
