//! The layer as a tower service, and what of a response is whose.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_server::{Caller, LimitLayer, Limited, Limits, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::support::{Answer, acme, ask, get, handler, hello, limits};

const POLICY: &str = "
plans: { free: { rate_limit: { sustained: { rate: 2 }, scope: user } } }
tenants: [ { id: acme, plan: free } ]
";

/// As the gateway does: whatever the policy shows, only it speaks of limits.
#[tokio::test]
async fn what_a_service_says_of_limits_does_not_get_out_and_all_else_does() {
    let silent = POLICY.replace("scope: user", "scope: user, response_headers: false");
    for (policy, cost, shown) in [(POLICY, 1, &["2"][..]), (&silent, 1, &[]), (POLICY, 0, &[])] {
        let (limits, _) = limits(policy);
        let boasting = handler(|_| {
            let response = Response::builder()
                .header("x-ratelimit-limit", "999")
                .header("x-ratelimit-limit", "998")
                .header("x-ratelimit-cost", "7")
                .header("ratelimit-remaining", "6")
                .header("retry-after-ms", "5")
                .header("x-request-id", "its-own")
                .header("x-cost", "4")
                .header("retry-after", "3");
            response.body(Full::from("")).unwrap()
        });
        let layer = limits.layer(move |_| Caller::of("acme").user("ada").cost(cost));
        let answer = ask(&mut layer.layer(boasting), get("/")).await;
        let of = |name| answer.headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(of("x-ratelimit-limit"), shown, "{policy} {cost}");
        for gone in ["x-ratelimit-cost", "ratelimit-remaining", "retry-after-ms"] {
            assert_eq!(of(gone), [""; 0], "{gone} {policy} {cost}");
        }
        for (kept, value) in [("x-request-id", "its-own"), ("x-cost", "4"), ("retry-after", "3")] {
            assert_eq!(of(kept), [value], "{policy} {cost}");
        }
    }
}

