//! What a request is said to cost, and limits that count something else: requests, or nothing of it at all.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, advance};
use tollgate_client::{Ask, Pacer, Permit, Settings};

use crate::headers;

const OK: StatusCode = StatusCode::OK;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

fn costing(cost: u64) -> Ask {
    Ask { cost, ..Ask::default() }
}

/// A window of an hour, of which so many are left.
fn hour(limit: u64, remaining: u64) -> HeaderMap {
    headers(&[
        ("x-ratelimit-limit", &limit.to_string()),
        ("x-ratelimit-remaining", &remaining.to_string()),
        ("x-ratelimit-reset", "3600"),
    ])
}

fn now(pacer: &Pacer, cost: u64) -> Permit {
    pacer.try_acquire(costing(cost)).unwrap()
}

fn left(pacer: &Pacer) -> u64 {
    pacer.status().limits[0].remaining
}

/// As Tollgate shows a bucket of a hundred tokens a minute, and a quota of twenty requests a day.
struct Server {
    began: Instant,
    tokens: f64,
    at: f64,
    requests: u64,
}

impl Server {
    fn new() -> Server {
        Server { began: Instant::now(), tokens: 100.0, at: 0.0, requests: 20 }
    }

    fn serve(&mut self, cost: u64) -> (StatusCode, HeaderMap) {
        let now = self.began.elapsed().as_secs_f64();
        self.tokens = (self.tokens + (now - self.at) * 100.0 / 60.0).min(100.0);
        self.at = now;
        let is_admitted = self.tokens >= cost as f64 && self.requests > 0;
        if is_admitted {
            self.tokens -= cost as f64;
            self.requests -= 1;
        }
        let full_in = ((100.0 - self.tokens) * 0.6).ceil();
        let (tokens, requests) = (self.tokens as u64, self.requests);
        let reset = 80_000 - self.began.elapsed().as_secs();
        let standing =
            format!(r#""user-minute";r={tokens};t={full_in}, "user-day";r={requests};t={reset}"#);
        let policy = r#""user-minute";q=100;w=60, "user-day";q=20"#;
        let status = if is_admitted { OK } else { REFUSED };
        (status, headers(&[("ratelimit-policy", policy), ("ratelimit", &standing)]))
    }
}

/// Of what may be chance one request finds out, in seconds.
#[tokio::test(start_paused = true)]
async fn of_a_quota_that_counts_requests_all_are_sent_whatever_they_cost() {
    for cost in [50, 15] {
        let (pacer, mut server) = (Pacer::new(Settings::new()), Server::new());
        for nth in 1..=20 {
            let permit = pacer.acquire(costing(cost)).await;
            let permit = permit.unwrap_or_else(|too_long| panic!("the {nth}th: {too_long}"));
            let (status, headers) = server.serve(cost);
            assert_eq!(status, OK, "the {nth}th of {cost}");
            permit.heard(status, &headers);
        }
        assert!(pacer.acquire(costing(cost)).await.is_err());
    }
}

/// A window that ends when it was to, whenever it is told, as servers show it that do not say how long it is.
struct Window {
    limit: u64,
    ends: Instant,
}

impl Window {
    fn of(limit: u64) -> Window {
        Window { limit, ends: Instant::now() + Duration::from_secs(3_600) }
    }

    fn told(&self, left: u64) -> HeaderMap {
        let reset = (self.ends - Instant::now()).as_secs();
        headers(&[
            ("x-ratelimit-limit", &*self.limit.to_string()),
            ("x-ratelimit-remaining", &left.to_string()),
            ("x-ratelimit-reset", &reset.to_string()),
        ])
    }

