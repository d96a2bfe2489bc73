//! Several real gateways that count together in a real Redis or Valkey.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::Value;
use tollgate_policy::Sha256;

use crate::groups::Cluster;
use crate::servers::{Brand, Server, on_both};
use crate::support::{Load, Tollgate, Upstream, curl, eventually, get, stay_clear_of_midnight};

pub const KEY: &str = "key-of-ada";

/// How long a request waits for Redis where counts are exact: a busy machine is no reason to fall back.
pub const PATIENCE_MS: u64 = 20_000;

/// A node's file: what its upstream is, where Redis is, and what else is said of both.
pub fn file(upstream: &Upstream, redis: &Server, rest: &str) -> String {
    file_with(upstream, &format!("url: \"{}\"", redis.url()), rest)
}

/// The same, for a Redis that is reached in another way.
pub fn file_with(upstream: &Upstream, redis: &str, rest: &str) -> String {
    let ada = Sha256::of(KEY.as_bytes());
    format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
redis: {{ {redis}, timeout_ms: {PATIENCE_MS} }}
rate_limit_sync: {{ enabled: true, sync_interval_ms: 50 }}
keys: [ {{ id: ada, tenant: acme, user: ada, sha256: {ada} }} ]
{rest}",
        upstream.address,
    )
}

/// One limit of this consistency, besides nothing.
pub fn one_limit(consistency: &str, rate: u64) -> String {
    format!(
        "
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ a: {{ rate_limit: {{ algorithm: fixed_window, sustained: {{ rate: {rate}, window: day }}, scope: user,
    consistency: {consistency} }} }} }}
tenants: [ {{ id: acme, plan: a }} ]
"
    )
}

pub fn metric(gateway: &Tollgate, name: &str) -> f64 {
    let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {metrics}")).trim().parse().unwrap()
}

/// Nodes that can ask Redis, and know of one another.
pub fn nodes(count: usize, text: &str) -> Vec<Tollgate> {
    let nodes: Vec<Tollgate> = (0..count).map(|_| Tollgate::with(text)).collect();
    for node in &nodes {
        eventually("Redis is up and all nodes are known", || {
            metric(node, "tollgate_redis_up") == 1.0
                && metric(node, "tollgate_nodes") == count as f64
        });
    }
    nodes
}

/// Asks all nodes at once until each has refused a hundred times, and tells what reached the upstream.
fn exhaust(nodes: &[Tollgate], upstream: &Upstream, pause: Duration) -> u64 {
    let loads: Vec<Load> =
        nodes.iter().map(|node| Load::start(&node.address, KEY, (3, pause))).collect();
    for load in &loads {
        eventually("the limit is reached", || load.tally().refused.load(Relaxed) > 100);
    }
    for load in loads {
        let tally = load.stop();
        assert_eq!(tally.unavailable.load(Relaxed) + tally.other.load(Relaxed), 0, "{tally:?}");
    }
    upstream.count()
}

fn strict_admits_exactly_the_limit(brand: Brand) {
    stay_clear_of_midnight();
    let (redis, upstream) = (Server::start(brand), Upstream::new("", "ok"));
    let nodes = nodes(3, &file(&upstream, &redis, &one_limit("strict", 700)));
    assert_eq!(exhaust(&nodes, &upstream, Duration::ZERO), 700);
    // Legible, and with an end.
    let key = "tollgate:ratelimit:user:plan:a/acme/ada:day";
    assert_eq!(redis.ask::<u64>(&["HGET", key, "count"]), 700);
    assert!(redis.ask::<i64>(&["PTTL", key]) > 0);
    let refused = get(&nodes[0].url("/"), KEY);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["source"], "plan:a");
    let limits = nodes[1].api("/v1/limits?tenant=acme&user=ada", &[]).json();
    assert_eq!(
        (&limits["items"][0]["counter"], &limits["items"][0]["tokens"]),
        (&Value::from(key), &Value::from(0))
    );
    let body = serde_json::json!({ "tenant": "acme", "user": "ada", "counter": key });
    assert!(nodes[2].api("/v1/limits/reset", &["-d", &body.to_string()]).status < 300);
    assert_eq!(get(&nodes[0].url("/"), KEY).header("x-ratelimit-remaining"), "699");
    assert!(metric(&nodes[0], "tollgate_redis_seconds_count") > 0.0);
}

