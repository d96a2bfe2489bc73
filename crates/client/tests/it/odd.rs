//! Servers that say what is not so, or is so no longer, and how soon the client is over it.

use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, advance};
use tollgate_client::{Ask, Pacer, Settings};

use crate::headers;

type Rows<'r> = &'r [(&'r str, &'r str)];

const OK: StatusCode = StatusCode::OK;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// However long a server wants to be left alone, it is asked again after that.
const SILENCE: Duration = Duration::from_secs(300);
const A_YEAR: Rows<'_> = &[("retry-after", "34000000")];

async fn answered(pacer: &Pacer, status: StatusCode, rows: Rows<'_>) {
    pacer.acquire(Ask::default()).await.unwrap().heard(status, &headers(rows));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_passes_shows_that_the_server_wants_to_be_asked_again() {
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, REFUSED, A_YEAR).await;
    assert!(pacer.acquire(Ask::default()).await.is_err());
    advance(SILENCE).await;
    answered(&pacer, OK, &[]).await;
    // It was refused, so it is asked more often only by and by.
    let began = Instant::now();
    for _ in 0..10 {
        answered(&pacer, OK, &[]).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Answers that are under way when it refuses are older than its refusal.
#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_refusal_shows_nothing_of_it() {
    let pacer = Pacer::new(Settings::new());
    let (first, second) = (pacer.try_acquire(Ask::default()), pacer.try_acquire(Ask::default()));
    first.unwrap().heard(REFUSED, &headers(A_YEAR));
    second.unwrap().heard(OK, &headers(&[]));
    assert!(pacer.acquire(Ask::default()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_does_not_show_that_it_wants_to_be_asked_again() {
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, REFUSED, A_YEAR).await;
    advance(SILENCE).await;
    answered(&pacer, StatusCode::BAD_GATEWAY, &[]).await;
    assert!(pacer.acquire(Ask::default()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_passes_shows_that_a_limit_is_none_unless_it_says_so_again() {
    const NOTHING_LEFT: Rows<'_> = &[
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "33000000"),
    ];
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, OK, NOTHING_LEFT).await;
    advance(SILENCE).await;
    answered(&pacer, OK, NOTHING_LEFT).await;
    assert!(pacer.acquire(Ask::default()).await.is_err());
    advance(SILENCE).await;
    answered(&pacer, OK, &[]).await;
    let at_once: Vec<_> = (0..10).map_while(|_| pacer.try_acquire(Ask::default())).collect();
    assert_eq!((at_once.len(), pacer.status().limits.len()), (10, 0));
}

/// What a server showed once.
const SHOWN_ONCE: [(&str, Rows<'_>); 3] = [
    (
        "a window",
        &[("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "4"), ("x-ratelimit-reset", "20")],
    ),
    ("a bucket", &[("ratelimit-policy", r#""a";q=5;w=1"#), ("ratelimit", r#""a";r=4;t=1"#)]),
    ("no word of when", &[("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "4")]),
];

#[tokio::test(start_paused = true)]
async fn a_limit_that_was_shown_once_and_never_again_is_forgotten() {
    for (what, rows) in SHOWN_ONCE {
        let pacer = Pacer::new(Settings::new());
        answered(&pacer, OK, rows).await;
        advance(Duration::from_secs(30)).await;
        for _ in 0..20 {
            answered(&pacer, OK, &[]).await;
        }
        let at_once: Vec<_> = (0..50).map_while(|_| pacer.try_acquire(Ask::default())).collect();
        assert_eq!(at_once.len(), 50, "{what}: {:?}", pacer.status());
    }
}

/// Not every path of a server shows its limits, so until a limit is back such answers say nothing of it.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_not_back_yet_is_kept_though_answers_do_not_show_it() {
    const AN_HOUR: Rows<'_> = &[
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "50"),
        ("x-ratelimit-reset", "3600"),
    ];
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, OK, AN_HOUR).await;
    for _ in 0..20 {
        advance(Duration::from_secs(2)).await;
        answered(&pacer, OK, &[]).await;
    }
    assert_eq!(pacer.status().limits[0].remaining, 30);
    // What costs nothing, and what failed, may have met no limit at all.
    advance(Duration::from_secs(3600)).await;
    for _ in 0..20 {
        let free = Ask { cost: 0, ..Ask::default() };
        pacer.acquire(free).await.unwrap().heard(OK, &headers(&[]));
        answered(&pacer, StatusCode::BAD_GATEWAY, &[]).await;
    }
    assert_eq!(pacer.status().limits.len(), 1);
}

/// A short window begins anew again and again while nothing is said of it.
#[tokio::test(start_paused = true)]
async fn a_short_window_that_is_no_longer_shown_is_forgotten() {
    const FIVE_SECONDS: Rows<'_> =
        &[("ratelimit-policy", r#""short";q=100;w=5"#), ("ratelimit", r#""short";r=99;t=5"#)];
    const OTHER: Rows<'_> = &[
        ("ratelimit-policy", r#""other";q=100000;w=60"#),
        ("ratelimit", r#""other";r=90000;t=6"#),
    ];
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, OK, FIVE_SECONDS).await;
    for _ in 0..60 {
        advance(Duration::from_millis(500)).await;
        answered(&pacer, OK, OTHER).await;
    }
    let names: Vec<String> = pacer.status().limits.into_iter().map(|limit| limit.name).collect();
    assert_eq!(names, ["other"]);
}

/// Refused for so many seconds, by a limit of this name.
fn refusal(limit: &str, seconds: u64) -> http::HeaderMap {
    let (left, seconds) = (format!(r#""{limit}";r=0;t=1"#), seconds.to_string());
    headers(&[("ratelimit", &left), ("retry-after", &seconds)])
}

/// How long the pacer waits after two requests, sent one after the other, were answered in one order or the other.
async fn wait_after(words: [http::HeaderMap; 2], is_overtaken: bool) -> u64 {
    let pacer = Pacer::new(Settings::new());
    let first = pacer.try_acquire(Ask::default()).unwrap();
    advance(Duration::from_millis(1)).await;
    let second = pacer.try_acquire(Ask::default()).unwrap();
    let mut answers: Vec<_> = [first, second].into_iter().zip(words).collect();
    if is_overtaken {
        answers.reverse();
    }
    for (permit, word) in answers {
        permit.heard(REFUSED, &word);
        advance(Duration::from_millis(1)).await;
    }
    pacer.status().next_in.as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_word_counts_that_answers_what_was_sent_last() {
    let unnamed = |seconds: u64| headers(&[("retry-after", &seconds.to_string())]);
    for is_overtaken in [false, true] {
        // Both are spread by a tenth at most.
        let words = || [refusal("a", 100), refusal("a", 10)];
        assert!((9..=11).contains(&wait_after(words(), is_overtaken).await), "{is_overtaken}");
        let words = || [refusal("a", 10), refusal("a", 100)];
        assert!((99..=110).contains(&wait_after(words(), is_overtaken).await), "{is_overtaken}");
        let words = || [unnamed(100), unnamed(10)];
        assert!((9..=11).contains(&wait_after(words(), is_overtaken).await), "{is_overtaken}");
        // What one limit says takes nothing back of what another did, nor of what nobody knows the cause of.
        for first in [refusal("b", 100), unnamed(100)] {
            let wait = wait_after([first, refusal("a", 10)], is_overtaken).await;
            assert!((99..=110).contains(&wait), "{is_overtaken}: {wait}");
        }
    }
}

/// What is asked after the longest silence is told that it is not so bad.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_less_is_believed() {
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, REFUSED, A_YEAR).await;
    advance(SILENCE).await;
    answered(&pacer, REFUSED, &[("retry-after", "2")]).await;
    let next_in = pacer.status().next_in;
    assert!(next_in <= Duration::from_secs(10), "{next_in:?}");
    answered(&pacer, OK, &[]).await;
}

/// A refusal without a word of how long says nothing about what was said.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_does_not_say_for_how_long_takes_nothing_back() {
    let silent = || headers(&[]);
    let told = || headers(&[("retry-after", "100")]);
    for words in [[told(), silent()], [silent(), told()]] {
        for is_overtaken in [false, true] {
            let wait = wait_after(words.clone(), is_overtaken).await;
            assert!((99..=110).contains(&wait), "{is_overtaken}: {wait}");
        }
    }
}

/// As Envoy writes them: the limit in a minute, and what is left of it.
async fn told(pacer: &Pacer, limit: u64, remaining: Option<u64>) {
    let (limit, left) = (format!("{limit}, {limit};w=60"), remaining.map(|left| left.to_string()));
    let mut rows = vec![("x-ratelimit-limit", &*limit), ("x-ratelimit-reset", "30")];
    rows.extend(left.as_deref().map(|left| ("x-ratelimit-remaining", left)));
    answered(pacer, OK, &rows).await;
}

/// Nobody else is there, though what is left seems to have gone down by much.
#[tokio::test(start_paused = true)]
async fn what_is_left_is_compared_only_with_what_can_have_been_left() {
    const MORE_THAN_THERE_IS: u64 = 1_000_000_000_000_000;
    let rows = [
        ("nothing was said of it", (100, None), (100, Some(50))),
        ("more than the limit", (100, Some(MORE_THAN_THERE_IS)), (100, Some(50))),
        ("a limit that was lowered", (100_000, Some(99_990)), (100, Some(97))),
    ];
    for (what, first, second) in rows {
        let pacer = Pacer::new(Settings::new());
        told(&pacer, first.0, first.1).await;
        advance(Duration::from_millis(10)).await;
        told(&pacer, second.0, second.1).await;
        let status = pacer.status();
        assert!(status.limits[0].sharers < 2.0, "{what}: {status:?}");
        assert!(status.next_in < Duration::from_secs(1), "{what}: {status:?}");
        // And it goes on so.
        told(&pacer, second.0, second.1.map(|left| left - 1)).await;
        assert!(pacer.status().limits[0].sharers < 2.0, "{what}: {:?}", pacer.status());
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_left_than_there_can_be() {
    let pacer = Pacer::new(Settings::new());
    told(&pacer, 100, Some(1_000)).await;
    assert_eq!(pacer.status().limits[0].remaining, 100);
}

/// A thousand are left, and it would have cost more than a thousand.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_what_can_never_pass_slows_nothing_down() {
    const LEFT: [(&str, &str); 2] =
        [("ratelimit-policy", r#""a";q=1000;w=10"#), ("ratelimit", r#""a";r=1000;t=0"#)];
    const NEVER: (&str, &str) = ("x-should-retry", "false");
    let pacer = Pacer::new(Settings::new());
    for _ in 0..20 {
        for _ in 0..2 {
            answered(&pacer, REFUSED, &[LEFT[0], LEFT[1], NEVER]).await;
            let status = pacer.status();
            assert_eq!(status.next_in, Duration::ZERO);
            assert!(status.limits[0].sharers < 1.1, "{status:?}");
        }
        answered(&pacer, OK, &LEFT).await;
    }
    // A server that does not say why is a server that refuses.
    answered(&pacer, REFUSED, &[NEVER]).await;
    assert!(pacer.try_acquire(Ask::default()).is_none());
}
