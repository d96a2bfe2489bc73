//! The services called in this process, as hyper would call them: CPU time of this thread.

use std::hint::black_box;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, HeaderValue, Request};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tower_service::Service;

use super::Rounds;
use super::services::{Side, USER};
use crate::allocations;
use crate::measure::scatter;
use crate::report::Report;

const ROUNDS: usize = 41;
const CALLS: u64 = 20_000;
const USERS: u64 = 1_000;

pub fn run(report: &mut Report) -> Result<(), String> {
    let runtime = runtime();
    let callers = callers();
    let routers = Side::ALL.map(Side::router);
    let allocated = Side::ALL.map(|side| {
        let router = &routers[side as usize];
        runtime.block_on(ask(router, &callers, USERS * 10));
        let ((), allocated) = allocations::count(|| runtime.block_on(ask(router, &callers, 1_000)));
        allocated as f64 / 1_000.0
    });
    let rounds = Rounds::measure(ROUNDS, |side| {
        let before = cpu_nanos();
        runtime.block_on(ask(&routers[side as usize], &callers, CALLS));
        Ok((cpu_nanos() - before) / 1_000.0 / CALLS as f64)
    })?;
    let bare = allocated[Side::Bare as usize];
    for side in Side::ALL {
        report.row(&[
            ("bench", "inside".into()),
            ("side", side.name().into()),
            ("cpu_us", rounds.median(side).into()),
            ("added_us", rounds.added(side).into()),
            ("added_allocations", (allocated[side as usize] - bare).into()),
        ]);
    }
    Ok(())
}

/// So many requests to one side, for whoever counts from outside.
pub fn calls(side: Side, calls: u64) {
    runtime().block_on(ask(&side.router(), &callers(), calls));
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

/// The headers of requests from everybody.
fn callers() -> Vec<HeaderMap> {
    let of = |user| {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:8080"));
        headers.insert("user-agent", HeaderValue::from_static("bench/1.0"));
        headers.insert("accept", HeaderValue::from_static("*/*"));
        let user = HeaderValue::from_str(&format!("user-{user:012}"));
        headers.insert(USER, user.expect("plain text"));
        headers
    };
    (0..USERS).map(of).collect()
}

/// Each request has the service cloned for it, and its answer read.
async fn ask(router: &Router, callers: &[HeaderMap], calls: u64) {
    for call in 0..calls {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = http::Uri::from_static("/bench");
        *request.headers_mut() = callers[scatter(0, call, USERS) as usize].clone();
        let mut service = router.clone();
        let response = service.call(request).await.expect("it cannot fail");
        assert_eq!(response.status(), 200);
        let (head, body) = response.into_parts();
        black_box((head, to_bytes(body, usize::MAX).await.expect("a short text")));
    }
}

fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
