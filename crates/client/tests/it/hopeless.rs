//! Requests that a server will never let pass, or seems never to.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::time::{Instant, advance, sleep};
use tollgate_client::{Ask, Pacer, Settings};

use crate::headers;

const OK: StatusCode = StatusCode::OK;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const NEVER: (&str, &str) = ("x-should-retry", "false");

fn costing(cost: u64) -> Ask {
    Ask { cost, ..Ask::default() }
}

fn patient() -> Pacer {
    Pacer::new(Settings::new().max_wait(Duration::from_secs(600)))
}

/// A limit of requests or costs, and what is left of it in a minute.
fn minute(limit: &str, left: &str) -> Vec<(&'static str, String)> {
    vec![
        ("x-ratelimit-limit", limit.to_owned()),
        ("x-ratelimit-remaining", left.to_owned()),
        ("x-ratelimit-reset", "60".to_owned()),
    ]
}

fn told(rows: &[(&'static str, String)], more: &[(&str, &str)]) -> HeaderMap {
    let mut all: Vec<(&str, &str)> = rows.iter().map(|(name, value)| (*name, &**value)).collect();
    all.extend(more);
    headers(&all)
}

/// So many callers who ask for that again and again. Counts what is sent.
fn callers(
    number: usize,
    pacer: &Pacer,
    cost: u64,
    (status, answer): (StatusCode, HeaderMap),
) -> Arc<Mutex<u64>> {
    let sent = Arc::new(Mutex::new(0));
    for _ in 0..number {
        let (pacer, answer, sent) = (pacer.clone(), answer.clone(), sent.clone());
        tokio::spawn(async move {
            while let Ok(permit) = pacer.acquire(costing(cost)).await {
                *sent.lock() += 1;
                sleep(Duration::from_millis(20)).await;
                permit.heard(status, &answer);
            }
        });
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_sent_again_and_again() {
    let rows = [
        ("more than there can be", 500, told(&minute("60", "60"), &[NEVER])),
        ("though enough is left", 1, told(&minute("60", "60"), &[NEVER])),
        ("more than there can be, and little is left", 500, told(&minute("60", "1"), &[NEVER])),
    ];
    for (what, cost, headers) in rows {
        let pacer = patient();
        pacer.try_acquire(Ask::default()).unwrap().heard(OK, &told(&minute("60", "59"), &[]));
        let sent = callers(20, &pacer, cost, (REFUSED, headers));
        sleep(Duration::from_secs(600)).await;
        let sent = *sent.lock();
        assert!((5..=80).contains(&sent), "{what}: sent {sent} in ten minutes");
    }
}

/// Of nothing at all, nothing passes, were it the smallest. That it will never do is not for ever.
#[tokio::test(start_paused = true)]
async fn a_blocked_account_is_left_alone_ever_longer() {
    let blocked = headers(&[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0"), NEVER]);
    let pacer = patient();
    let sent = callers(20, &pacer, 1, (REFUSED, blocked));
    sleep(Duration::from_secs(600)).await;
    let sent = *sent.lock();
    assert!((5..=60).contains(&sent), "sent {sent} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn who_can_pass_does_not_wait_behind_who_can_not() {
    let pacer = patient();
    let left = || told(&minute("1000000", "900000"), &[]);
    pacer.try_acquire(Ask::default()).unwrap().heard(OK, &left());
    let never =
        callers(20, &pacer, 2_000_000, (REFUSED, told(&minute("1000000", "900000"), &[NEVER])));
    let passing = callers(1, &pacer, 1, (OK, left()));
    sleep(Duration::from_secs(60)).await;
    let (never, passing) = (*never.lock(), *passing.lock());
    assert!((3..=30).contains(&never), "{never}");
    assert!(passing > 2_500, "{passing} of 3,000");
}

/// A pass shows that such a cost can.
#[tokio::test(start_paused = true)]
async fn what_was_refused_for_good_and_passes_waits_no_longer() {
    let pacer = patient();
    let refusal = told(&minute("60", "60"), &[NEVER]);
    for _ in 0..6 {
        pacer.acquire(costing(5)).await.unwrap().heard(REFUSED, &refusal);
    }
    assert!(pacer.try_acquire(costing(5)).is_none());
    pacer.try_acquire(costing(4)).unwrap().heard(OK, &told(&minute("60", "59"), &[]));
    assert!(pacer.try_acquire(costing(5)).is_none());
    pacer.acquire(costing(5)).await.unwrap().heard(OK, &told(&minute("60", "58"), &[]));
    assert!(pacer.try_acquire(costing(5)).is_some());
}

/// An answer may never come.
#[tokio::test(start_paused = true)]
async fn what_may_never_pass_goes_one_at_a_time_but_not_for_ever() {
    let pacer = patient();
    pacer.try_acquire(Ask::default()).unwrap().heard(OK, &told(&minute("60", "59"), &[]));
    let first = pacer.try_acquire(costing(70)).unwrap();
    assert!(pacer.try_acquire(costing(70)).is_none());
    // It is answered, or given up.
    drop(first);
    let _second = pacer.try_acquire(costing(70)).unwrap();
    assert!(pacer.try_acquire(costing(70)).is_none());
    advance(Duration::from_secs(11)).await;
    assert!(pacer.try_acquire(costing(70)).is_some());
}

/// As of a limit that counts requests: after the second that passes nobody has to wait for another's answer.
#[tokio::test(start_paused = true)]
async fn who_stands_aside_goes_on_as_soon_as_the_limit_is_known() {
    let pacer = patient();
    pacer.try_acquire(Ask::default()).unwrap().heard(OK, &told(&minute("600", "599"), &[]));
    let began = Instant::now();
    let passing = (1..=50).map(|nth| {
        let pacer = pacer.clone();
        tokio::spawn(async move {
            let permit = pacer.acquire(costing(9_000)).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            permit.heard(OK, &told(&minute("600", &(599 - nth).to_string()), &[]));
        })
    });
    for passing in passing.collect::<Vec<_>>() {
        passing.await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(pacer.status().waiting, 0);
}
