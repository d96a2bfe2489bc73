//! Who is counted as whom.

use std::net::IpAddr;

use http::Request;
use tollgate_server::{Caller, Head, Identify, Outcome, UnknownTenant};
use tower_layer::Layer;

use crate::support::{acme, ask, get, handler, hello, limits, text};

const POLICY: &str = "
defaults: { client: { sustained: { rate: 2 }, scope: user }, tenant: null }
plans:
  free:
    rate_limit: { sustained: { rate: 3 }, scope: user }
    operations: { chat: { sustained: { rate: 1 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 5 }, scope: user } }
tenants: [ { id: acme, plan: free } ]
";

fn by(user: &str) -> Request<()> {
    Request::get("/").header("x-user", user).body(()).unwrap()
}

#[tokio::test]
async fn users_of_a_tenant_are_counted_apart() {
    let (limits, _) = limits(POLICY);
    let mut service = acme(&limits);
    for _ in 0..3 {
        assert_eq!(ask(&mut service, by("ada")).await.status, 200);
    }
    assert_eq!(ask(&mut service, by("ada")).await.status, 429);
    let other = ask(&mut service, by("bob")).await;
    assert_eq!((other.status.as_u16(), other.header("x-ratelimit-remaining")), (200, "2"));
}

#[tokio::test]
async fn an_unknown_tenant_is_anonymous_and_counted_by_its_address_unless_told_otherwise() {
    let (limits, _) = limits(POLICY);
    let address: IpAddr = "203.0.113.7".parse().unwrap();
    let layer = limits.layer(move |request| {
        Caller::of("nobody").user(text(request.headers, "x-user")).plan("pro").address(address)
    });
    let mut service = layer.layer(handler(hello));
    for user in ["ada", "bob"] {
        let answer = ask(&mut service, by(user)).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-limit")), (200, "2"));
        assert!(!answer.verdict().is_tenant_known());
    }
    let refused = ask(&mut service, by("eve")).await;
    assert_eq!(refused.verdict().outcome(), Outcome::Refused);

    let mut forbidding =
        layer.clone().unknown_tenant(UnknownTenant::Forbidden).layer(handler(hello));
    let answer = ask(&mut forbidding, by("ada")).await;
    assert_eq!((answer.status.as_u16(), answer.verdict().outcome()), (403, Outcome::Forbidden));
    assert_eq!(answer.json()["detail"], "The caller's tenant is not known here.");

    let mut letting = layer.unknown_tenant(UnknownTenant::Unlimited).layer(handler(hello));
    let answer = ask(&mut letting, by("ada")).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-limit")), (200, ""));
    assert!(!answer.verdict().is_tenant_known());
}

#[tokio::test]
async fn whoever_has_no_user_is_counted_by_the_address() {
    let (limits, _) = limits(POLICY);
    let mut service = limits
        .layer(|request| {
            Caller::anonymous().address(text(request.headers, "x-from").parse().unwrap())
        })
        .layer(handler(hello));
    let from = |address: &str| Request::get("/").header("x-from", address).body(()).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&mut service, from("203.0.113.7")).await.status, 200);
    }
    assert_eq!(ask(&mut service, from("203.0.113.7")).await.status, 429);
    assert_eq!(ask(&mut service, from("203.0.113.8")).await.status, 200);
}

#[derive(Debug)]
struct ByHeaders;

impl Identify for ByHeaders {
    fn identify<'r>(&self, request: Head<'r>) -> Caller<'r> {
        let caller = Caller::of("acme").user(text(request.headers, "x-user"));
        let caller = caller.plan(text(request.headers, "x-plan"));
        let caller = caller.operation(text(request.headers, "x-operation"));
        match text(request.headers, "x-cost").parse() {
            Ok(cost) => caller.cost(cost),
            Err(_) => caller,
        }
    }
}