fn leases_admit_no_more_than_the_limit_and_are_returned(brand: Brand) {
    stay_clear_of_midnight();
    let (redis, upstream) = (Server::start(brand), Upstream::new("", "ok"));
    let mut nodes = nodes(3, &file(&upstream, &redis, &one_limit("lease", 5000)));
    // Some of it, over two nodes; then one stops, and what it held is there again.
    for node in &nodes[..2] {
        for _ in 0..25 {
            assert_eq!(get(&node.url("/"), KEY).status, 200);
        }
    }
    let count =
        || redis.ask::<u64>(&["HGET", "tollgate:ratelimit:user:plan:a/acme/ada:day", "count"]);
    let stopping = nodes.remove(0);
    stopping.stop();
    eventually("the other node is alone with its slice", || {
        metric(&nodes[0], "tollgate_nodes") == 2.0
    });
    assert!((50..5000).contains(&count()), "{}", count());
    let admitted = exhaust(&nodes, &upstream, Duration::ZERO);
    assert!(admitted <= 5000, "{admitted}");
    assert!(admitted > 4900, "what was returned could be spent: {admitted}");
    // Exact once all have stopped.
    nodes.into_iter().for_each(|node| drop(node.stop()));
    assert_eq!(count(), admitted);
}

fn hybrid_nodes_carry_what_was_too_much(brand: Brand) {
    stay_clear_of_midnight();
    let (redis, upstream) = (Server::start(brand), Upstream::new("", "ok"));
    let nodes = nodes(2, &file(&upstream, &redis, &one_limit("hybrid", 1000)));
    let admitted = exhaust(&nodes, &upstream, Duration::from_millis(30));
    // Three callers a node at 30 ms are 100 a second at most: in 2τ + d it is far less than this, which takes two and a half seconds.
    // Nodes that know nothing of one another admit 2000.
    assert!((1000..=1500).contains(&admitted), "{admitted}");
    // What others were seen to consume is told once, so it is asked for first.
    assert!(metric(&nodes[0], "tollgate_hybrid_overshoot_bound") > 0.0);
    assert!(metric(&nodes[0], "tollgate_hybrid_staleness_seconds") >= 0.1, "2τ");
    assert_eq!(metric(&nodes[0], "tollgate_hybrid_counters"), 1.0);
    // All has been told by the time both have stopped.
    nodes.into_iter().for_each(|node| drop(node.stop()));
    let count: u64 = redis.ask(&["HGET", "tollgate:ratelimit:user:plan:a/acme/ada:day", "count"]);
    assert_eq!(count, admitted);
}

/// Each node decides by a counter of its own.
fn a_hybrid_counter_is_reset_on_all_nodes(brand: Brand) {
    stay_clear_of_midnight();
    let (redis, upstream) = (Server::start(brand), Upstream::new("", "ok"));
    let nodes = nodes(2, &file(&upstream, &redis, &one_limit("hybrid", 20)));
    for node in &nodes {
        eventually("the limit is reached", || get(&node.url("/"), KEY).status == 429);
    }
    let key = "tollgate:ratelimit:user:plan:a/acme/ada:day";
    let body = serde_json::json!({ "tenant": "acme", "user": "ada", "counter": key });
    assert!(nodes[0].api("/v1/limits/reset", &["-d", &body.to_string()]).status < 300);
    for node in &nodes {
        eventually("it is new", || get(&node.url("/"), KEY).status == 200);
    }
}

on_both! {
    reset => a_hybrid_counter_is_reset_on_all_nodes;
    strict => strict_admits_exactly_the_limit;
    lease => leases_admit_no_more_than_the_limit_and_are_returned;
    hybrid => hybrid_nodes_carry_what_was_too_much;
    mixed => a_refusal_by_the_last_gives_back_what_all_others_were_charged;
    mixed_cluster => the_same_in_a_cluster;
}

fn a_refusal_by_the_last_gives_back_what_all_others_were_charged(brand: Brand) {
    let redis = Server::start(brand);
    refused_by_the_last(&format!("url: \"{}\"", redis.url()));
}

/// Every counter may be on another server.
fn the_same_in_a_cluster(brand: Brand) {
    let cluster = Cluster::start(brand);
    refused_by_the_last(&format!("url: \"{}\", mode: cluster", cluster.url()));
    let has_counters =
        |server: &Server| !server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).is_empty();
    let used = cluster.servers().iter().filter(|server| has_counters(server)).count();
    assert!(used > 1, "the chain spans servers");
}

