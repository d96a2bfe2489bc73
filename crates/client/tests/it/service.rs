//! The layer around a service: what is retried, and what is not.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_client::{Ask, Error, PaceLayer, Pacers, Priority, Settings};
use tower_layer::Layer;
use tower_service::Service;

use crate::headers;

type Rows = &'static [(&'static str, &'static str)];

/// Answers by a script, and then with 200.
#[derive(Clone, Default)]
struct Scripted {
    script: Arc<Mutex<Vec<(u16, Rows)>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn new(script: &[(u16, Rows)]) -> Scripted {
        let script = script.iter().rev().copied().collect();
        Scripted { script: Arc::new(Mutex::new(script)), ..Scripted::default() }
    }

    fn calls(&self) -> usize {
        self.calls.lock().len()
    }
}

impl Service<Request<String>> for Scripted {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        self.calls.lock().push(request.into_body());
        let (status, rows) = self.script.lock().pop().unwrap_or((200, &[]));
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        *response.headers_mut() = headers(rows);
        ready(Ok(response))
    }
}

fn request(method: &Method) -> Request<String> {
    let request = Request::builder().method(method).uri("http://api.example.com/v1");
    request.body("hello".to_owned()).unwrap()
}

async fn status(script: &[(u16, Rows)], method: Method) -> (u16, usize) {
    let server = Scripted::new(script);
    let pacers = Pacers::new(Settings::new());
    let mut paced = PaceLayer::new(pacers).retrying().layer(server.clone());
    let response = paced.call(request(&method)).await.unwrap();
    assert!(server.calls.lock().iter().all(|body| body == "hello"));
    (response.status().as_u16(), server.calls())
}

const TROUBLE: (u16, Rows) = (502, &[]);
const SOON: Rows = &[("retry-after-ms", "20")];

#[tokio::test(start_paused = true)]
async fn what_a_limit_refused_is_sent_again_whatever_it_does() {
    assert_eq!(status(&[(429, SOON)], Method::POST).await, (200, 2));
    assert_eq!(status(&[(429, &[])], Method::POST).await, (200, 2));
    assert_eq!(
        status(&[(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "5")])], Method::POST)
            .await,
        (200, 2)
    );
}