#[tokio::test]
async fn plan_operation_and_cost_are_the_programs_to_state() {
    let (limits, _) = limits(POLICY);
    let mut service = limits.layer_by(ByHeaders).layer(handler(hello));
    let with = |user: &str, name: &str, value: &str| {
        Request::get("/").header("x-user", user).header(name, value).body(()).unwrap()
    };
    let pro = ask(&mut service, with("ada", "x-plan", "pro")).await;
    assert_eq!(pro.header("x-ratelimit-limit"), "5");
    let unknown_plan = ask(&mut service, with("bob", "x-plan", "gold")).await;
    assert_eq!(unknown_plan.header("x-ratelimit-limit"), "3");

    let chat = ask(&mut service, with("cyd", "x-operation", "chat")).await;
    assert_eq!(chat.header("ratelimit-policy"), r#""user-second-2";q=1;w=1"#);
    let refused = ask(&mut service, with("cyd", "x-operation", "chat")).await;
    assert_eq!(refused.verdict().source(), Some("operation:free/chat"));
    assert_eq!(ask(&mut service, with("cyd", "x-operation", "read")).await.status, 200);

    let dear = ask(&mut service, with("dan", "x-cost", "3")).await;
    assert_eq!(dear.header("x-ratelimit-remaining"), "0");
    let free = ask(&mut service, with("dan", "x-cost", "0")).await;
    assert_eq!((free.status.as_u16(), free.headers.len()), (200, 0));
    let never = ask(&mut service, with("eve", "x-cost", "4")).await;
    assert_eq!(never.json()["error"]["code"], "COST_EXCEEDS_LIMIT");
    assert!(never.header("retry-after").is_empty() && never.verdict().retry_after().is_none());
}

const ROUTES: &str = "
upstreams: { here: { url: \"http://127.0.0.1:1\" } }
routes:
  - { path: /chat, methods: [POST], upstream: here, operation: chat, rate_limit: { cost: 4 } }
  - { path: /files/*, upstream: here, rate_limit: { cost: 4 } }
  - { path: /files/@free, upstream: here, rate_limit: { cost: 0 } }
  - { path: /health, upstream: here, rate_limit: { cost: 0 } }
  - { path: /slow, upstream: here, rate_limit: { sustained: { rate: 1 }, scope: route } }
plans: { free: { rate_limit: { sustained: { rate: 10 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";

#[tokio::test]
async fn where_the_policy_has_routes_a_request_meets_its_routes_limits_and_cost() {
    let (limits, _) = limits(ROUTES);
    let mut service = acme(&limits);
    let chat = ask(&mut service, Request::post("/chat").body(()).unwrap()).await;
    assert_eq!(chat.header("x-ratelimit-remaining"), "6");
    let not_routed = ask(&mut service, get("/elsewhere")).await;
    assert_eq!(
        (not_routed.status.as_u16(), not_routed.header("x-ratelimit-remaining")),
        (200, "5")
    );
    let other_spelling = ask(&mut service, get("/files/a%7eb")).await;
    assert_eq!(other_spelling.header("x-ratelimit-remaining"), "1");
    limits.set_pending(1_000);
    let health = ask(&mut service, get("/health")).await;
    assert_eq!((health.status.as_u16(), health.headers.len()), (200, 0));
    limits.set_pending(0);

    assert_eq!(ask(&mut service, get("/slow")).await.status, 200);
    let refused = ask(&mut service, get("/slow")).await;
    assert_eq!(refused.status, 429);
}

/// Its operation goes before the route's, also where the policy does not have it.
#[tokio::test]
async fn work_that_the_policy_has_no_name_for_is_not_charged_to_the_routes_operation() {
    let (limits, _) = limits(
        "
upstreams: { here: { url: \"http://127.0.0.1:1\" } }
routes: [ { path: /chat, upstream: here, operation: chat } ]
plans:
  free:
    rate_limit: { sustained: { rate: 10 }, scope: user }
    operations: { chat: { sustained: { rate: 1 }, scope: user } }
tenants: [ { id: acme, plan: free } ]
",
    );
    let mut unheard =
        limits.layer(|_| Caller::of("acme").user("ada").operation("summary")).layer(handler(hello));
    let mut silent = limits.layer(|_| Caller::of("acme").user("ada")).layer(handler(hello));
    for left in ["9", "8", "7"] {
        let answer = ask(&mut unheard, get("/chat")).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining")), (200, left));
    }
    // Nothing of it was taken: who states none is charged to the route's.
    assert_eq!(ask(&mut silent, get("/chat")).await.status, 200);
    let refused = ask(&mut silent, get("/chat")).await;
    assert_eq!(refused.verdict().source(), Some("operation:free/chat"));
}

/// A wildcard of the service takes `/files/../health` for a file, and here it would be free.
#[tokio::test]
async fn a_path_that_only_its_plain_spelling_makes_a_routes_is_bad() {
    let (limits, _) = limits(ROUTES);
    for bad in [
        "/files/../health",
        "/./slow",
        "/%68ealth",
        "/files//../slow",
        "/a%00",
        "/a%2",
        "/files/%40free",
    ] {
        let answer = ask(&mut acme(&limits), get(bad)).await;
        assert_eq!(answer.status, 400, "{bad}");
        assert_eq!(answer.verdict().outcome(), Outcome::Malformed, "{bad}");
    }
}

/// A name and password in front of a host are no part of it, nor is what follows it, were it two ports.
#[tokio::test]
async fn a_route_of_a_host_is_that_hosts_however_it_is_written() {
    let text = "
plans: { free: { rate_limit: { sustained: { rate: 1000 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
upstreams: { here: { url: 'http://127.0.0.1:1' } }
routes:
  - { path: /, hosts: [ api.example.com, '[::1]' ], upstream: here, rate_limit: { cost: 7 } }
";
    let hosts = [
        "api.example.com",
        "api.example.com:8080",
        "x@api.example.com",
        "x:y@api.example.com:8080",
        "[::1]",
        "[::1]:8080",
        "x@[::1]:8080",
    ];
    let by_header = |host: &str| Request::get("/").header("host", host).body(()).unwrap();
    let by_uri = |host: &str| get(&format!("http://{host}/"));
    let requests = hosts.iter().flat_map(|host| [by_uri(host), by_header(host)]);
    // No URI can be so.
    let odd = ["api.example.com:80:90", "[::1]x:80", "[::1]:80:90"].map(by_header);
    for request in requests.chain(odd) {
        let (limits, _) = limits(text);
        let told = format!("{} {:?}", request.uri(), request.headers());
        let answer = ask(&mut acme(&limits), request).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), "993", "{told}");
    }
}
