//! Redis paused, killed, restarted empty, and not there at the start: what becomes of requests.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::groups::Watched;
use crate::servers::{Brand, Server, on_both};
use crate::sharing::{KEY, PATIENCE_MS, file, file_with, metric, nodes, one_limit};
use crate::support::{Load, Tollgate, Upstream, eventually, get, stay_clear_of_midnight};

fn with(upstream: &Upstream, redis: &Server, fallback: &str, rest: &str) -> String {
    let sync = format!("enabled: true, fallback_on_error: {fallback}, ");
    impatient(&file(upstream, redis, rest).replace("enabled: true, ", &sync))
}

/// By which requests do not wait long for a Redis that is in trouble.
fn impatient(file: &str) -> String {
    file.replace(&format!("timeout_ms: {PATIENCE_MS}"), "timeout_ms: 1000")
}

fn a_paused_server_costs_one_wait_and_then_the_fallback_decides(brand: Brand) {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    for (fallback, status) in [("local_only", 200), ("fail_open", 200), ("fail_closed", 503)] {
        for consistency in ["strict", "lease", "hybrid"] {
            let redis = Server::start(brand);
            let text = with(&upstream, &redis, fallback, &one_limit(consistency, 100_000));
            let nodes = nodes(1, &text);
            let node = &nodes[0];
            assert_eq!(get(&node.url("/"), KEY).status, 200);
            redis.ask::<()>(&["CLIENT", "PAUSE", "20000", "ALL"]);
            let load = Load::start(&node.address, KEY, (2, Duration::from_millis(1)));
            // A leased slice is spent to its end first.
            eventually("the breaker opens", || metric(node, "tollgate_redis_up") == 0.0);
            eventually("the fallback decides", || {
                metric(node, "tollgate_redis_fallbacks_total") > 0.0
            });
            let tally = load.stop();
            assert_eq!(tally.other.load(Relaxed) + tally.refused.load(Relaxed), 0, "{tally:?}");
            if status == 200 {
                assert_eq!(
                    tally.unavailable.load(Relaxed),
                    0,
                    "{consistency} {fallback} {tally:?}"
                );
            }
            // From now on nobody waits: of thirty requests each would have waited a second.
            let begin = Instant::now();
            for _ in 0..30 {
                let answer = get(&node.url("/"), KEY);
                assert_eq!(answer.status, status, "{consistency} {fallback} {answer:?}");
                if status == 503 {
                    assert_eq!(answer.header("retry-after"), "1");
                    assert_eq!(answer.header("content-type"), "application/problem+json");
                }
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        }
    }
}

/// A chain of every mode: hybrid, two leased ones of which nothing is held yet, and two strict ones.
fn of_every_mode(rate: u64) -> String {
    let limit = |consistency: &str| {
        format!(
            "{{ algorithm: fixed_window, sustained: {{ rate: {rate}, window: day }}, consistency: {consistency} }}"
        )
    };
    let (strict, lease, hybrid) = (limit("strict"), limit("lease"), limit("hybrid"));
    format!(
        "
routes: [ {{ path: \"/*\", upstream: api, rate_limit: {strict} }} ]
plans: {{ a: {{ rate_limit: {lease}, quota: {{ limit: {rate}, window: year }} }} }}
tenants:
  - {{ id: acme, plan: a, parent: part, rate_limit: {hybrid} }}
  - {{ id: part, rate_limit: {enforced} }}
",
        enforced = strict.replace("{ algo", "{ sharing: enforce, algo")
    )
}

/// Whichever of its counters it has to ask for, all of them together cost a request `timeout_ms` once.
fn a_chain_of_every_mode_waits_once(brand: Brand) {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    for (fallback, status) in [("local_only", 200), ("fail_open", 200), ("fail_closed", 503)] {
        let redis = Server::start(brand);
        let text = with(&upstream, &redis, fallback, &of_every_mode(100_000));
        // Twice would be ten seconds: that is told apart from once on the busiest machine.
        let nodes = nodes(1, &text.replace("timeout_ms: 1000", "timeout_ms: 5000"));
        redis.ask::<()>(&["CLIENT", "PAUSE", "120000", "ALL"]);
        std::thread::scope(|scope| {
            let ask = || {
                let begin = Instant::now();
                (get(&nodes[0].url("/"), KEY), begin.elapsed())
            };
            let callers: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            for caller in callers {
                let (answer, took) = caller.join().unwrap();
                assert_eq!(answer.status, status, "{fallback} {answer:?}");
                assert!(took < Duration::from_secs(9), "{fallback}: {took:?}");
            }
        });
        assert_eq!(metric(&nodes[0], "tollgate_redis_up"), 0.0, "it was asked, and did not answer");
    }
}

/// The primary is killed under load, and a sentinel makes its replica the primary: nobody is answered 5xx, and the new one counts.
fn a_failover_fails_no_request(brand: Brand) {
    stay_clear_of_midnight();
    let (mut watched, upstream) = (Watched::start(brand, "billing"), Upstream::new("", "ok"));
    let redis = format!("url: \"{}\", mode: sentinel, master: billing", watched.url());
    let text = file_with(&upstream, &redis, &of_every_mode(1_000_000));
    let nodes = nodes(2, &impatient(&text));
    let loads: Vec<Load> = nodes
        .iter()
        .map(|node| Load::start(&node.address, KEY, (2, Duration::from_millis(2))))
        .collect();
    let passed = |load: &Load| load.tally().passed.load(Relaxed);
    for load in &loads {
        eventually("it passes", || passed(load) > 50);
    }
    watched.primary.kill();
    for node in &nodes {
        eventually("the breaker opens", || {
            metric(node, "tollgate_redis_breaker_opened_total") > 0.0
        });
    }
    for (node, load) in nodes.iter().zip(&loads) {
        eventually("there is a primary", || metric(node, "tollgate_redis_up") == 1.0);
        let before = passed(load);
        eventually("it passes", || passed(load) > before + 50);
    }
    for load in loads {
        let tally = load.stop();
        let failed = tally.other.load(Relaxed) + tally.unavailable.load(Relaxed);
        assert_eq!(failed + tally.refused.load(Relaxed) + tally.lost.load(Relaxed), 0, "{tally:?}");
    }
    // What was admitted without it may still be told to it for a while. Then each request is one more.
    let count = || -> u64 {
        let keys: Vec<String> =
            watched.replica.ask(&["KEYS", "tollgate:ratelimit:tenant:tenant:part*"]);
        watched.replica.ask(&["HGET", &keys[0], "count"])
    };
    eventually("each is counted", || {
        let before = count();
        (0..10).for_each(|_| assert_eq!(get(&nodes[0].url("/"), KEY).status, 200));
        count() == before + 10
    });
}

fn an_outage_grants_each_node_its_share_and_nobody_gets_it_twice(brand: Brand) {
    stay_clear_of_midnight();
    for consistency in ["strict", "lease", "hybrid"] {
        let (mut redis, upstream) = (Server::start(brand), Upstream::new("", "ok"));
        let text = with(&upstream, &redis, "local_only", &one_limit(consistency, 400));
        let nodes = nodes(2, &text);
        for node in &nodes {
            assert_eq!(get(&node.url("/"), KEY).status, 200);
        }
        redis.kill();
        eventually("the breaker opens", || {
            get(&nodes[0].url("/"), KEY);
            metric(&nodes[0], "tollgate_redis_fallbacks_total") > 0.0
        });
        // One of the two is asked for everything: it has half, and what was there before.
        let load = Load::start(&nodes[0].address, KEY, (2, Duration::ZERO));
        eventually("its share is used up", || load.tally().refused.load(Relaxed) > 50);
        let tally = load.stop();
        assert_eq!(tally.other.load(Relaxed) + tally.unavailable.load(Relaxed), 0, "{tally:?}");
        let alone = upstream.count();
        assert!((150..=230).contains(&alone), "{consistency}: {alone}");
        // It comes back empty, and is told what was admitted meanwhile.
        assert!(redis.try_start());
        for node in &nodes {
            eventually("Redis is up", || metric(node, "tollgate_redis_up") == 1.0);
        }
        eventually("it is told", || {
            let key = "tollgate:ratelimit:user:plan:a/acme/ada:day";
            let count: Option<u64> = redis.ask(&["HGET", key, "count"]);
            // A node that leases pays from what it is granted, when it is asked again.
            get(&nodes[0].url("/"), KEY);
            count.is_some_and(|count| count >= alone - 30)
        });
        let loads: Vec<Load> = nodes
            .iter()
            .map(|node| Load::start(&node.address, KEY, (2, Duration::from_millis(4))))
            .collect();
        for load in &loads {
            eventually("the limit is reached", || load.tally().refused.load(Relaxed) > 100);
        }
        for load in loads {
            let tally = load.stop();
            assert_eq!(tally.other.load(Relaxed) + tally.unavailable.load(Relaxed), 0, "{tally:?}");
        }
        // What one node admitted and Redis forgot when it was killed; of hybrid, what is not yet told besides.
        let most = if consistency == "hybrid" { 400 + 250 } else { 400 + 30 };
        let all = upstream.count();
        assert!(all <= most && all >= 370, "{consistency}: {all}");
    }
}

on_both! {
    paused => a_paused_server_costs_one_wait_and_then_the_fallback_decides;
    chain => a_chain_of_every_mode_waits_once;
    failover => a_failover_fails_no_request;
    outage => an_outage_grants_each_node_its_share_and_nobody_gets_it_twice;
}

#[test]
fn a_gateway_starts_without_redis_and_uses_it_when_it_comes() {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let mut redis = Server::start(Brand::Redis);
    redis.kill();
    let node = Tollgate::with(&with(&upstream, &redis, "local_only", &one_limit("strict", 50)));
    assert_eq!(metric(&node, "tollgate_redis_up"), 0.0);
    for left in (40..50).rev() {
        let answer = get(&node.url("/"), KEY);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    assert!(redis.try_start());
    eventually("Redis is up", || metric(&node, "tollgate_redis_up") == 1.0);
    eventually("it is told of the ten", || {
        let key = "tollgate:ratelimit:user:plan:a/acme/ada:day";
        redis.ask::<Option<u64>>(&["HGET", key, "count"]) == Some(10)
    });
    assert_eq!(get(&node.url("/"), KEY).header("x-ratelimit-remaining"), "39");
    node.stop();
}

/// What a gateway has said of limits in Redis: how often that it cannot count there, and that it can again.
fn told_of_redis(said: &str) -> [usize; 2] {
    ["cannot be counted in Redis", "are counted in Redis again"]
        .map(|line| said.matches(line).count())
}

/// Its log was empty, whatever became of requests meanwhile.
#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let (mut redis, upstream) = (Server::start(Brand::Redis), Upstream::new("", "ok"));
    let text = with(&upstream, &redis, "fail_open", &one_limit("strict", 50));
    // A busy machine is no second outage.
    let mut node = nodes(1, &text.replace("timeout_ms: 1000", "timeout_ms: 10000")).remove(0);
    redis.kill();
    let mut said = node.said_until("cannot be counted in Redis");
    for right in ["ERROR", "requests pass uncounted (`fallback_on_error: fail_open`)"] {
        assert!(said.contains(right), "{said}");
    }
    assert_eq!(told_of_redis(&said), [1, 0], "{said}");
    assert!(redis.try_start());
    said += &node.said_until("are counted in Redis again");
    said += &node.said();
    assert_eq!(told_of_redis(&said), [1, 1], "{said}");
}

#[test]
fn a_redis_that_never_came_up_is_told_of_without_its_password() {
    let upstream = Upstream::new("", "ok");
    // Whoever connects hears nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap().to_string();
    let redis = format!("url: \"redis://gate:open-sesame@{place}/3\"");
    let mut node = Tollgate::with(&file_with(&upstream, &redis, &one_limit("strict", 50)));
    let said = node.said_until("cannot be counted in Redis");
    for right in [&*place, "each node counts alone", "tollgate doctor"] {
        assert!(said.contains(right), "{said}");
    }
    let said = said + &node.said();
    assert_eq!(told_of_redis(&said), [1, 0], "{said}");
    assert!(!said.contains("sesame"), "{said}");
}
