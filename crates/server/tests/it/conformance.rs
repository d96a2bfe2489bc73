//! The layer tells what the gateway tells: under one policy and one clock, the same requests get the same limit headers and
//! the same bodies as gate and wire give them without a layer, which is how the gateway answers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use proptest::prelude::*;
use tollgate_engine::FakeClock;
use tollgate_gate::{Gate, Holder, InForce, Lines};
use tollgate_policy::compile::{Stated, Work};
use tollgate_server::{Caller, Limits};
use tollgate_wire::{Refused, degraded_by, names};
use tower_layer::Layer;

use crate::support::{ask, handler, hello, policy, text};

const POLICY: &str = "
upstreams: { here: { url: \"http://127.0.0.1:1\" } }
routes:
  - { path: /chat, upstream: here, operation: chat, rate_limit: { cost: 2 } }
  - { path: /search, upstream: here, rate_limit: { sustained: { rate: 6, window: minute }, scope: route, strategy: degrade } }
  - { path: /health, upstream: here, rate_limit: { cost: 0 } }
plans:
  free:
    rate_limit: { sustained: { rate: 4 }, burst: { capacity: 8 }, scope: user }
    operations: { chat: { sustained: { rate: 10, window: minute }, algorithm: sliding_window, scope: user } }
    quota: { limit: 30, window: day, time_zone: UTC }
  silent: { rate_limit: { sustained: { rate: 3 }, scope: user, response_headers: false } }
tenants:
  - { id: partner, rate_limit: { sharing: enforce, sustained: { rate: 20 } } }
  - { id: acme, parent: partner, plan: free }
  - { id: quiet, parent: partner, plan: silent }
  - id: watched
    parent: partner
    plan: free
    rate_limit: { sustained: { rate: 1 }, strategy: observe }
";

/// One request, and how long before it nothing happens.
#[derive(Clone, Debug)]
struct Step {
    after: u64,
    tenant: &'static str,
    user: &'static str,
    path: &'static str,
    operation: Option<&'static str>,
    cost: Option<u64>,
    is_grpc: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let cost = prop_oneof![4 => Just(None), 2 => (1u64..6).prop_map(Some), 1 => Just(Some(9)), 1 => Just(Some(0))];
    (
        prop_oneof![3 => Just(0), 2 => 1u64..400, 1 => 400u64..5_000],
        prop::sample::select(vec!["acme", "quiet", "watched", "partner"]),
        prop::sample::select(vec!["ada", "bob"]),
        prop::sample::select(vec!["/chat", "/search", "/health", "/elsewhere"]),
        prop::sample::select(vec![None, None, Some("chat"), Some("unheard-of")]),
        cost,
        any::<bool>(),
    )
        .prop_map(|(after, tenant, user, path, operation, cost, is_grpc)| Step {
            after,
            tenant,
            user,
            path,
            operation,
            cost,
            is_grpc,
        })
}

/// What gate and wire say to it.
fn expected(gate: &Gate<FakeClock>, in_force: &InForce, step: &Step) -> Response<Bytes> {
    let policy = in_force.policy();
    let tenant = policy.tenants().number(step.tenant).unwrap();
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let caller = gate.caller(in_force, tenant, Holder::User(step.user), nowhere);
    let route = policy.route("here", "POST", step.path);
    let operation = step.operation.map(|name| Stated::named(policy, name));
    let work = route.map(Work::on).unwrap_or_default().stating(operation, step.cost);
    let passage = gate.decide(in_force, &caller, work);
    let lines = Lines::of(&passage);
    let report = lines.report();
    if !passage.is_admitted() {
        let refused = Refused::by_limit(&report, "r-1").limit_headers(passage.shows_headers());
        return if step.is_grpc { refused.grpc() } else { refused.http() };
    }
    let mut response = Response::new(Bytes::from("hello"));
    if passage.shows_headers() {
        report.write(response.headers_mut());
    }
    if let Some((name, _)) = passage.degraded() {
        response.headers_mut().insert(&names::X_RATELIMIT_DEGRADED, degraded_by(name).unwrap());
    }
    response
}

fn request(step: &Step) -> Request<()> {
    let mut request = Request::post(format!("http://here{}", step.path))
        .header("x-tenant", step.tenant)
        .header("x-user", step.user)
        .header("x-request-id", "r-1");
    if let Some(operation) = step.operation {
        request = request.header("x-operation", operation);
    }
    if let Some(cost) = step.cost {
        request = request.header("x-cost", cost);
    }
    if step.is_grpc {
        request = request.header("content-type", "application/grpc");
    }
    request.body(()).unwrap()
}

fn caller(headers: &HeaderMap) -> Caller<'_> {
    let mut caller = Caller::of(text(headers, "x-tenant")).user(text(headers, "x-user"));
    if headers.contains_key("x-operation") {
        caller = caller.operation(text(headers, "x-operation"));
    }
    match text(headers, "x-cost").parse() {
        Ok(cost) => caller.cost(cost),
        Err(_) => caller,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn layer_and_gateway_tell_the_same(steps in prop::collection::vec(step(), 1..60)) {
        let clock = FakeClock::default();
        let gate = Gate::with_clock(clock.clone(), 1_000);
        let in_force = gate.enforce(policy(POLICY));
        let limits = Limits::with_clock(policy(POLICY), clock.clone());
        let mut service = limits.layer(|request| caller(request.headers)).layer(handler(hello));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for step in &steps {
            clock.advance(Duration::from_millis(step.after));
            let expected = expected(&gate, &in_force, step);
            let told = runtime.block_on(ask(&mut service, request(step)));
            prop_assert_eq!(told.status, expected.status(), "{:?}", step);
            prop_assert_eq!(&told.headers, expected.headers(), "{:?}", step);
            prop_assert_eq!(&told.body, expected.body(), "{:?}", step);
        }
    }
}