    /// One request after the other, a second apart at least, after each of which so many are left.
    async fn passes(&self, pacer: &Pacer, cost: u64, left: impl IntoIterator<Item = u64>) {
        for left in left {
            advance(Duration::from_secs(1)).await;
            let permit = pacer.acquire(costing(cost)).await.unwrap();
            permit.heard(OK, &self.told(left));
        }
    }
}

/// What one that is on its way counts as.
fn counts_as(pacer: &Pacer, cost: u64) -> u64 {
    let before = left(pacer);
    let _on_its_way = now(pacer, cost);
    before - left(pacer)
}

#[tokio::test(start_paused = true)]
async fn a_window_that_goes_down_by_one_for_each_counts_requests() {
    let pacer = Pacer::new(Settings::new());
    Window::of(2_500).passes(&pacer, 50, (992..=1_000).rev()).await;
    assert_eq!(counts_as(&pacer, 70), 1);
}

/// A limit of costs may show each of these, or chance.
#[tokio::test(start_paused = true)]
async fn what_may_be_chance_or_a_cost_is_taken_for_a_cost() {
    type Left = fn(u64) -> u64;
    let rows: [(&str, u64, Left); 6] = [
        ("a few", 6, |nth| 2_400 - nth),
        ("less than was said", 12, |nth| 2_400 - 12 * nth),
        ("nothing", 12, |_| 2_400),
        ("rounded", 12, |nth| 2_400 - nth / 4 * 100),
        ("two nodes in turns", 12, |nth| 2_400 - nth / 2 * 15 - nth % 2),
        ("a first one that is full", 12, |nth| 2_486 - 14 * nth),
    ];
    for (what, answers, left) in rows {
        let pacer = Pacer::new(Settings::new());
        Window::of(2_500).passes(&pacer, 15, (0..answers).map(left)).await;
        assert_eq!(counts_as(&pacer, 15), 15, "{what}");
    }
}

/// A bucket that is filled by fourteen a second, of which each is charged fifteen. When it is full again is later each time.
#[tokio::test(start_paused = true)]
async fn what_comes_back_all_the_time_is_not_taken_for_requests() {
    let pacer = Pacer::new(Settings::new());
    for left in (1_360..1_400).rev() {
        advance(Duration::from_secs(1)).await;
        let reset = format!("{}ms", (2_500 - left) * 1_000 / 14);
        let rows = [
            ("x-ratelimit-limit-tokens", "2500"),
            ("x-ratelimit-remaining-tokens", &*left.to_string()),
            ("x-ratelimit-reset-tokens", &reset),
        ];
        now(&pacer, 15).heard(OK, &headers(&rows));
    }
    assert_eq!(counts_as(&pacer, 15), 15);
}

/// Others made it go down.
#[tokio::test(start_paused = true)]
async fn what_was_turned_down_or_let_by_shows_nothing_of_what_a_limit_counts() {
    for is_marked in [false, true] {
        let (pacer, window) = (Pacer::new(Settings::new()), Window::of(2_500));
        for left in (2_380..=2_400).rev() {
            advance(Duration::from_secs(1)).await;
            let mut headers = window.told(left);
            let status = if is_marked { OK } else { StatusCode::NOT_FOUND };
            if is_marked {
                headers.insert("x-ratelimit-degraded", "day".parse().unwrap());
            }
            now(&pacer, 15).heard(status, &headers);
        }
        assert_eq!(counts_as(&pacer, 15), 15, "marked: {is_marked}");
    }
}

/// As of `OpenAI`: a bucket of requests, which is nearly full. Only one is on its way until that is known.
#[tokio::test(start_paused = true)]
async fn what_costs_more_than_a_limit_has_and_passes_again_and_again_shows_that_it_counts_requests()
{
    let told = || {
        let rows = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
        ];
        headers(&rows)
    };
    let pacer = Pacer::new(Settings::new());
    now(&pacer, 1).heard(OK, &told());
    for _ in 0..2 {
        let one = now(&pacer, 2_000);
        assert!(pacer.try_acquire(costing(2_000)).is_none());
        // Others are not kept waiting.
        now(&pacer, 1).heard(OK, &told());
        one.heard(OK, &told());
    }
    let many: Vec<_> = (0..10).map_while(|_| pacer.try_acquire(costing(2_000))).collect();
    assert_eq!(many.len(), 10);
}

/// A lie, or one that refuses nobody. Whoever took it for a limit of requests would wait for it.
#[tokio::test(start_paused = true)]
async fn a_limit_of_which_nothing_is_left_whatever_passes_is_not_waited_for() {
    let pacer = Pacer::new(Settings::new());
    for _ in 0..5 {
        now(&pacer, 10).heard(OK, &hour(1, 0));
    }
    assert!(pacer.try_acquire(costing(10)).is_some());
}

