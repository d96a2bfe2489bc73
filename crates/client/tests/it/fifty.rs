//! Fifty pacers that share nothing, twenty seconds, three times the limit: the real limiter, the real headers, the runtime's
//! paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_client::{Ask, Pacer, Settings};
use tollgate_core::{Limit, Rate, Scope};
use tollgate_engine::{Clock, FakeClock, Limiter, Rule};
use tollgate_wire::{Line, Refused, Report};

struct Server {
    began: Instant,
    clock: FakeClock,
    limiter: Limiter<FakeClock>,
    rule: Arc<Rule>,
    passed: AtomicU64,
    refused: AtomicU64,
}

const SECONDS: u64 = 20;

impl Server {
    fn new(rate: u64) -> Server {
        let clock = FakeClock::default();
        let limiter = Limiter::with_clock(clock.clone(), 1_000);
        let limit = Limit::token_bucket(Rate::per_second(rate)).build().unwrap();
        let rule = limiter.define("key", limit);
        let (passed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Server { began: Instant::now(), clock, limiter, rule, passed, refused }
    }

    fn serve(&self, key: u64) -> (StatusCode, HeaderMap) {
        let start = FakeClock::default().now();
        self.clock.advance(start + self.began.elapsed() - self.clock.now());
        let decision = self.limiter.decide(&self.rule, self.limiter.identity(&key), 1);
        let line = Line::of(self.rule.limit(), Scope::User, decision.standing);
        let (lines, now) = ([line.refusal(decision.refusal)], self.clock.now());
        if decision.is_allowed() {
            self.passed.fetch_add(1, Relaxed);
            let mut headers = HeaderMap::new();
            Report::admitted(&lines, now).write(&mut headers);
            (StatusCode::OK, headers)
        } else {
            self.refused.fetch_add(1, Relaxed);
            let response = Refused::by_limit(&Report::refused(&lines, 0, now), "r").http();
            (response.status(), response.into_parts().0.headers)
        }
    }
}

/// What was used of the limit and refused of the requests, each as a part of 1.
async fn run(clients: u64, rate: u64, is_shared: bool) -> (f64, f64) {
    let server = Arc::new(Server::new(rate));
    let keys = if is_shared { 1 } else { clients };
    let every = Duration::from_secs_f64(clients as f64 / (3 * rate * keys) as f64);
    let end = Instant::now() + Duration::from_secs(SECONDS);
    for client in 0..clients {
        let server = server.clone();
        tokio::spawn(async move {
            let pacer = Pacer::new(Settings::new().max_wait(Duration::from_secs(2)));
            sleep(every.mul_f64(client as f64 / clients as f64)).await;
            let mut next = Instant::now();
            for n in 0u64.. {
                let (server, pacer) = (server.clone(), pacer.clone());
                tokio::spawn(async move {
                    let Ok(permit) = pacer.acquire(Ask::default()).await else { return };
                    let key = if is_shared { 0 } else { client };
                    sleep(Duration::from_millis(1 + (n * 7 + client) % 9)).await;
                    let (status, headers) = server.serve(key);
                    sleep(Duration::from_millis(1 + (n * 5 + client) % 9)).await;
                    permit.heard(status, &headers);
                });
                next += every;
                sleep_until(next).await;
            }
        });
    }
    sleep_until(end).await;
    let (passed, refused) =
        (server.passed.load(Relaxed) as f64, server.refused.load(Relaxed) as f64);
    let used = passed / (rate * SECONDS * keys) as f64;
    (used, refused / (passed + refused))
}

#[tokio::test(start_paused = true)]
async fn fifty_with_a_key_each_use_it_and_are_not_refused() {
    let (used, refused) = run(50, 20, false).await;
    println!("a key each: used {:.1} %, refused {:.2} %", 100.0 * used, 100.0 * refused);
    assert!(used >= 0.98 && refused <= 0.005, "{used} {refused}");
}

#[tokio::test(start_paused = true)]
async fn fifty_that_share_a_key_use_it_and_are_hardly_refused() {
    for rate in [100, 500] {
        let (used, refused) = run(50, rate, true).await;
        println!(
            "one key of {rate}/s: used {:.1} %, refused {:.2} %",
            100.0 * used,
            100.0 * refused
        );
        assert!(used >= 0.95 && refused <= 0.02, "{used} {refused}");
    }
}

/// Timers are as coarse as a millisecond, and so one wakes for several.
#[tokio::test(start_paused = true)]
async fn one_client_keeps_up_with_a_fast_limit() {
    let (used, refused) = run(1, 3_000, false).await;
    println!("alone, 3,000/s: used {:.1} %, refused {:.2} %", 100.0 * used, 100.0 * refused);
    assert!(used >= 0.98 && refused <= 0.005, "{used} {refused}");
}

/// Threads with a runtime each, and clones of one pacer, in real time.
#[test]
fn clones_on_several_threads_pace_together() {
    const THREADS: u64 = 4;
    const EACH: u64 = 100;
    let server = Mutex::new(Server::new(200));
    let pacer = Pacer::new(Settings::new().max_wait(Duration::from_secs(300)));
    let calls = || async {
        for _ in 0..EACH {
            let permit = pacer.acquire(Ask::default()).await.unwrap();
            let (status, headers) = server.lock().serve(0);
            permit.heard(status, &headers);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                runtime.unwrap().block_on(calls());
            });
        }
    });
    let server = server.into_inner();
    let (passed, refused) = (server.passed.load(Relaxed), server.refused.load(Relaxed));
    assert_eq!(passed + refused, THREADS * EACH);
    assert!(refused <= 10, "{refused} were refused");
    let status = pacer.status();
    assert_eq!((status.in_flight, status.waiting), (0, 0));
}
