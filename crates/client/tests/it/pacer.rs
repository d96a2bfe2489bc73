//! Waiting for leave to send, in the runtime's paused time.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, advance};
use tollgate_client::{Ask, Pacer, Priority, Settings};

use crate::headers;

/// Ten a second, and nothing left.
fn empty() -> HeaderMap {
    headers(&[
        ("ratelimit-policy", r#""user-second";q=10;w=1"#),
        ("ratelimit", r#""user-second";r=0;t=1"#),
    ])
}

async fn answered(pacer: &Pacer, status: StatusCode, headers: &HeaderMap) {
    pacer.acquire(Ask::default()).await.unwrap().heard(status, headers);
}

/// A pacer that has been told that nothing is left.
async fn exhausted(settings: Settings) -> Pacer {
    let pacer = Pacer::new(settings);
    answered(&pacer, StatusCode::OK, &empty()).await;
    pacer
}

#[tokio::test(start_paused = true)]
async fn waits_until_there_is_something_again() {
    let pacer = exhausted(Settings::new()).await;
    assert!(pacer.try_acquire(Ask::default()).is_none());
    let began = Instant::now();
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    // One token takes 100 ms, and a part is left for others.
    let waited = began.elapsed();
    assert!((100..=400).contains(&waited.as_millis()), "{waited:?}");
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_wait_known_to_be_too_long_fails_at_once_and_says_how_long() {
    let pacer = Pacer::new(Settings::new().max_wait(Duration::from_secs(2)));
    let refused = headers(&[("retry-after", "60")]);
    answered(&pacer, StatusCode::TOO_MANY_REQUESTS, &refused).await;
    let began = Instant::now();
    let too_long = pacer.acquire(Ask::default()).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(too_long.wait() >= Duration::from_secs(59), "{too_long}");
    assert_eq!(too_long.max_wait(), Duration::from_secs(2));
    assert!(too_long.to_string().contains("may wait 2.0s"), "{too_long}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_allowed() {
    let settings = Settings::new().max_wait(Duration::from_millis(700));
    let pacer = exhausted(settings).await;
    let asks = (0..50).map(|_| {
        let pacer = pacer.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            let got = pacer.acquire(Ask::default()).await.is_ok();
            (got, began.elapsed())
        })
    });
    let mut passed = 0;
    for ask in asks.collect::<Vec<_>>() {
        let (got, waited) = ask.await.unwrap();
        passed += u32::from(got);
        assert!(waited <= Duration::from_millis(710), "{waited:?}");
    }
    assert!((1..=10).contains(&passed), "{passed} in 0.7 s of ten a second");
}

/// Five came before it while it waited, and since then each takes ten seconds.
#[tokio::test(start_paused = true)]
async fn who_waited_in_vain_is_told_how_long_those_before_it_take_too() {
    let pacer = Pacer::new(Settings::new().max_wait(Duration::from_secs(2)));
    let first = pacer.try_acquire(Ask::default()).unwrap();
    let second = pacer.try_acquire(Ask::default()).unwrap();
    first.heard(StatusCode::OK, &empty());
    let waiting = |priority: Priority| {
        let pacer = pacer.clone();
        tokio::spawn(async move { pacer.acquire(priority.into()).await })
    };
    let low = waiting(Priority::Low);
    tokio::task::yield_now().await;
    advance(Duration::from_millis(50)).await;
    let high: Vec<_> = (0..5).map(|_| waiting(Priority::High)).collect();
    while pacer.status().waiting < 6 {
        tokio::task::yield_now().await;
    }
    let slower = headers(&[
        ("ratelimit-policy", r#""user-second";q=10;w=100"#),
        ("ratelimit", r#""user-second";r=0;t=100"#),
    ]);
    second.heard(StatusCode::OK, &slower);
    let too_long = low.await.unwrap().unwrap_err();
    assert!(too_long.wait() >= Duration::from_secs(55), "{too_long}");
    for high in high {
        high.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_do_not_even_wait() {
    let pacer = exhausted(Settings::new().max_waiting(1)).await;
    let (one, two) = tokio::join!(pacer.acquire(Ask::default()), pacer.acquire(Ask::default()));
    assert!(one.is_ok());
    let crowded = two.unwrap_err();
    assert!(crowded.is_crowded(), "{crowded}");
    assert!(crowded.to_string().contains("as many requests wait"), "{crowded}");
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_go_first() {
    let pacer = exhausted(Settings::new()).await;
    let order = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let rows = [Priority::Low, Priority::Normal, Priority::High, Priority::Normal, Priority::High];
    let mut tasks = Vec::new();
    for (n, priority) in rows.into_iter().enumerate() {
        let (pacer, order) = (pacer.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let permit = pacer.acquire(priority.into()).await.unwrap();
            order.lock().push(n);
            permit.heard(StatusCode::OK, &empty());
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock(), [2, 4, 1, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_makes_room() {
    let pacer = exhausted(Settings::new()).await;
    let first = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(Priority::High.into()).await }
    });
    tokio::task::yield_now().await;
    let second = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(Ask::default()).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(pacer.status().waiting, 2);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(second.await.unwrap().is_ok());
    assert_eq!(pacer.status().waiting, 0);
}

/// They slept until the end that they knew of: who waits for the limit was woken in their place, and waits on.
#[tokio::test(start_paused = true)]
async fn what_is_free_goes_as_soon_as_the_server_wants_to_be_left_alone_no_longer() {
    let pacer = Pacer::new(Settings::new());
    let refused =
        |seconds| headers(&[("ratelimit", r#""user-hour";r=0;t=20"#), ("retry-after", seconds)]);
    let first = pacer.try_acquire(Ask::default()).unwrap();
    advance(Duration::from_millis(1)).await;
    let second = pacer.try_acquire(Ask::default()).unwrap();
    first.heard(StatusCode::TOO_MANY_REQUESTS, &refused("25"));
    let free = Ask { cost: 0, ..Ask::default() };
    let [limited, one, another] = [Priority::High.into(), free, free].map(|ask: Ask| {
        let pacer = pacer.clone();
        tokio::spawn(async move { pacer.acquire(ask).await.map(|_| Instant::now()) })
    });
    while pacer.status().waiting < 3 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    second.heard(StatusCode::TOO_MANY_REQUESTS, &refused("1"));
    for free in [one, another] {
        let waited = free.await.unwrap().unwrap() - began;
        assert!((1000..=2000).contains(&waited.as_millis()), "{waited:?}");
    }
    assert!(limited.await.unwrap().unwrap() - began >= Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn little_is_sent_before_the_first_answer() {
    let pacer = Pacer::new(Settings::new());
    let all = || -> Vec<_> { (0..100).map_while(|_| pacer.try_acquire(Ask::default())).collect() };
    let first = all();
    assert_eq!(first.len(), 2);
    // A slow server does not stop everything.
    advance(Duration::from_millis(50)).await;
    assert_eq!(all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_limits_is_not_slowed_down() {
    let pacer = Pacer::new(Settings::new());
    answered(&pacer, StatusCode::OK, &HeaderMap::new()).await;
    let permits: Vec<_> = (0..10_000).map_while(|_| pacer.try_acquire(Ask::default())).collect();
    assert_eq!(permits.len(), 10_000);
    assert_eq!(pacer.status().in_flight, 10_000);
}

#[tokio::test(start_paused = true)]
async fn status_tells_what_is_known() {
    let pacer = Pacer::new(Settings::new());
    let said = headers(&[
        ("ratelimit-policy", r#""user-second";q=100;w=10, "user-month";q=5000"#),
        ("ratelimit", r#""user-second";r=47;t=6, "user-month";r=4000;t=86400"#),
    ]);
    answered(&pacer, StatusCode::OK, &said).await;
    let _permit = pacer.try_acquire(Ask { cost: 2, ..Ask::default() }).unwrap();
    let status = pacer.status();
    assert_eq!((status.in_flight, status.waiting, status.next_in), (1, 0, Duration::ZERO));
    let second = &status.limits[0];
    assert_eq!(
        (second.name.as_str(), second.limit, second.remaining),
        ("user-second", Some(100), 45)
    );
    assert_eq!(second.reset_after.map(|after| after.as_secs_f64().round()), Some(6.0));
    assert_eq!(status.limits[1].remaining, 3_998);
}

/// With how many seconds three answers take at least: those that say 200, and those that refuse.
#[tokio::test(start_paused = true)]
async fn no_lie_stalls_for_ever_and_none_makes_it_hammer() {
    type Lie = (&'static [(&'static str, &'static str)], f64, f64);
    let lies: [Lie; 7] = [
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "33000000")], 180.0, 180.0),
        (
            &[
                ("ratelimit", r#""a";r=0;t=34000000"#),
                ("ratelimit-policy", r#""a";q=1;w=34000000"#),
            ],
            180.0,
            180.0,
        ),
        (
            &[
                ("x-ratelimit-remaining", "-5"),
                ("x-ratelimit-limit", "0"),
                ("x-ratelimit-reset", "9e9"),
            ],
            0.0,
            0.25,
        ),
        (&[("ratelimit", r#""a";r=0;t=0"#), ("ratelimit-policy", r#""a";q=0;w=1"#)], 0.0, 0.25),
        (&[("retry-after", "34000000")], 0.0, 180.0),
        (&[("retry-after", "Fri, 31 Dec 2027 23:59:59 GMT")], 0.0, 0.25),
        (&[("retry-after-ms", "-1"), ("retry-after", "-1")], 0.0, 0.25),
    ];
    for (lie, least_passed, least_refused) in lies {
        let rows = [(StatusCode::OK, least_passed), (StatusCode::TOO_MANY_REQUESTS, least_refused)];
        for (status, least) in rows {
            let silence = Duration::from_secs(90);
            let settings =
                Settings::new().longest_silence(silence).max_wait(Duration::from_secs(100));
            let pacer = Pacer::new(settings);
            let began = Instant::now();
            for _ in 0..3 {
                answered(&pacer, status, &headers(lie)).await;
            }
            let took = began.elapsed();
            assert!(took <= 3 * silence, "{status} {lie:?} {took:?}");
            assert!(took.as_secs_f64() >= least, "{status} {lie:?} {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_costs_more_than_is_left_waits_however_much_is_left() {
    let pacer = Pacer::new(Settings::new());
    let window = headers(&[
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "30"),
        ("x-ratelimit-reset", "20"),
    ]);
    answered(&pacer, StatusCode::OK, &window).await;
    assert!(pacer.try_acquire(Ask { cost: 50, ..Ask::default() }).is_none());
    assert!(pacer.try_acquire(Ask { cost: 30, ..Ask::default() }).is_some());
    let began = Instant::now();
    drop(pacer.acquire(Ask { cost: 50, ..Ask::default() }).await.unwrap());
    assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_no_longer_shown_does_not_slow_down_for_ever() {
    let pacer = exhausted(Settings::new()).await;
    let other = headers(&[
        ("ratelimit-policy", r#""tenant-minute";q=100000;w=60"#),
        ("ratelimit", r#""tenant-minute";r=90000;t=6"#),
    ]);
    let began = Instant::now();
    for _ in 0..1_000 {
        answered(&pacer, StatusCode::OK, &other).await;
    }
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(pacer.status().limits.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn near_its_end_a_window_is_spread_over_the_time_that_remains() {
    let pacer = Pacer::new(Settings::new());
    let window = |remaining: u32, reset: u64| {
        let (remaining, reset) = (remaining.to_string(), reset.to_string());
        headers(&[
            ("x-ratelimit-limit", "100"),
            ("x-ratelimit-remaining", &remaining),
            ("x-ratelimit-reset", &reset),
        ])
    };
    let began = Instant::now();
    for remaining in (0..100).rev() {
        let left = 60u64.saturating_sub(began.elapsed().as_secs());
        answered(&pacer, StatusCode::OK, &window(remaining, left)).await;
        if remaining == 25 {
            // Far from the limit nothing is delayed.
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
    }
    let last = began.elapsed().as_secs();
    assert!((45..=61).contains(&last), "the last of it was sent after {last} s");
    drop(pacer.acquire(Ask::default()).await.unwrap());
    assert!(began.elapsed() >= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_month_is_not_spread_over_it() {
    let pacer = Pacer::new(Settings::new());
    let month = headers(&[
        ("ratelimit-policy", r#""user-month";q=10000"#),
        ("ratelimit", r#""user-month";r=500;t=864000"#),
    ]);
    let began = Instant::now();
    for _ in 0..10 {
        answered(&pacer, StatusCode::OK, &month).await;
    }
    assert!(began.elapsed() <= Duration::from_secs(50), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_charged_to_nobody() {
    let pacer = Pacer::new(Settings::new());
    let hour = headers(&[
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "59"),
        ("x-ratelimit-reset", "3600"),
    ]);
    answered(&pacer, StatusCode::OK, &hour).await;
    for _ in 0..100 {
        pacer.acquire(Ask::default()).await.unwrap().never_sent();
    }
    let status = pacer.status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (0, 59));
    // What may have been sent may have been charged for.
    drop(pacer.acquire(Ask::default()).await.unwrap());
    let status = pacer.status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (0, 58));
}
