//! The law of one request, with a real client.

use crate::keys::{KEY, digest};
use crate::ports::Port;
use crate::support::{Tollgate, Upstream, curl, eventually, get};

fn file(upstream: &str, rest: &str) -> String {
    format!(
        "
upstreams:
  api: {{ url: \"http://{upstream}\", backpressure: {{ threshold: 1 }} }}
tenants: [ {{ id: acme, plan: p }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
{rest}",
        digest()
    )
}

const SMALL: &str = "
routes:
  - { path: \"/*\", upstream: api }
  - { path: /health, upstream: api, auth: none, rate_limit: { cost: 0 } }
  - { path: \"/chat/{room}\", methods: [POST], upstream: api, rate_limit: { cost: 2 } }
plans: { p: { rate_limit: { sustained: { rate: 3, window: day }, scope: user } } }
";

#[test]
fn requests_are_routed_by_the_one_spelling_of_their_path() {
    let upstream = Upstream::new("", "ok");
    let routes = "
routes: [ { path: /v1/chat, upstream: api }, { path: \"/files/*\", upstream: api } ]
plans: { p: {} }
";
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), routes));
    for (path, status) in [
        ("/v1/chat", 200),
        ("//v1/./x/../%63hat", 200),
        ("/files/a%2Fb?q=%2F", 200),
        ("/nowhere", 404),
        ("/v1/chat%00", 400),
        ("/files/..%5Cx", 400),
    ] {
        let answer =
            curl(&["--path-as-is", &gateway.url(path), "-H", &format!("x-api-key: {KEY}")]);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.has("x-request-id"), "{path}");
    }
    let targets: Vec<String> =
        upstream.heads().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(targets, ["/v1/chat", "/v1/chat", "/files/a%2Fb?q=%2F"]);
}

#[test]
fn costs_are_charged_and_free_routes_are_free() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), SMALL));
    let key = format!("x-api-key: {KEY}");
    let chat = curl(&["-X", "POST", &gateway.url("/chat/lobby"), "-H", &key]);
    assert_eq!((chat.status, chat.header("x-ratelimit-remaining")), (200, "1"));
    assert_eq!(curl(&["-X", "POST", &gateway.url("/chat/lobby"), "-H", &key]).status, 429);
    assert_eq!(get(&gateway.url("/x"), KEY).status, 200);
    assert_eq!(get(&gateway.url("/x"), KEY).status, 429);
    let health = curl(&[&gateway.url("/health")]);
    assert_eq!(health.status, 200);
    assert!(!health.has("x-ratelimit-limit") && health.has("x-request-id"), "{health:?}");
}

#[test]
fn too_much_pending_is_refused_before_anybody_is_asked_who_they_are() {
    // It never answers.
    let upstream = Upstream::serving(|_| {
        std::thread::sleep(crate::support::PATIENCE);
        Ok(())
    });
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), SMALL));
    let url = gateway.url("/x");
    let hanging: Vec<_> = (0..2)
        .map(|_| {
            let (url, key) = (url.clone(), format!("x-api-key: {KEY}"));
            std::process::Command::new("curl").args(["-s", &url, "-H", &key]).spawn().unwrap()
        })
        .collect();
    eventually("both are pending", || upstream.heads().len() == 2);
    let refused = curl(&[&url]);
    assert_eq!(refused.status, 503);
    let body = refused.json();
    assert_eq!(
        body["type"],
        "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
    );
    assert_eq!(refused.header("retry-after-ms"), "10");
    assert_eq!(refused.header("retry-after"), "1");
    for mut one in hanging {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    // Whoever hung up is not pending.
    eventually("nothing is pending", || curl(&[&url]).status == 401);
}

#[test]
fn a_dead_upstream_is_502_and_costs_nothing() {
    let closed = Port::take();
    let gateway = Tollgate::with(&file(&closed.address().to_string(), SMALL));
    for _ in 0..5 {
        let answer = get(&gateway.url("/x"), KEY);
        assert_eq!(answer.status, 502, "{answer:?}");
        assert_eq!(answer.json()["detail"], "The upstream cannot be connected to.");
    }
}

