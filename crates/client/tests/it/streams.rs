//! gRPC calls of which nothing comes but the head, for a long time or at all.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tollgate_client::{Ask, PaceLayer, Pacers, Settings};
use tower_layer::Layer;
use tower_service::Service;

use crate::headers;

const URI: &str = "http://api.example.com/chat.Chat/Subscribe";

/// What comes after a head: nothing, or the end.
#[derive(Debug)]
struct Rest(Option<HeaderMap>);

impl Body for Rest {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            None => Poll::Pending,
        }
    }
}

/// A hundred at once and ten a second; what it tells of that is in its heads.
#[derive(Clone, Default)]
struct Subscriptions {
    asked: Arc<AtomicU64>,
    ends: Option<HeaderMap>,
}

impl Service<Request<()>> for Subscriptions {
    type Response = Response<Rest>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Rest>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let asked = 1 + self.asked.fetch_add(1, Relaxed);
        let remaining = format!(r#""user-second";r={};t=1"#, 100u64.saturating_sub(asked));
        let mut response = Response::new(Rest(self.ends.clone()));
        *response.headers_mut() = headers(&[("content-type", "application/grpc")]);
        if self.ends.is_none() {
            let policy = r#""user-second";q=100;w=10"#;
            let told = headers(&[("ratelimit-policy", policy), ("ratelimit", &remaining)]);
            response.headers_mut().extend(told);
        }
        ready(Ok(response))
    }
}

fn request() -> Request<()> {
    Request::post(URI).body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn streams_of_which_nothing_comes_hold_nobody_up() {
    let pacers = Pacers::new(Settings::new());
    let mut paced = PaceLayer::new(pacers.clone()).layer(Subscriptions::default());
    let mut open = Vec::new();
    for _ in 0..50 {
        open.push(paced.call(request()).await.unwrap());
    }
    let status = pacers.pacer(&Uri::from_static(URI), &HeaderMap::new()).status();
    assert_eq!((status.in_flight, status.next_in), (0, Duration::ZERO), "{status:?}");
    assert_eq!(status.limits[0].remaining, 50);
    drop(open);
    let status = pacers.pacer(&Uri::from_static(URI), &HeaderMap::new()).status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (0, 50));
}

/// A head is no sign that a call passed: else each refusal would be the first.
#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_after_their_head_are_backed_off_from_ever_longer() {
    let ends = Some(headers(&[("grpc-status", "8")]));
    let server = Subscriptions { ends, ..Subscriptions::default() };
    let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(100)));
    let mut paced = PaceLayer::new(pacers.clone()).layer(server);
    for _ in 0..12 {
        let mut response = paced.call(request()).await.unwrap();
        assert!(response.body_mut().frame().await.is_some());
    }
    let next_in = pacers.pacer(&Uri::from_static(URI), &HeaderMap::new()).status().next_in;
    assert!(next_in >= Duration::from_secs(10), "{next_in:?}");
}

/// That it passed its body hears.
#[tokio::test(start_paused = true)]
async fn a_call_that_passes_shows_that_the_server_wants_to_be_asked_again() {
    let pacers = Pacers::new(Settings::new());
    let pacer = pacers.pacer(&Uri::from_static(URI), &HeaderMap::new());
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    permit.heard(StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "34000000")]));
    tokio::time::advance(Duration::from_secs(300)).await;
    let ends = Some(headers(&[("grpc-status", "0")]));
    let server = Subscriptions { ends, ..Subscriptions::default() };
    let mut response = PaceLayer::new(pacers).layer(server).call(request()).await.unwrap();
    assert!(pacer.status().next_in >= Duration::from_secs(299), "{:?}", pacer.status());
    assert!(response.body_mut().frame().await.is_some());
    assert!(pacer.status().next_in < Duration::from_secs(1), "{:?}", pacer.status());
}