/// Others only take. And an answer may be overtaken: then more seems to be left than before.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_charged_what_was_said_goes_on_being_charged_that() {
    let pacer = Pacer::new(Settings::new());
    now(&pacer, 30).heard(OK, &hour(10_000, 9_000));
    // Decided after the next one.
    let first = now(&pacer, 30);
    now(&pacer, 30).heard(OK, &hour(10_000, 8_960));
    first.heard(OK, &hour(10_000, 8_930));
    let (one, other) = (now(&pacer, 30), now(&pacer, 30));
    one.heard(OK, &hour(10_000, 8_800));
    other.heard(OK, &hour(10_000, 8_830));
    // And one that comes back in between.
    now(&pacer, 30).heard(OK, &hour(10_000, 8_770));
    advance(Duration::from_secs(3_700)).await;
    now(&pacer, 30).heard(OK, &hour(10_000, 8_765));
    let _on_its_way = now(&pacer, 30);
    assert_eq!(left(&pacer), 8_735);
}

/// Two refusals, one after the other, of which nothing else is the reason.
#[tokio::test(start_paused = true)]
async fn refusals_show_that_a_limit_counts_costs_after_all() {
    let (pacer, window) = (Pacer::new(Settings::new()), Window::of(150));
    window.passes(&pacer, 50, (40..=70).rev()).await;
    for _ in 0..2 {
        let permit = pacer.acquire(costing(50)).await.unwrap();
        permit.heard(REFUSED, &window.told(40));
    }
    advance(Duration::from_secs(60)).await;
    assert!(pacer.try_acquire(costing(50)).is_none());
    assert!(pacer.try_acquire(costing(30)).is_some());
}

/// What is behind the limit, as an upstream that has limits of its own.
#[tokio::test(start_paused = true)]
async fn a_refusal_by_others_does_not_stall_who_is_counted_by_requests() {
    let (pacer, window) = (Pacer::new(Settings::new()), Window::of(150));
    window.passes(&pacer, 50, (40..=70).rev()).await;
    // What was sent together is one event.
    for permit in [now(&pacer, 50), now(&pacer, 50), now(&pacer, 50)] {
        permit.heard(REFUSED, &window.told(40));
    }
    for left in [39, 38] {
        window.passes(&pacer, 50, [left]).await;
        pacer.acquire(costing(50)).await.unwrap().heard(REFUSED, &window.told(left));
    }
    assert!(pacer.acquire(costing(50)).await.is_ok());
}

/// They refuse for so long that the limit is doubted. The next one that passes shows that it was none of its doing.
#[tokio::test(start_paused = true)]
async fn what_was_wrongly_doubted_is_over_with_the_first_that_passes() {
    let (pacer, window) = (Pacer::new(Settings::new()), Window::of(150));
    window.passes(&pacer, 50, (40..=70).rev()).await;
    for _ in 0..2 {
        pacer.acquire(costing(50)).await.unwrap().heard(REFUSED, &window.told(40));
    }
    assert!(pacer.acquire(costing(50)).await.is_err());
    advance(Duration::from_secs(300)).await;
    window.passes(&pacer, 50, (30..40).rev()).await;
}

