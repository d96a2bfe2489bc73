//! Many callers, and a server with little left for them: what is sent to it, in the runtime's paused time.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tollgate_client::{Ask, Pacer, Priority, Settings};

use crate::headers;

type Rows = &'static [(&'static str, &'static str)];

/// How long a request takes to the server, and its answer back.
const ONE_WAY: Duration = Duration::from_millis(10);

fn patient() -> Settings {
    Settings::new().max_wait(Duration::from_secs(600))
}

/// So many callers who each ask again as soon as they are answered.
fn callers(
    number: usize,
    pacer: &Pacer,
    serve: impl Fn() -> (StatusCode, HeaderMap) + Clone + Send + 'static,
) {
    for _ in 0..number {
        let (pacer, serve) = (pacer.clone(), serve.clone());
        tokio::spawn(async move {
            while let Ok(permit) = pacer.acquire(Ask::default()).await {
                sleep(ONE_WAY).await;
                let (status, headers) = serve();
                sleep(ONE_WAY).await;
                permit.heard(status, &headers);
            }
        });
    }
}

/// Nothing is left, and none of them says for how long. Epochs are seen from the date that comes with them.
const NOT_FOR_HOW_LONG: [(&str, Rows); 6] = [
    ("only what is left", &[("ratelimit-remaining", "0")]),
    ("a reset that is over", &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "0")]),
    (
        "a clock that is behind",
        &[
            ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1799999999"),
        ],
    ),
    ("no delay", &[("retry-after", "0"), ("ratelimit-remaining", "0")]),
    (
        "a window of no length",
        &[("ratelimit", "limit=100, remaining=0, reset=0"), ("ratelimit-policy", "100;w=0")],
    ),
    (
        "a window without a limit",
        &[("ratelimit", r#""a";r=0;t=0"#), ("ratelimit-policy", r#""a";w=10"#)],
    ),
];

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_everything_is_left_alone_ever_longer() {
    for (what, rows) in NOT_FOR_HOW_LONG {
        let pacer = Pacer::new(patient());
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        callers(50, &pacer, move || {
            *count.lock() += 1;
            (StatusCode::TOO_MANY_REQUESTS, headers(rows))
        });
        sleep(Duration::from_secs(120)).await;
        let asked = *asked.lock();
        assert!((4..=40).contains(&asked), "{what}: asked {asked} times in two minutes");
    }
}

/// A window in which it admits so many, and shows as most servers do: limit, what remains, and when it is reset.
struct Windowed {
    limit: u64,
    window: Duration,
    began: Instant,
    used: u64,
    passed: u64,
    refused: u64,
}

impl Windowed {
    fn new(limit: u64, window: Duration) -> Arc<Mutex<Windowed>> {
        let began = Instant::now();
        Arc::new(Mutex::new(Windowed { limit, window, began, used: 0, passed: 0, refused: 0 }))
    }

    fn serve(&mut self) -> (StatusCode, HeaderMap) {
        while self.began.elapsed() >= self.window {
            self.began += self.window;
            self.used = 0;
        }
        let is_admitted = self.used < self.limit;
        let status = if is_admitted { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        self.used += u64::from(is_admitted);
        self.passed += u64::from(is_admitted);
        self.refused += u64::from(!is_admitted);
        let reset = (self.window - self.began.elapsed()).as_secs_f64().ceil();
        let rows = [
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", (self.limit - self.used).to_string()),
            ("x-ratelimit-reset", reset.to_string()),
        ];
        (status, headers(&rows.each_ref().map(|(name, value)| (*name, value.as_str()))))
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_reset_no_more_is_sent_than_comes_back() {
    let server = Windowed::new(60, Duration::from_secs(20));
    let pacer = Pacer::new(patient());
    let at = server.clone();
    callers(500, &pacer, move || at.lock().serve());
    sleep(Duration::from_secs(75)).await;
    let Windowed { passed, refused, .. } = *server.lock();
    assert!(passed >= 220, "passed {passed} of 240, refused {refused}");
    assert!(refused <= 2, "passed {passed}, refused {refused}");
}

const FREE: Ask = Ask { cost: 0, priority: Priority::Low, operation: None };

#[tokio::test(start_paused = true)]
async fn what_costs_nothing_waits_for_no_limit_and_behind_nobody() {
    const EMPTY: Rows =
        &[("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "20")];
    let pacer = Pacer::new(patient());
    pacer.try_acquire(Ask::default()).unwrap().heard(StatusCode::OK, &headers(EMPTY));
    assert!(pacer.try_acquire(Ask::default()).is_none());
    assert!(pacer.try_acquire(FREE).is_some());
    let waits = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(Ask::default()).await.is_ok() }
    });
    while pacer.status().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert!(pacer.try_acquire(FREE).is_some());
    assert!(waits.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_costs_nothing_waits_where_a_server_wants_to_be_left_alone() {
    let hour = headers(&[("retry-after", "3600")]);
    let pacer = Pacer::new(patient());
    pacer.try_acquire(FREE).unwrap().heard(StatusCode::TOO_MANY_REQUESTS, &hour);
    assert!(pacer.try_acquire(FREE).is_none());
    assert!(pacer.try_acquire(Ask::default()).is_none());
    sleep(Duration::from_secs(300)).await;
    // After so long it is asked all the same: once, until it answers.
    let permit = pacer.try_acquire(FREE).unwrap();
    assert!(pacer.try_acquire(FREE).is_none());
    permit.heard(StatusCode::OK, &HeaderMap::new());
    assert!(pacer.try_acquire(FREE).is_some());
}

/// Of a limit that was wrong it shows nothing, so others still find that out.
#[tokio::test(start_paused = true)]
async fn what_costs_nothing_does_not_ask_for_the_others() {
    let year = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "33000000")];
    let pacer = Pacer::new(patient());
    pacer.try_acquire(Ask::default()).unwrap().heard(StatusCode::OK, &headers(&year));
    for _ in 0..3 {
        assert!(pacer.try_acquire(Ask::default()).is_none());
        sleep(Duration::from_secs(100)).await;
        pacer.try_acquire(FREE).unwrap().heard(StatusCode::OK, &HeaderMap::new());
    }
    assert!(pacer.try_acquire(Ask::default()).is_some());
}

/// It said once that nothing is left for a year, and nothing any more. What passes by that limit does not ask for the others.
#[tokio::test(start_paused = true)]
async fn what_passes_by_a_limit_does_not_keep_others_from_asking() {
    let year = [
        ("x-ratelimit-limit", "1"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "33000000"),
    ];
    let pacer = Pacer::new(patient());
    pacer.try_acquire(Ask::default()).unwrap().heard(StatusCode::OK, &headers(&year));
    for _ in 0..3 {
        assert!(pacer.try_acquire(Ask::default()).is_none());
        sleep(Duration::from_secs(101)).await;
        let five = Ask { cost: 5, ..Ask::default() };
        pacer.try_acquire(five).unwrap().heard(StatusCode::OK, &HeaderMap::new());
    }
    pacer.try_acquire(Ask::default()).unwrap().heard(StatusCode::OK, &HeaderMap::new());
    assert!(pacer.try_acquire(Ask::default()).is_some());
}

/// Admits so many in any span of its window, and says of each that the reset is a second away: when something comes back, not
/// everything.
struct Rolling {
    limit: usize,
    window: Duration,
    admitted: std::collections::VecDeque<Instant>,
    passed: u64,
    refused: u64,
}

impl Rolling {
    fn new(limit: usize, window: Duration) -> Arc<Mutex<Rolling>> {
        let admitted = std::collections::VecDeque::new();
        Arc::new(Mutex::new(Rolling { limit, window, admitted, passed: 0, refused: 0 }))
    }

    fn serve(&mut self) -> (StatusCode, HeaderMap) {
        while self.admitted.front().is_some_and(|first| first.elapsed() >= self.window) {
            self.admitted.pop_front();
        }
        let is_admitted = self.admitted.len() < self.limit;
        if is_admitted {
            self.admitted.push_back(Instant::now());
        }
        self.passed += u64::from(is_admitted);
        self.refused += u64::from(!is_admitted);
        let rows = [
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", (self.limit - self.admitted.len()).to_string()),
            ("x-ratelimit-reset", "1".to_owned()),
        ];
        let status = if is_admitted { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        (status, headers(&rows.each_ref().map(|(name, value)| (*name, value.as_str()))))
    }
}

/// What it says once too often is no reason to come back. The first time all of it is sent, because it may be the end of a window.
#[tokio::test(start_paused = true)]
async fn a_reset_that_never_comes_nearer_neither_stalls_nor_hammers() {
    for (limit, window) in [(60, 60), (600, 60), (10, 1), (100, 10), (5, 300)] {
        let server = Rolling::new(limit, Duration::from_secs(window));
        let pacer = Pacer::new(patient());
        let at = server.clone();
        callers(200, &pacer, move || at.lock().serve());
        sleep(Duration::from_secs(600)).await;
        let Rolling { passed, refused, .. } = *server.lock();
        let most = limit as u64 * (600 / window);
        let told = format!("{limit} in {window} s: passed {passed} of {most}, refused {refused}");
        println!("{told}");
        assert!(passed >= most / 4, "{told}");
        assert!(refused <= limit as u64 + passed / 10 + 60, "{told}");
    }
}

/// It says so whatever becomes of a request: once a second is what it asks for, but not to be refused each time.
#[tokio::test(start_paused = true)]
async fn a_reset_that_is_always_a_second_away_is_believed_while_something_passes() {
    const EMPTY: Rows =
        &[("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")];
    for (status, asked) in [(StatusCode::OK, 400..=620), (StatusCode::TOO_MANY_REQUESTS, 20..=150)]
    {
        let pacer = Pacer::new(patient());
        let count = Arc::new(Mutex::new(0));
        let at = count.clone();
        callers(50, &pacer, move || {
            *at.lock() += 1;
            (status, headers(EMPTY))
        });
        sleep(Duration::from_secs(600)).await;
        let times = *count.lock();
        assert!(asked.contains(&times), "{status}: asked {times} times in ten minutes");
    }
}
