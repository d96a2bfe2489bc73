//! Strict decisions a second against `redis-benchmark` calling the same script on the same server.
//!
//! The server is one core's work. Two processes drive it through the crate, as two gateways would, each with many
//! callers at once; the ceiling is two connections of redis-benchmark with a pipeline as deep.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_engine::{Limit, Rate};
use tollgate_redis::{Charge, Figures, Settings, Strict};

use super::{ROUNDS, runtime, server::Server};
use crate::measure::median;
use crate::report::Report;

const CALLS: usize = 150_000;
/// Callers at once in each of the two processes; redis-benchmark has as many calls on their way.
const CALLERS: usize = 256;
const KEYS: usize = 100_000;

pub(super) fn ceiling_of(report: &mut Report) {
    let server = Server::start();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (one, two) = if round % 2 == 0 {
            let ours = both(&server);
            (ours, ceiling(&server))
        } else {
            let ceiling = ceiling(&server);
            (both(&server), ceiling)
        };
        ours.push(one);
        theirs.push(two);
        ratios.push(one / two);
    }
    report.row(&[
        ("bench", "strict".into()),
        ("processes", 2usize.into()),
        ("keys", KEYS.into()),
        ("ours_per_s", median(ours.into_iter()).into()),
        ("peer", "redis-benchmark".into()),
        ("peer_per_s", median(theirs.into_iter()).into()),
        ("ratio", median(ratios.into_iter()).into()),
    ]);
}

fn limit() -> Figures {
    let limit = Limit::token_bucket(Rate::per_second(1000)).burst(1_000_000_000).build();
    Figures::of(&limit.expect("good figures")).expect("in range")
}

/// Decisions a second that two processes make together.
fn both(server: &Server) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let drivers: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args(["redis", "drive", &server.url()]).stdout(Stdio::piped());
            command.spawn().expect("this program")
        })
        .collect();
    let seconds = drivers.into_iter().map(|driver| {
        let output = driver.wait_with_output().expect("ran");
        let text = String::from_utf8(output.stdout).expect("a number");
        text.trim().parse::<f64>().expect("a number")
    });
    // Until the slower one is done: they are not to be measured apart.
    (2 * (CALLS / CALLERS * CALLERS)) as f64 / seconds.fold(0.0, f64::max)
}

/// One of the two processes: prints how many seconds it took.
pub(super) fn drive(url: &str) {
    let seconds = runtime().block_on(async {
        let settings = Settings::new(url).expect("a URL").timeout(Duration::from_secs(10));
        let strict = Strict::start(settings);
        strict.up().await;
        let begin = Instant::now();
        let local = tokio::task::LocalSet::new();
        for caller in 0..CALLERS {
            let strict = strict.clone();
            local.spawn_local(async move {
                let limit = limit();
                let mut state = caller as u64;
                for _ in 0..CALLS / CALLERS {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let key = format!(
                        "tollgate:ratelimit:user:plan/{:012}:second",
                        (state >> 33) as usize % KEYS
                    );
                    let answer = strict.take(&[Charge::new(&key, &limit)]).await.expect("answered");
                    assert!(answer.verdict().is_admitted());
                }
            });
        }
        local.await;
        begin.elapsed().as_secs_f64()
    });
    println!("{seconds}");
}

/// Calls a second that redis-benchmark makes of the same script, found among those the crate loaded.
fn ceiling(server: &Server) -> f64 {
    let args = tollgate_redis::driven::arguments(&[Charge::new(
        "tollgate:ratelimit:user:plan/__rand_int__:second",
        &limit(),
    )]);
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-p", &server.port.to_string(), "-n", &(2 * CALLS).to_string(), "--csv"])
        .args(["-c", "2", "-P", &CALLERS.to_string(), "-r", &KEYS.to_string()])
        .args(args);
    let output = command.output().expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The last line is `"the command","calls a second",…`; the command has no quotes.
    let line = text.lines().last().unwrap_or_default();
    let figure = line.split("\",\"").nth(1);
    figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| {
        panic!("redis-benchmark said {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// A million calls of 64 callers on one key: admitted is exactly the limit.
pub(super) fn exact(report: &mut Report) {
    let server = Server::start();
    let (calls, limit) = (1_000_000u64, 123_456);
    let quota = Limit::quota(limit, tollgate_engine::Period::Year, "UTC").expect("good figures");
    let quota = Figures::of(&quota).expect("in range");
    let admitted = runtime().block_on(async {
        let settings =
            Settings::new(&server.url()).expect("a URL").timeout(Duration::from_secs(10));
        let strict = Strict::start(settings);
        strict.up().await;
        let local = tokio::task::LocalSet::new();
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let (strict, quota) = (strict.clone(), quota.clone());
                local.spawn_local(async move {
                    let mut admitted = 0u64;
                    for _ in 0..calls / 64 {
                        let answer =
                            strict.take(&[Charge::new("one", &quota)]).await.expect("answered");
                        admitted += u64::from(answer.verdict().is_admitted());
                    }
                    admitted
                })
            })
            .collect();
        local.await;
        let mut all = 0;
        for caller in callers {
            all += caller.await.expect("ran");
        }
        all
    });
    report.row(&[
        ("bench", "strict_exact".into()),
        ("callers", 64usize.into()),
        ("calls", calls.into()),
        ("limit", limit.into()),
        ("admitted", admitted.into()),
    ]);
    assert_eq!(admitted, limit);
}