/// What costs more than a bucket has is refused by that, whatever is left of others.
#[tokio::test(start_paused = true)]
async fn what_one_limit_never_admits_puts_no_other_in_doubt() {
    let pacer = Pacer::new(Settings::new());
    let ends = Instant::now() + Duration::from_secs(80_000);
    let told = |of_bucket: u64, of_day: u64| {
        let reset = (ends - Instant::now()).as_secs();
        let left = format!(r#""minute";r={of_bucket};t=0, "day";r={of_day};t={reset}"#);
        headers(&[
            ("ratelimit", &*left),
            ("ratelimit-policy", r#""minute";q=100;w=60, "day";q=500"#),
        ])
    };
    // What costs so much was not charged to the bucket.
    for left in (400..=460).rev() {
        advance(Duration::from_secs(60)).await;
        pacer.acquire(costing(350)).await.unwrap().heard(OK, &told(99, left));
    }
    for _ in 0..3 {
        pacer.acquire(costing(350)).await.unwrap().heard(REFUSED, &told(100, 240));
    }
    advance(Duration::from_secs(60)).await;
    let _on_its_way = now(&pacer, 50);
    let day = pacer.status().limits.into_iter().find(|limit| limit.name == "day").unwrap();
    assert_eq!(day.remaining, 239);
}

/// A hundred in a minute, of which so many are left.
fn minute(remaining: u64) -> [(&'static str, String); 2] {
    let reset = (100 - remaining) * 60 / 100;
    let policy = r#""user-minute";q=100;w=60"#.to_owned();
    [
        ("ratelimit-policy", policy),
        ("ratelimit", format!(r#""user-minute";r={remaining};t={reset}"#)),
    ]
}

fn told(rows: &[(&'static str, String)], more: &[(&str, &str)]) -> HeaderMap {
    let mut all: Vec<(&str, &str)> = rows.iter().map(|(name, value)| (*name, &**value)).collect();
    all.extend(more);
    headers(&all)
}

#[tokio::test(start_paused = true)]
async fn what_can_never_pass_is_sent_at_once_and_slows_nothing_down() {
    let pacer = Pacer::new(Settings::new());
    now(&pacer, 1).heard(OK, &told(&minute(60), &[]));
    let never = now(&pacer, 350);
    // Nobody waits for it, nor for its answer.
    now(&pacer, 1).heard(OK, &told(&minute(60), &[]));
    assert_eq!(pacer.status().next_in, Duration::ZERO);
    let refusal = told(&minute(60), &[("x-should-retry", "false")]);
    never.heard(REFUSED, &refusal);
    // Also if it is the last word.
    now(&pacer, 350).heard(REFUSED, &refusal);
    let status = pacer.status();
    assert_eq!(status.next_in, Duration::ZERO);
    let limit = &status.limits[0];
    assert!(limit.remaining >= 59 && limit.sharers < 1.1, "{limit:?}");
}

/// A server that does not say that it will never do is a server that refuses: it is not asked the same again and again.
#[tokio::test(start_paused = true)]
async fn what_is_refused_without_a_word_of_never_is_backed_off_from() {
    let pacer = Pacer::new(Settings::new());
    now(&pacer, 1).heard(OK, &told(&minute(60), &[]));
    now(&pacer, 350).heard(REFUSED, &told(&minute(60), &[]));
    assert!(pacer.try_acquire(costing(350)).is_none());
}

/// It waits because the server wants to be left alone, like everybody. Who comes after it waits no longer than that.
#[tokio::test(start_paused = true)]
async fn who_comes_after_what_can_never_pass_waits_no_longer_for_it() {
    let pacer = Pacer::new(Settings::new());
    now(&pacer, 1).heard(OK, &told(&minute(60), &[]));
    now(&pacer, 1).heard(REFUSED, &told(&minute(60), &[("retry-after", "5")]));
    let never = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(costing(350)).await.is_ok() }
    });
    tokio::task::yield_now().await;
    assert_eq!(pacer.status().waiting, 1);
    let began = Instant::now();
    assert!(pacer.acquire(Ask::default()).await.is_ok());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(never.await.unwrap());
}

/// As GitHub names what a call was charged to.
fn resource(name: &str, limit: &str, remaining: &str) -> HeaderMap {
    headers(&[
        ("x-ratelimit-limit", limit),
        ("x-ratelimit-remaining", remaining),
        ("x-ratelimit-reset", "60"),
        ("x-ratelimit-resource", name),
    ])
}

#[tokio::test(start_paused = true)]
async fn what_is_charged_to_one_resource_uses_up_no_other() {
    let pacer = Pacer::new(Settings::new());
    let search = || {
        let limits = pacer.status().limits;
        limits.into_iter().find(|limit| limit.name == "search").unwrap().remaining
    };
    now(&pacer, 1).heard(OK, &resource("search", "30", "29"));
    for n in 1..=40 {
        now(&pacer, 1).heard(OK, &resource("core", "5000", &(5_000 - n).to_string()));
    }
    assert_eq!((pacer.status().next_in, search()), (Duration::ZERO, 29));
    // What it will be charged to is not known before its answer.
    let permit = now(&pacer, 1);
    assert_eq!(search(), 28);
    permit.heard(OK, &resource("search", "30", "28"));
    assert_eq!(search(), 28);
}

/// Limits that are shown now and then, but are no resources, are charged by what shows others.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_no_resource_is_charged_though_it_is_not_shown() {
    let pacer = Pacer::new(Settings::new());
    let month = [("ratelimit", r#""month";r=29;t=86400"#), ("ratelimit-policy", r#""month";q=50"#)];
    now(&pacer, 1).heard(OK, &headers(&month));
    for n in 1..=10 {
        now(&pacer, 1).heard(OK, &resource("core", "5000", &(5_000 - n).to_string()));
    }
    assert_eq!(left(&pacer), 19);
}