fn refused_by_the_last(redis: &str) {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let rest = "
routes:
  - { path: /strict, upstream: api, rate_limit: { algorithm: fixed_window, sustained: { rate: 3, window: day },
      consistency: strict } }
  - { path: /alone, upstream: api, rate_limit: { algorithm: fixed_window, sustained: { rate: 2, window: day },
      consistency: lease } }
plans:
  a:
    rate_limit: { algorithm: fixed_window, sustained: { rate: 100, window: day }, scope: user, consistency: lease }
    quota: { limit: 1000, window: year }
tenants:
  - { id: acme, plan: a, rate_limit: { algorithm: fixed_window, sustained: { rate: 90, window: day },
      consistency: local } }
  - { id: system, rate_limit: { sharing: enforce, algorithm: fixed_window, sustained: { rate: 80, window: day },
      consistency: hybrid } }
";
    let nodes = nodes(1, &file_with(&upstream, redis, rest));
    let node = &nodes[0];
    let answers: Vec<u16> = (0..20).map(|_| get(&node.url("/strict"), KEY).status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 3, "{answers:?}");
    assert!(answers[3..].iter().all(|status| *status == 429));
    assert_eq!(upstream.count(), 3);
    let limits = node.api("/v1/limits?tenant=acme&user=ada&route=GET%20/strict", &[]).json();
    let of = |limits: &Value, source: &str, window: &str| {
        let items = limits["items"].as_array().unwrap();
        let found = items.iter().find(|l| l["source"] == source && l["window"] == window);
        found.unwrap_or_else(|| panic!("{source} {window} in {limits}"))["tokens"].as_u64().unwrap()
    };
    assert_eq!(of(&limits, "route:/strict", "day"), 0);
    assert_eq!(of(&limits, "plan:a", "day"), 97, "leased");
    assert_eq!(of(&limits, "plan:a", "year"), 997, "a quota, leased");
    assert_eq!(of(&limits, "tenant:acme", "day"), 77, "local, folded with its parent's");
    assert_eq!(of(&limits, "tenant:system", "day"), 77, "hybrid");
    // A leased limit that refuses: the others are given back too.
    let answers: Vec<u16> = (0..10).map(|_| get(&node.url("/alone"), KEY).status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 2, "{answers:?}");
    let limits = node.api("/v1/limits?tenant=acme&user=ada&route=GET%20/alone", &[]).json();
    assert_eq!((of(&limits, "route:/alone", "day"), of(&limits, "plan:a", "day")), (0, 95));
    assert_eq!(of(&limits, "tenant:system", "day"), 75, "hybrid");
}

#[test]
fn strategies_hold_wherever_a_counter_is_kept() {
    stay_clear_of_midnight();
    let (redis, upstream) = (Server::start(Brand::Redis), Upstream::new("", "ok"));
    let limit = |path: &str, rate: &str, rest: &str| {
        format!(
            "  - {{ path: {path}, upstream: api, rate_limit: {{ sustained: {{ {rate} }}, {rest} }} }}\n"
        )
    };
    let once = "rate: 1, window: day";
    let mut rest =
        "tenants: [ { id: acme } ]\ndefaults: { client: null, tenant: null }\nroutes:\n".to_owned();
    for mode in ["strict", "lease"] {
        rest += &limit(
            &format!("/{mode}/queue"),
            "rate: 20",
            &format!(
                "burst: {{ capacity: 1 }}, strategy: queue, queue: {{ max_wait_ms: 20000 }}, consistency: {mode}"
            ),
        );
        rest += &limit(
            &format!("/{mode}/short"),
            once,
            &format!("strategy: queue, consistency: {mode}"),
        );
        rest += &limit(
            &format!("/{mode}/degrade"),
            once,
            &format!("strategy: degrade, consistency: {mode}"),
        );
        rest += &limit(
            &format!("/{mode}/observe"),
            once,
            &format!("strategy: observe, consistency: {mode}"),
        );
    }
    let nodes = nodes(1, &file(&upstream, &redis, &rest));
    let node = &nodes[0];
    for mode in ["strict", "lease"] {
        let url = |what: &str| node.url(&format!("/{mode}/{what}"));
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..6).map(|_| scope.spawn(|| get(&url("queue"), KEY).status)).collect();
            for waited in waiting {
                assert_eq!(waited.join().unwrap(), 200, "{mode}: all have their turn");
            }
        });
        assert_eq!(get(&url("short"), KEY).status, 200);
        let refused = get(&url("short"), KEY);
        assert_eq!(refused.status, 429, "{mode}: a day is too long to wait");
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 3600);
        for what in ["degrade", "observe"] {
            let first = get(&url(what), KEY);
            assert!(first.status == 200 && !first.has("x-ratelimit-degraded"), "{first:?}");
            let second = get(&url(what), KEY);
            assert_eq!(second.status, 200, "{mode} {what}");
            assert_eq!(second.has("x-ratelimit-degraded"), what == "degrade", "{mode} {what}");
        }
    }
}

#[test]
fn a_limit_that_redis_cannot_count_is_refused_by_line_and_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    let check = |limit: &str| {
        let text = format!(
            "rate_limit_sync: {{ enabled: true }}\nplans:\n  a:\n    rate_limit: {limit}\n"
        );
        std::fs::write(&path, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = command.args(["check", path.to_str().unwrap()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) =
        check("{ sustained: { rate: 1, window: day }, burst: { capacity: 1000000 } }");
    assert_eq!(code, Some(78));
    assert!(
        said.contains("tollgate.yaml:4:") && said.contains("write a capacity of at most 36600"),
        "{said}"
    );
    let log = "{ algorithm: sliding_window_log, sustained: { rate: 10 }, consistency: lease }";
    let (code, said) = check(log);
    assert_eq!(code, Some(78));
    assert!(said.contains("tollgate.yaml:4:") && said.contains("cannot be leased"), "{said}");
    let local =
        "{ sustained: { rate: 1, window: day }, burst: { capacity: 1000000 }, consistency: local }";
    assert_eq!(check(local).0, Some(0));
}