#[test]
fn an_upstream_that_may_have_seen_a_request_keeps_the_charge() {
    // It reads the request and hangs up.
    let upstream = Upstream::serving(|_| Err(std::io::Error::other("closed")));
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), SMALL));
    let statuses: Vec<u16> = (0..4)
        .map(|_| {
            let key = format!("x-api-key: {KEY}");
            curl(&["-X", "POST", "-d", "x", &gateway.url("/x"), "-H", &key]).status
        })
        .collect();
    assert_eq!(statuses, [502, 502, 502, 429]);
}

#[test]
fn what_an_upstream_says_about_limits_does_not_get_through() {
    let upstream = Upstream::new(
        "x-ratelimit-limit: 1\r\nX-RateLimit-Remaining-Hour: 5\r\nratelimit: \"u\";r=1\r\nretry-after-ms: 3\r\nx-request-id: theirs\r\nx-other: kept\r\n",
        "ok",
    );
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), SMALL));
    let answer = get(&gateway.url("/x"), KEY);
    assert_eq!(answer.header("x-ratelimit-limit"), "3");
    assert!(!answer.has("x-ratelimit-remaining-hour") && !answer.has("retry-after-ms"));
    assert_eq!(answer.header("ratelimit").split(';').next(), Some("\"user-day\""));
    assert_ne!(answer.header("x-request-id"), "theirs");
    assert_eq!(answer.header("x-other"), "kept");
}

#[test]
fn degraded_requests_go_elsewhere_marked_and_observed_ones_pass() {
    let (main, spare) = (Upstream::new("", "main"), Upstream::new("", "spare"));
    let gateway = Tollgate::with(&format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }}, spare: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans:
  p: {{ rate_limit: {{ sustained: {{ rate: 1, window: day }}, scope: user, strategy: degrade, degrade: {{ upstream: spare }} }} }}
tenants:
  - {{ id: acme, plan: p, rate_limit: {{ sustained: {{ rate: 1, window: day }}, strategy: observe }} }}
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
        main.address,
        spare.address,
        digest()
    ));
    let first = get(&gateway.url("/x"), KEY);
    assert_eq!((first.status, first.body.as_str()), (200, "main"));
    assert!(!first.has("x-ratelimit-degraded"));
    let second = get(&gateway.url("/x"), KEY);
    assert_eq!((second.status, second.body.as_str()), (200, "spare"));
    assert_eq!(second.header("x-ratelimit-degraded"), "user-day");
    assert!(spare.heads()[0].contains("x-ratelimit-degraded: user-day"), "{:?}", spare.heads());
    let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
    assert!(metrics.contains("rate_limit_observed_rejections_total 1"), "{metrics}");
}

#[test]
fn the_caller_is_counted_by_the_address_that_trusted_proxies_saw() {
    let upstream = Upstream::new("", "ok");
    let rest = "
routes: [ { path: \"/*\", upstream: api } ]
plans: { p: { rate_limit: { sustained: { rate: 1, window: day }, scope: ip } } }
";
    let text = file(&upstream.address.to_string(), rest);
    let ask = |gateway: &Tollgate, from: &str| {
        let (key, from) = (format!("x-api-key: {KEY}"), format!("x-forwarded-for: {from}"));
        curl(&[&gateway.url("/x"), "-H", &key, "-H", &from]).status
    };
    let believing = Tollgate::start_with_server(
        "server: { listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, trusted_proxies: [127.0.0.0/8] }\n",
        &text,
    );
    assert_eq!(ask(&believing, "203.0.113.1"), 200);
    assert_eq!(ask(&believing, "203.0.113.2"), 200);
    assert_eq!(ask(&believing, "6.6.6.6, 203.0.113.2"), 429);
    let doubting = Tollgate::with(&text);
    assert_eq!(ask(&doubting, "203.0.113.1"), 200);
    assert_eq!(ask(&doubting, "203.0.113.2"), 429);
}

#[test]
fn metrics_name_tiers_and_endpoints_and_nobody() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream.address.to_string(), SMALL));
    for _ in 0..4 {
        get(&gateway.url("/x"), KEY);
    }
    let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
    for line in [
        "rate_limit_requests_total{tier=\"p\"} 4",
        "rate_limit_rejections_total{tier=\"p\",policy=\"user-day\"} 1",
        "rate_limit_tokens_consumed_total{tier=\"p\",endpoint=\"/*\"} 3",
        "tollgate_counters_held 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing of:\n{metrics}");
    }
    assert!(!metrics.contains("acme") && metrics.ends_with("# EOF\n"), "{metrics}");
}
