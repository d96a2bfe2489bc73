//! Quotas: balances that neither a restart nor a crash gives back.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_engine::{Limit, Period, Time};
use tollgate_policy::Sha256;
use tollgate_storage::{Embedded, block};

use crate::integrity::integrity;
use crate::support::{Load, Tollgate, Upstream, curl, eventually, get};

/// Two users of one tenant.
const KEYS: [&str; 2] = ["key-of-ada", "key-of-bob"];

fn file(upstream: &str, plans: &str, rest: &str) -> String {
    let [ada, bob] = KEYS.map(|key| Sha256::of(key.as_bytes()).to_string());
    format!(
        "
upstreams: {{ api: {{ url: \"http://{upstream}\", connect_timeout_ms: 500 }} }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /dear, upstream: api, rate_limit: {{ cost: 7 }} }}
plans: {{ {plans} }}
tenants: [ {{ id: acme, plan: a }} ]
keys:
  - {{ id: ada, tenant: acme, user: ada, sha256: {ada} }}
  - {{ id: bob, tenant: acme, user: bob, sha256: {bob} }}
{rest}"
    )
}

fn remaining(gateway: &Tollgate, path: &str, key: &str) -> u64 {
    let answer = get(&gateway.url(path), key);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("x-ratelimit-remaining-year").parse().unwrap()
}

const YEAR: &str = "a: { quota: { limit: 1000, window: year } }";

#[test]
fn a_clean_stop_and_another_plan_keep_exactly_what_was_used() {
    let upstream = Upstream::new("", "ok");
    let address = upstream.address.to_string();
    let gateway = Tollgate::with(&file(&address, YEAR, ""));
    for used in 1..=25 {
        assert_eq!(remaining(&gateway, "/", KEYS[0]), 1000 - used);
    }
    assert_eq!(remaining(&gateway, "/dear", KEYS[0]), 1000 - 26, "it counts requests");
    let folder = gateway.stop();

    let gateway = Tollgate::again(folder);
    assert_eq!(remaining(&gateway, "/", KEYS[0]), 1000 - 27, "nothing was stranded");
    assert_eq!(remaining(&gateway, "/", KEYS[1]), 1000 - 1, "another user has another balance");

    // Another plan with another limit: what was used is used.
    let text = file(&address, "a: { quota: { limit: 50, window: year } }", "");
    gateway.rewrite(&text);
    gateway.wait_for("a new configuration is in force");
    assert_eq!(remaining(&gateway, "/", KEYS[0]), 50 - 28);
    let text = file(&address, "a: { quota: { limit: 20, window: year } }", "");
    gateway.rewrite(&text);
    gateway.wait_for("a new configuration is in force");
    let refused = get(&gateway.url("/"), KEYS[0]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["source"], "plan:a");
    assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    let folder = gateway.stop();
    let plans =
        "a: { quota: { limit: 9, window: year } }, b: { quota: { limit: 100, window: year } }";
    let text = file(&address, plans, "").replace("plan: a", "plan: b");
    std::fs::write(
        folder.path().join("tollgate.yaml"),
        format!("{}{text}", crate::support::SERVER),
    )
    .unwrap();
    let gateway = Tollgate::again(folder);
    assert_eq!(remaining(&gateway, "/", KEYS[0]), 100 - 29, "a refusal used nothing");
}

#[test]
fn a_tenants_tokens_are_one_balance_of_all_its_users() {
    let upstream = Upstream::new("", "ok");
    let plans = "a: { quota: { limit: 100, window: year, scope: tenant, unit: tokens } }";
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), plans, ""));
    assert_eq!(remaining(&gateway, "/dear", KEYS[0]), 93);
    assert_eq!(remaining(&gateway, "/dear", KEYS[1]), 86);
    for _ in 0..12 {
        remaining(&gateway, "/dear", KEYS[0]);
    }
    assert_eq!(get(&gateway.url("/dear"), KEYS[1]).status, 429, "2 are left");
    let gateway = Tollgate::again(gateway.stop());
    assert_eq!(remaining(&gateway, "/", KEYS[1]), 1, "and a cheaper request passes");
}

#[test]
fn what_no_upstream_saw_is_not_used_and_a_refusal_elsewhere_uses_nothing() {
    let upstream = Upstream::new("", "ok");
    let plans = "a: { quota: { limit: 1000, window: year },
        rate_limit: { sustained: { rate: 2, window: day }, scope: user } }";
    // Nobody listens on port 1.
    let gateway = Tollgate::with(&file("127.0.0.1:1", plans, ""));
    for _ in 0..5 {
        assert_eq!(get(&gateway.url("/"), KEYS[0]).status, 502);
    }
    gateway.rewrite(&file(&upstream.address.to_string(), plans, ""));
    gateway.wait_for("a new configuration is in force");
    assert_eq!(remaining(&gateway, "/", KEYS[0]), 999);
    assert_eq!(remaining(&gateway, "/", KEYS[0]), 998);
    for _ in 0..3 {
        let refused = get(&gateway.url("/"), KEYS[0]);
        assert_eq!(refused.status, 429);
        assert_eq!(refused.json()["error"]["policy"], "user-day");
        assert_eq!(refused.header("x-ratelimit-remaining-year"), "998", "it is told all the same");
    }
    let limits = gateway.api("/v1/limits?tenant=acme&user=ada", &[]).json();
    let quota = limits["items"].as_array().unwrap_or_else(|| panic!("{limits}"));
    let quota = quota.iter().find(|limit| limit["window"] == "year").unwrap();
    assert_eq!(quota["tokens"], 998);
    // Made new by hand.
    let body = serde_json::json!({ "tenant": "acme", "user": "ada", "counter": quota["counter"] });
    let reset = gateway.api("/v1/limits/reset", &["-d", &body.to_string()]);
    assert!(reset.status < 300, "{reset:?}");
    let limits = gateway.api("/v1/limits?tenant=acme&user=ada", &[]).json();
    let quota = limits["items"].as_array().unwrap();
    let quota = quota.iter().find(|limit| limit["window"] == "year").unwrap();
    assert_eq!(quota["tokens"], 1000);
}

