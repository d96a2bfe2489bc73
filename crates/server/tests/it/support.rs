//! A service to be limited, and how to ask it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate_engine::FakeClock;
use tollgate_server::{Caller, LimitedBody, Limits, Policy, Verdict};
use tower_layer::Layer;
use tower_service::Service;

/// A service that answers by a function, and must be asked whether it is ready before each call.
#[derive(Debug)]
pub struct Handler<F> {
    answer: F,
    is_ready: bool,
}

pub fn handler<F: Fn(&Request<()>) -> Response<Full<Bytes>>>(answer: F) -> Handler<F> {
    Handler { answer, is_ready: false }
}

/// Says that it was served.
pub fn hello(_: &Request<()>) -> Response<Full<Bytes>> {
    Response::new(Full::from("hello"))
}

impl<F: Clone> Clone for Handler<F> {
    fn clone(&self) -> Handler<F> {
        Handler { answer: self.answer.clone(), is_ready: false }
    }
}

impl<F: Fn(&Request<()>) -> Response<Full<Bytes>>> Service<Request<()>> for Handler<F> {
    type Response = Response<Full<Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Response<Full<Bytes>>, std::convert::Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without being ready");
        std::future::ready(Ok((self.answer)(&request)))
    }
}

/// A response, read.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// If it is told.
    pub told: Option<Verdict>,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn verdict(&self) -> &Verdict {
        self.told.as_ref().expect("a layer that tells")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Asks and reads the answer.
pub async fn ask<S>(service: &mut S, request: Request<()>) -> Answer
where
    S: Service<Request<()>, Response = Response<LimitedBody<Full<Bytes>>>>,
    S::Error: std::fmt::Debug,
{
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let told = parts.extensions.get::<Verdict>().cloned();
    Answer { status: parts.status, headers: parts.headers, told, body }
}

pub fn policy(text: &str) -> Policy {
    Policy::of("policy.yaml", text.as_bytes())
        .unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

/// Limits on a clock that stands still.
pub fn limits(text: &str) -> (Limits<FakeClock>, FakeClock) {
    let clock = FakeClock::default();
    (Limits::with_clock(policy(text), clock.clone()), clock)
}

pub type Asked = Response<LimitedBody<Full<Bytes>>>;

/// A limited service that says hello to the user of `acme` that `x-user` names.
pub fn acme<C: tollgate_engine::Clock + 'static>(
    limits: &Limits<C>,
) -> impl Service<Request<()>, Response = Asked, Error = std::convert::Infallible, Future: Send>
+ Clone
+ Send
+ use<C> {
    limits
        .layer(|request| Caller::of("acme").user(text(request.headers, "x-user")))
        .layer(handler(hello))
}

pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

pub fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}
