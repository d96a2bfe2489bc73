//! Redis paused, killed, restarted empty, and not there at the start: what becomes of requests.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::servers::{Brand, Server, on_both};
use crate::sharing::{KEY, file, metric, nodes, one_limit};
use crate::support::{Load, Tollgate, Upstream, eventually, get, stay_clear_of_midnight};

fn with(upstream: &Upstream, redis: &Server, fallback: &str, rest: &str) -> String {
    let sync = format!("enabled: true, fallback_on_error: {fallback}, ");
    file(upstream, redis, rest).replace("enabled: true, ", &sync)
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
