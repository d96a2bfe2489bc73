//! What callers are told, for each algorithm, on success and on refusal.

use std::process::Command;

use crate::keys::{KEY, digest};
use crate::support::{Tollgate, Upstream, curl, get, stay_clear_of_midnight};

fn file(upstream: &Upstream, plan: &str) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }}, {{ path: /dear, upstream: api, rate_limit: {{ cost: 50 }} }} ]
plans: {{ p: {plan} }}
tenants: [ {{ id: acme, plan: p }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
        upstream.address,
        digest()
    )
}

#[test]
fn every_algorithm_tells_limit_remaining_and_reset_and_when_to_come_back() {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let algorithms = [
        "token_bucket",
        "sliding_window",
        "sliding_window_log",
        "fixed_window",
        "leaky_bucket",
        "gcra",
    ];
    let versions = ["--http1.1", "--http2-prior-knowledge"];
    for (algorithm, version) in algorithms.iter().flat_map(|name| versions.map(|v| (name, v))) {
        let key = format!("x-api-key: {KEY}");
        let plan = format!(
            "{{ rate_limit: {{ algorithm: {algorithm}, sustained: {{ rate: 3, window: day }}, scope: user }} }}"
        );
        let gateway = Tollgate::with(&file(&upstream, &plan));
        for remaining in ["2", "1", "0"] {
            let answer = curl(&[version, &gateway.url("/x"), "-H", &key]);
            assert_eq!(answer.status, 200, "{algorithm}");
            assert_eq!(answer.header("x-ratelimit-limit"), "3", "{algorithm}");
            assert_eq!(answer.header("x-ratelimit-remaining"), remaining, "{algorithm}");
            assert_eq!(answer.header("x-ratelimit-remaining-day"), remaining, "{algorithm}");
            assert_eq!(
                answer.header("ratelimit-policy"),
                "\"user-day\";q=3;w=86400",
                "{algorithm}"
            );
        }
        let refused = curl(&[version, &gateway.url("/x"), "-H", &key]);
        assert_eq!(refused.status, 429, "{algorithm}");
        let body = refused.json();
        let after: u64 = refused.header("retry-after").parse().unwrap();
        let millis: u64 = refused.header("retry-after-ms").parse().unwrap();
        // Early in a day a sliding window has yet to end, and then a part of the next to pass.
        assert!((1..=2 * 86_400).contains(&after), "{algorithm}: {after}");
        assert_eq!(millis.div_ceil(1000), after, "{algorithm}");
        assert_eq!(refused.header("x-ratelimit-retry-after-ms"), refused.header("retry-after-ms"));
        assert_eq!(refused.header("cache-control"), "no-store");
        assert_eq!(refused.header("content-type"), "application/problem+json");
        assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!(body["status"], 429);
        assert_eq!(body["instance"], refused.header("x-request-id"));
        assert_eq!(body["violated-policies"], serde_json::json!(["user-day"]));
        let error = &body["error"];
        assert_eq!(error["code"], "RATE_LIMIT_EXCEEDED");
        assert_eq!((&error["limit"], &error["remaining"]), (&3.into(), &0.into()));
        assert_eq!((&error["policy"], &error["source"]), (&"user-day".into(), &"plan:p".into()));
        assert_eq!(error["retryAfter"], after);
        assert!(error["resetAt"].as_str().unwrap().ends_with('Z'), "{error}");
        let call = ["-X", "POST", "-H", "content-type: application/grpc", "-H", &key];
        let call = curl(&[&["--http2-prior-knowledge", &gateway.url("/x")][..], &call].concat());
        assert_eq!((call.status, call.header("grpc-status")), (200, "8"), "{algorithm}");
        assert_eq!(call.header("x-ratelimit-remaining"), "0", "{algorithm}");
        let pushback: u64 = call.header("grpc-retry-pushback-ms").parse().unwrap();
        assert!((1..=millis).contains(&pushback), "{algorithm}: {pushback} after {millis}");
    }
}