/// What is exhausted may be a disk, in the midst of the work.
#[tokio::test(start_paused = true)]
async fn a_grpc_call_is_sent_again_only_if_the_server_says_when() {
    assert_eq!(status(&[(200, &[("grpc-status", "8")])], Method::POST).await, (200, 1));
    const WANTED: Rows = &[("grpc-status", "8"), ("x-should-retry", "true")];
    assert_eq!(status(&[(200, WANTED)], Method::POST).await, (200, 2));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_sent_again_only_if_that_does_no_harm() {
    for trouble in [502, 503, 504] {
        assert_eq!(status(&[(trouble, &[])], Method::GET).await, (200, 2), "{trouble}");
        assert_eq!(status(&[(trouble, &[])], Method::PUT).await, (200, 2), "{trouble}");
        assert_eq!(status(&[(trouble, &[])], Method::POST).await, (trouble, 1), "{trouble}");
        assert_eq!(status(&[(trouble, SOON)], Method::POST).await, (trouble, 1), "{trouble}");
    }
    for fault in [400, 401, 404, 409, 500] {
        assert_eq!(status(&[(fault, &[])], Method::GET).await, (fault, 1), "{fault}");
    }
}

/// Some servers say 403 where a limit refuses, but most mean that it will not do.
#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_sent_again_only_if_the_server_says_when_and_it_does_no_harm() {
    const EMPTY: Rows = &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")];
    assert_eq!(status(&[(403, SOON)], Method::GET).await, (200, 2));
    assert_eq!(status(&[(403, SOON)], Method::POST).await, (403, 1));
    assert_eq!(status(&[(403, EMPTY)], Method::GET).await, (403, 1));
    assert_eq!(status(&[(403, &[])], Method::GET).await, (403, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_no_retry_gets_none() {
    let rows: [Rows; 2] = [&[("x-should-retry", "false")], &[("grpc-retry-pushback-ms", "-1")]];
    for row in rows {
        assert_eq!(status(&[(429, row)], Method::GET).await, (429, 1), "{row:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_more_often_than_allowed() {
    let refusals = [(429, SOON); 10];
    assert_eq!(status(&refusals, Method::GET).await, (429, 3));
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_their_budget() {
    let server = Scripted::new(&[TROUBLE; 400]);
    let settings = Settings::new().retry_ratio(0.1);
    let mut paced = PaceLayer::new(Pacers::new(settings)).retrying().layer(server.clone());
    for _ in 0..100 {
        paced.call(request(&Method::GET)).await.unwrap();
    }
    // Five at first, and a tenth of what was asked for. Retries earn none.
    let retries = server.calls() - 100;
    assert!((14..=15).contains(&retries), "{retries}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_would_wait_too_long_costs_none() {
    const LONG: Rows = &[("retry-after", "60")];
    let server = Scripted::new(&[[(429, LONG); 10], [TROUBLE; 10]].concat());
    let settings = Settings::new().retry_ratio(0.0).max_wait(Duration::from_secs(1));
    let mut paced = PaceLayer::new(Pacers::new(settings)).retrying().layer(server.clone());
    for _ in 0..10 {
        paced.call(request(&Method::GET)).await.unwrap();
        tokio::time::advance(Duration::from_secs(70)).await;
    }
    assert_eq!(server.calls(), 10);
    tokio::time::advance(Duration::from_secs(700)).await;
    // The five of the beginning are still there.
    for _ in 0..4 {
        paced.call(request(&Method::GET)).await.unwrap();
    }
    assert_eq!(server.calls(), 10 + 4 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_given_up_while_it_waits_costs_none() {
    let server = Scripted::new(&[TROUBLE; 6]);
    let settings = Settings::new().retry_ratio(0.0);
    let mut paced = PaceLayer::new(Pacers::new(settings)).retrying().layer(server.clone());
    for n in 1..=5 {
        let waits = tokio::spawn(paced.call(request(&Method::GET)));
        while server.calls() < n {
            tokio::task::yield_now().await;
        }
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
    }
    let response = paced.call(request(&Method::GET)).await.unwrap();
    assert_eq!((response.status().as_u16(), server.calls()), (200, 5 + 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_gets_time() {
    let mut pauses = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(status(&[TROUBLE; 2], Method::GET).await, (200, 3));
        pauses.push(began.elapsed().as_millis());
    }
    // A tenth of a second, then twice that, each between a half and three halves of it.
    assert!(pauses.iter().all(|millis| (150..=455).contains(millis)), "{pauses:?}");
    pauses.dedup();
    assert!(pauses.len() > 10, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_gets_the_time_that_it_asks_for() {
    const SECONDS: Rows = &[("retry-after", "5")];
    const MINUTES: Rows = &[("retry-after", "120")];
    for trouble in [502, 504] {
        let began = Instant::now();
        assert_eq!(status(&[(trouble, SECONDS)], Method::GET).await, (200, 2));
        let took = began.elapsed().as_millis();
        assert!((5_000..=5_500).contains(&took), "{trouble}: {took} ms");
        // Longer than anybody waits: the answer that there is, and at once.
        let began = Instant::now();
        assert_eq!(status(&[(trouble, MINUTES)], Method::GET).await, (trouble, 1));
        assert_eq!(began.elapsed(), Duration::ZERO, "{trouble}");
    }
}

/// However often it is sent.
#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_allowed_in_all() {
    const TWENTY: Rows = &[("retry-after", "20")];
    let server = Scripted::new(&[(429, TWENTY); 3]);
    let settings = Settings::new().max_wait(Duration::from_secs(30));
    let mut paced = PaceLayer::new(Pacers::new(settings)).retrying().layer(server.clone());
    let began = Instant::now();
    let response = paced.call(request(&Method::GET)).await.unwrap();
    assert_eq!((response.status().as_u16(), server.calls()), (429, 2));
    assert!(began.elapsed() <= Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_retrying_everything_is_sent_once() {
    let server = Scripted::new(&[(429, SOON)]);
    let mut paced = PaceLayer::new(Pacers::new(Settings::new())).layer(server.clone());
    let response = paced.call(request(&Method::GET)).await.unwrap();
    assert_eq!((response.status().as_u16(), server.calls()), (429, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_may_not_wait_is_told_how_long_it_would_be() {
    let server = Scripted::new(&[(429, &[("retry-after", "60")])]);
    let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(1)));
    let mut paced = PaceLayer::new(pacers).retrying().layer(server.clone());
    // There is an answer already, so it is given.
    let response = paced.call(request(&Method::GET)).await.unwrap();
    assert_eq!(response.status(), 429);
    let Err(Error::Limited(too_long)) = paced.call(request(&Method::GET)).await else {
        panic!("it was sent");
    };
    assert!(too_long.wait() >= Duration::from_secs(59));
    assert_eq!(server.calls(), 1);
}

/// Three are left, for longer than anybody waits.
#[tokio::test(start_paused = true)]
async fn what_a_request_asks_for_is_found_in_its_extensions() {
    const THREE: Rows = &[
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "3"),
        ("x-ratelimit-reset", "3600"),
    ];
    let server = Scripted::new(&[(200, THREE); 2]);
    let pacers = Pacers::new(Settings::new());
    let mut paced = PaceLayer::new(pacers.clone()).layer(server.clone());
    let asking = |ask: Ask| {
        let mut request = request(&Method::GET);
        request.extensions_mut().insert(ask);
        request
    };
    let (search, cost) = (Some("search"), 4);
    let ask = Ask { operation: search, ..Priority::High.into() };
    paced.call(asking(ask)).await.unwrap();
    assert!(matches!(paced.call(asking(Ask { cost, ..ask })).await, Err(Error::Limited(_))));
    // Another operation knows nothing of it.
    paced.call(asking(Ask { cost, ..Ask::default() })).await.unwrap();
    assert_eq!(server.calls(), 2);
    let uri = http::Uri::from_static("http://api.example.com/v1");
    assert_eq!(pacers.pacer_for(&uri, &headers(&[]), ask).status().limits[0].remaining, 3);
}