/// Whichever side has more headers, the other's are moved to it.
#[tokio::test]
async fn few_and_many_headers_of_a_service_stay_with_all_their_values() {
    for many in [0, 40] {
        let (limits, _) = limits(POLICY);
        let talkative = handler(move |_| {
            let mut response = Response::builder()
                .header("set-cookie", "a=1")
                .header("ratelimit", "1")
                .header("ratelimit", "2")
                .header("set-cookie", "b=2")
                .header("vary", "accept");
            for n in 0..many {
                response = response.header(format!("x-{n}"), n);
            }
            response.body(Full::from("")).unwrap()
        });
        let mut service = limits.layer(|_| Caller::of("acme").user("ada")).layer(talkative);
        let answer = ask(&mut service, get("/")).await;
        let of = |name: &str| answer.headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(of("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(of("vary"), ["accept"]);
        assert_eq!(of("ratelimit"), [r#""user-second";r=1;t=1"#]);
        assert_eq!(answer.headers.keys_len(), 8 + 2 + many);
        assert!((0..many).all(|n| of(&format!("x-{n}")) == [n.to_string().as_str()]));
    }
}

#[tokio::test]
async fn a_refusal_repeats_the_requests_id_and_makes_none_up() {
    let (limits, _) = limits(POLICY);
    let mut service = acme(&limits);
    for _ in 0..2 {
        ask(&mut service, get("/")).await;
    }
    let mut refused = async |id: &str| -> Answer {
        ask(&mut service, Request::get("/").header("x-request-id", id).body(()).unwrap()).await
    };
    let answer = refused("r-1").await;
    assert_eq!((answer.header("x-request-id"), &answer.json()["instance"]), ("r-1", &"r-1".into()));
    for none in ["", &"x".repeat(129)] {
        let answer = refused(none).await;
        assert_eq!(answer.status, 429);
        assert!(
            !answer.headers.contains_key("x-request-id") && answer.json().get("instance").is_none()
        );
    }
}

#[tokio::test]
async fn a_handler_sees_the_verdict_where_the_layer_is_told_so() {
    let (limits, _) = limits(POLICY);
    let told = handler(|request| {
        let verdict = request.extensions().get::<Verdict>().unwrap();
        assert!(verdict.is_admitted() && verdict.is_tenant_known());
        let (policy, source) = (verdict.policy().unwrap(), verdict.source().unwrap());
        let (left, reset) = (verdict.remaining().unwrap(), verdict.reset_after().unwrap());
        Response::new(format!("{policy} {source} {left} {}", reset.as_millis()).into())
    });
    let mut service =
        limits.layer(|_| Caller::of("acme").user("ada")).telling_service().layer(told);
    assert_eq!(&*ask(&mut service, get("/")).await.body, b"user-second plan:free 1 500");
    assert_eq!(&*ask(&mut service, get("/")).await.body, b"user-second plan:free 0 1000");

    let silent = handler(|request| {
        assert!(request.extensions().get::<Verdict>().is_none());
        Response::new("".into())
    });
    let mut service = limits.layer(|_| Caller::of("acme").user("bob")).layer(silent);
    assert_eq!(ask(&mut service, get("/")).await.verdict().remaining(), Some(1));
}

#[tokio::test]
async fn layers_further_out_see_the_verdict_of_all_responses_or_of_refusals_alone() {
    let (limits, _) = limits(POLICY);
    let layer = limits.layer(|_| Caller::of("acme").user("ada"));
    let mut service = layer.clone().layer(handler(hello));
    assert_eq!(ask(&mut service, get("/")).await.verdict().remaining(), Some(1));
    let mut service = layer.without_verdicts().layer(handler(hello));
    assert!(ask(&mut service, get("/")).await.told.is_none());
    let refused = ask(&mut service, get("/")).await;
    assert_eq!((refused.status.as_u16(), refused.verdict().is_admitted()), (429, false));
}

#[tokio::test]
async fn bodies_know_their_length_and_end() {
    let (limits, _) = limits(POLICY);
    let mut service = acme(&limits);
    let mut lengths = Vec::new();
    for _ in 0..3 {
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        let response = service.call(get("/")).await.unwrap();
        assert!(!response.body().is_end_stream());
        lengths.push(response.body().size_hint().exact().unwrap());
    }
    assert_eq!(lengths[..2], [5, 5]);
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let grpc =
        Request::post("/").header("content-type", "application/grpc+proto").body(()).unwrap();
    let response = service.call(grpc).await.unwrap();
    assert!(response.body().is_end_stream(), "trailers only");
    assert_eq!(ask(&mut service, get("/")).await.body.len() as u64, lengths[2]);
}

#[test]
fn layer_and_service_are_cheap_to_clone_and_go_to_any_thread() {
    fn any_thread<T: Clone + Send + Sync + 'static>() {}
    any_thread::<Limits>();
    any_thread::<LimitLayer<()>>();
    any_thread::<Limited<(), ()>>();
    assert_eq!(size_of::<LimitLayer<()>>(), 2 * size_of::<usize>());
}

/// Takes any body, as hyper's.
#[derive(Clone)]
struct Hello;

impl<B> Service<Request<B>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from("hello"))))
    }
}

#[tokio::test]
async fn hyper_serves_it_as_it_is() {
    let (limits, _) = limits(POLICY);
    let service = limits.layer(|_| Caller::of("acme").user("ada")).layer(Hello);
    let (mut caller, server) = tokio::io::duplex(65_536);
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(server), TowerToHyperService::new(service));
    let server = tokio::spawn(connection);
    let ask = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    caller.write_all(format!("{ask}{ask}{last}").as_bytes()).await.unwrap();
    let mut text = String::new();
    caller.read_to_string(&mut text).await.unwrap();
    server.await.unwrap().unwrap();
    let statuses: Vec<_> = text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "200", "429"]);
    assert!(
        text.contains("retry-after: 1\r\n") && text.ends_with("\"source\":\"plan:free\"}}"),
        "{text}"
    );
}