#[test]
fn a_stack_of_second_and_month_is_told_for_both_over_both_versions_of_http() {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let plan = "{ rate_limit: { sustained: { rate: 10 }, burst: { capacity: 100 }, scope: user }, quota: { limit: 2, window: month } }";
    let gateway = Tollgate::with(&file(&upstream, plan));
    let key = format!("x-api-key: {KEY}");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let answer = curl(&[version, &gateway.url("/x"), "-H", &key]);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit-second"), "100");
        assert_eq!(answer.header("x-ratelimit-limit-month"), "2");
        assert_eq!(answer.header("x-ratelimit-limit"), "2", "the month is the tightest");
        assert_eq!(
            answer.header("ratelimit-policy"),
            "\"user-second\";q=100;w=10, \"user-month\";q=2"
        );
    }
    let refused = curl(&["--http2-prior-knowledge", &gateway.url("/x"), "-H", &key]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["violated-policies"], serde_json::json!(["user-month"]));
}

#[test]
fn a_cost_that_can_never_pass_says_so() {
    let upstream = Upstream::new("", "ok");
    let plan = "{ rate_limit: { sustained: { rate: 10 }, scope: user } }";
    let gateway = Tollgate::with(&file(&upstream, plan));
    let refused = get(&gateway.url("/dear"), KEY);
    assert_eq!((refused.status, refused.has("retry-after")), (429, false));
    assert_eq!(refused.json()["error"]["code"], "COST_EXCEEDS_LIMIT");
}

#[test]
fn silenced_limits_tell_nothing_but_when_to_come_back() {
    let upstream = Upstream::new("", "ok");
    let plan = "{ rate_limit: { sustained: { rate: 1, window: day }, scope: user, response_headers: false } }";
    let gateway = Tollgate::with(&file(&upstream, plan));
    let (passed, refused) = (get(&gateway.url("/x"), KEY), get(&gateway.url("/x"), KEY));
    assert_eq!((passed.status, refused.status), (200, 429));
    for answer in [&passed, &refused] {
        assert!(!answer.has("x-ratelimit-limit") && !answer.has("ratelimit"), "{answer:?}");
    }
    assert!(refused.has("retry-after") && !passed.has("retry-after"));
}

#[test]
fn grpc_calls_are_refused_in_trailers_only() {
    let upstream = Upstream::new("", "ok");
    let plan = "{ rate_limit: { sustained: { rate: 1, window: day }, scope: user } }";
    let gateway = Tollgate::with(&file(&upstream, plan));
    get(&gateway.url("/x"), KEY);
    let key = format!("x-api-key: {KEY}");
    let call = |headers: &[&str]| {
        let url = gateway.url("/x");
        let base = [
            "--http2-prior-knowledge",
            "-X",
            "POST",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
            &url,
        ];
        curl(&[&base[..], headers].concat())
    };
    let refused = call(&["-H", &key]);
    assert_eq!((refused.status, refused.header("grpc-status")), (200, "8"));
    assert_eq!(refused.header("content-type"), "application/grpc");
    assert_eq!(refused.header("retry-after-ms"), refused.header("grpc-retry-pushback-ms"));
    assert!(refused.has("grpc-status-details-bin") && refused.body.is_empty());
    assert_eq!(call(&[]).header("grpc-status"), "16");
}

/// A client that nobody here wrote obeys what it is told: urllib3 waits as long as `Retry-After` says and passes.
#[test]
fn a_stock_client_that_obeys_retry_after_passes() {
    let upstream = Upstream::new("", "ok");
    let plan = "{ rate_limit: { sustained: { rate: 1 }, scope: user } }";
    let gateway = Tollgate::with(&file(&upstream, plan));
    let script = format!(
        "
import urllib3
http = urllib3.PoolManager()
retry = urllib3.Retry(total=3, status_forcelist=[429], backoff_factor=0, respect_retry_after_header=True)
for n in range(3):
    answer = http.request('GET', '{}', headers={{'x-api-key': '{KEY}'}}, retries=retry)
    print(answer.status, len(answer.retries.history))
",
        gateway.url("/x")
    );
    let python =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let output = Command::new(python).args(["-c", &script]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(lines.iter().all(|line| line.starts_with("200 ")), "{told}");
    // It waited at least once, and never had to wait twice for one request.
    assert!(lines.iter().all(|line| !line.ends_with('2') && !line.ends_with('3')), "{told}");
}
