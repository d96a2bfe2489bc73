//! What becomes of requests that a limit does not admit, and of their responses.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::Request;
use tokio::time::Instant;
use tollgate_engine::{Clock, Time};
use tollgate_server::{Caller, Limits, Outcome, Verdict};
use tower_layer::Layer;

use crate::support::{self, acme, ask, get, handler, hello, limits, policy, text};

fn plan(strategy: &str) -> String {
    format!(
        "
plans: {{ free: {{ rate_limit: {{ sustained: {{ rate: 1 }}, scope: user, {strategy} }} }} }}
tenants: [ {{ id: acme, plan: free }} ]
"
    )
}

/// A clock that moves with the runtime's paused time.
#[derive(Clone, Debug)]
pub struct PausedClock(pub Instant);

impl Clock for PausedClock {
    fn now(&self) -> Time {
        Time::from_secs(1_800_000_000) + self.0.elapsed()
    }
}

#[tokio::test]
async fn refused_by_reject_it_is_told_when_to_come_back_and_the_service_is_not_asked() {
    let (limits, clock) = limits(&plan("strategy: reject"));
    let served = AtomicUsize::new(0);
    let counting = handler(|_| {
        served.fetch_add(1, Relaxed);
        http::Response::default()
    });
    let mut service = limits.layer(|_| Caller::of("acme").user("ada")).layer(counting);
    ask(&mut service, get("/")).await;
    clock.advance(Duration::from_millis(250));
    let refused = ask(&mut service, get("/")).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after-ms"), "750");
    assert_eq!(refused.verdict().outcome(), Outcome::Refused);
    assert_eq!(refused.verdict().retry_after(), Some(Duration::from_millis(750)));
    assert_eq!(refused.verdict().policy().unwrap().to_string(), "user-second");
    assert_eq!(refused.verdict().source(), Some("plan:free"));
    assert_eq!(served.load(Relaxed), 1);
    clock.advance(Duration::from_millis(750));
    assert_eq!(ask(&mut service, get("/")).await.status, 200);
    assert_eq!(served.load(Relaxed), 2);
}

#[tokio::test]
async fn a_refusal_of_head_tells_the_length_of_what_it_leaves_out() {
    let (limits, _) = limits(&plan("strategy: reject"));
    let mut service = limits.layer(|_| Caller::of("acme").user("ada")).layer(handler(hello));
    ask(&mut service, get("/")).await;
    let refused = ask(&mut service, get("/")).await;
    let head = ask(&mut service, Request::head("/").body(()).unwrap()).await;
    assert_eq!((head.status, head.body.len()), (refused.status, 0));
    assert_eq!(head.header("content-length"), refused.body.len().to_string());
}

#[tokio::test]
async fn degraded_it_passes_marked_on_both_sides_and_nobody_marks_himself() {
    let (limits, _) = limits(&plan("strategy: degrade"));
    let told = handler(|request| {
        let verdict = request.extensions().get::<Verdict>().unwrap();
        let mark = text(request.headers(), "x-ratelimit-degraded");
        http::Response::new(format!("{mark} {:?}", verdict.outcome()).into())
    });
    let layer = limits.layer(|_| Caller::of("acme").user("ada"));
    let mut service = layer.telling_service().layer(told);
    let marked = || Request::get("/").header("x-ratelimit-degraded", "me").body(()).unwrap();
    let first = ask(&mut service, marked()).await;
    assert_eq!((&*first.body, first.header("x-ratelimit-degraded")), (&b" Admitted"[..], ""));
    let second = ask(&mut service, marked()).await;
    assert_eq!(second.status, 200);
    assert_eq!(&*second.body, b"user-second Degraded");
    assert_eq!(second.header("x-ratelimit-degraded"), "user-second");
    assert_eq!(second.verdict().remaining(), Some(0));
    // Where nothing degrades, nobody is degraded, whether or not anybody is told the verdict.
    let says = handler(|request| {
        http::Response::new(text(request.headers(), "x-ratelimit-degraded").to_owned().into())
    });
    for strategy in ["strategy: reject", "strategy: observe"] {
        let layer = || support::limits(&plan(strategy)).0.layer(|_| Caller::of("acme").user("ada"));
        for layer in [layer(), layer().telling_service()] {
            let mut service = layer.layer(says.clone());
            let free = ask(&mut service, marked()).await;
            assert_eq!((&*free.body, free.header("x-ratelimit-degraded")), (&b""[..], ""));
        }
    }
    let (limits, _) = support::limits(&plan("strategy: reject"));
    let free = limits.layer(|_| Caller::of("acme").user("ada").cost(0));
    assert_eq!(&*ask(&mut free.layer(says), marked()).await.body, b"");
}