const LIMIT: u64 = 40_000;
const KILLS: u64 = 50;
const CALLERS: u64 = 2;

#[test]
fn fifty_kills_under_load_admit_no_more_than_the_quota_and_strand_a_block_each() {
    let upstream = Upstream::new("", "ok");
    let plans = format!("a: {{ quota: {{ limit: {LIMIT}, window: year }} }}");
    let mut gateway = Tollgate::with(&file(&upstream.address.to_string(), &plans, ""));
    let admitted = || upstream.count();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let year = Limit::quota(1, Period::Year, "UTC").unwrap();
    let (begins, _) = year.period_at(Time::from_secs(now.as_secs())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for kill in 0..KILLS {
        let before = admitted();
        let callers = (CALLERS as usize, Duration::ZERO);
        let load = Load::start(&gateway.address, KEYS[0], callers);
        // From its first request to several blocks.
        let wanted = before + 1 + kill * 37 % 400;
        eventually("requests are served", || admitted() >= wanted);
        let folder = gateway.kill();
        load.stop();
        assert_eq!(integrity(&folder.path().join("tollgate-data")), "ok", "after kill {kill}");

        let store = Embedded::at(folder.path().join("tollgate-data")).open().unwrap();
        let taken =
            runtime.block_on(store.quota_taken("user:quota/acme/ada:year", begins)).unwrap();
        runtime.block_on(store.close()).unwrap();
        assert!(taken <= LIMIT && taken >= admitted(), "{taken} taken, {} admitted", admitted());
        // Besides the block, what each caller had on its way to the upstream.
        let stranded = taken - admitted();
        assert!(stranded <= (kill + 1) * (block(LIMIT, 0) + CALLERS), "{stranded}, kill {kill}");
        gateway = Tollgate::again(folder);
    }
    let load = Load::start(&gateway.address, KEYS[0], (CALLERS as usize, Duration::ZERO));
    eventually("it is used up", || load.tally().refused.load(Relaxed) > 0);
    load.stop();
    let most = KILLS * (block(LIMIT, 0) + CALLERS);
    assert!(admitted() <= LIMIT && admitted() >= LIMIT - most, "{}", admitted());
    assert!(admitted() > KILLS * 100, "there was load");
}

#[test]
fn while_the_disk_takes_nothing_requests_with_a_quota_are_answered_503_or_pass_as_is_written() {
    let upstream = Upstream::new("", "ok");
    let plans = "a: { quota: { limit: 1000, window: year } }";
    for (on_error, status) in [("fail_closed", 503), ("fail_open", 200)] {
        let rest = format!("storage: {{ path: ./tollgate-data, on_error: {on_error} }}");
        let text = file(&upstream.address.to_string(), plans, &rest);
        let gateway = Tollgate::with_fallible_disk(&text);
        assert_eq!(remaining(&gateway, "/", KEYS[0]), 999);
        gateway.cap_files("4096");
        let uncountable = || {
            let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
            let name = match status {
                503 => "tollgate_uncountable_rejections_total",
                _ => "tollgate_quotas_uncounted_total",
            };
            let count = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            count.trim().parse::<u64>().unwrap()
        };
        // What is reserved is spent; then more would have to be written down.
        eventually("the disk is found out", || {
            let answer = get(&gateway.url("/"), KEYS[0]);
            assert!(answer.status == 200 || answer.status == status, "{answer:?}");
            uncountable() > 0
        });
        for _ in 0..5 {
            let answer = get(&gateway.url("/"), KEYS[1]);
            assert_eq!(answer.status, status);
            if status == 503 {
                assert_eq!(answer.header("content-type"), "application/problem+json");
                assert_eq!(answer.header("retry-after"), "1");
                assert_eq!(answer.json()["detail"], "Quotas cannot be counted at present.");
                let path = format!("/v1/refusals/{}", answer.header("x-request-id"));
                eventually("it is known why", || {
                    gateway.api(&path, &[]).json()["reason"] == "uncountable"
                });
            }
        }
        gateway.wait_for("quotas cannot be counted");
        assert!(uncountable() >= 6);

        gateway.cap_files("unlimited");
        eventually("it is counted again", || {
            get(&gateway.url("/"), KEYS[1]).has("x-ratelimit-remaining-year")
        });
        gateway.wait_for("quotas are counted again");
        gateway.stop();
    }
}