/// The outer one's limit is used up, the inner one's is not.
#[tokio::test]
async fn what_one_layer_has_marked_another_further_in_does_not_unmark() {
    let says = handler(|request| {
        http::Response::new(text(request.headers(), "x-ratelimit-degraded").to_owned().into())
    });
    let layer = |strategy| limits(&plan(strategy)).0.layer(|_| Caller::of("acme"));
    let inner = layer("strategy: observe").same_body().layer(says);
    let mut service = layer("strategy: degrade").layer(inner);
    let marked = || Request::get("/").header("x-ratelimit-degraded", "me").body(()).unwrap();
    let marks = [ask(&mut service, marked()).await, ask(&mut service, marked()).await];
    assert_eq!(marks.map(|answer| answer.body), ["", "user-second"]);
}

#[tokio::test]
async fn the_mark_of_a_gateway_in_front_is_kept_where_the_layer_trusts_it() {
    let says = handler(|request| {
        http::Response::new(text(request.headers(), "x-ratelimit-degraded").to_owned().into())
    });
    let layer = limits(&plan("strategy: reject")).0.layer(|_| Caller::of("acme"));
    let marked = || Request::get("/").header("x-ratelimit-degraded", "user-day").body(()).unwrap();
    let mut service = layer.trusting_marks().layer(says);
    assert_eq!(&*ask(&mut service, marked()).await.body, b"user-day");
}

#[tokio::test]
async fn observed_it_passes_and_nothing_is_told() {
    let (limits, _) = limits(&plan("strategy: observe"));
    let mut service = acme(&limits);
    for _ in 0..3 {
        let answer = ask(&mut service, get("/")).await;
        assert_eq!((answer.status.as_u16(), answer.headers.len()), (200, 0));
        assert_eq!(answer.verdict().outcome(), Outcome::Admitted);
        assert!(answer.verdict().policy().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn queued_it_waits_for_its_turn_and_no_longer_than_it_may() {
    let began = Instant::now();
    let queue = plan("strategy: queue, queue: { max_wait_ms: 1500, max_depth: 10 }");
    let limits = Limits::with_clock(policy(&queue), PausedClock(began));
    let service = acme(&limits);
    let asked = (0..4).map(|_| {
        let mut service = service.clone();
        async move { (ask(&mut service, get("/")).await, began.elapsed()) }
    });
    let mut answers = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for one in asked {
        tasks.spawn(one);
    }
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer.unwrap());
    }
    let mut seen: Vec<_> =
        answers.iter().map(|(answer, at)| (answer.status.as_u16(), at.as_millis() / 100)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(200, 0), (200, 10), (429, 0), (429, 0)]);
    let refused = answers.iter().find(|(answer, _)| answer.status == 429).unwrap();
    assert!(!refused.0.header("retry-after").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_leaves_the_line() {
    let queue = plan("strategy: queue, queue: { max_wait_ms: 5000, max_depth: 1 }");
    let limits = Limits::with_clock(policy(&queue), PausedClock(Instant::now()));
    let mut service = acme(&limits);
    ask(&mut service, get("/")).await;
    let mut impatient = service.clone();
    let left = tokio::time::timeout(Duration::from_millis(10), ask(&mut impatient, get("/"))).await;
    assert!(left.is_err());
    assert_eq!(ask(&mut service, get("/")).await.status, 200);
}

#[tokio::test]
async fn silenced_limits_tell_only_when_to_come_back() {
    let (limits, _) = limits(&plan("response_headers: false"));
    let mut service = acme(&limits);
    let answer = ask(&mut service, get("/")).await;
    assert_eq!((answer.headers.len(), answer.verdict().remaining()), (0, Some(0)));
    let refused = ask(&mut service, get("/")).await;
    assert_eq!((refused.header("retry-after"), refused.header("x-ratelimit-limit")), ("1", ""));
}
