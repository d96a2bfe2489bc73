//! How much usage a gateway loses that is killed under load: answers that callers hold, and that no day's sum has.
//!
//! Told in milliseconds of traffic: how long before the kill the first answer came that was not counted. Usage has no order
//! among requests, so as many as are lost are taken to be the last ones.

use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tollgate_core::Time;
use tollgate_storage::{Day, UsageQuery};

use super::gateway::Gateway;
use super::{open, runtime};
use crate::calls::{connect, on_core, response};
use crate::gateway::proxies::KEY;
use crate::measure::median;
use crate::report::Report;

const KILLS: u64 = 20;
const CALLERS: usize = 8;

pub fn run(report: &mut Report) {
    let lost: Result<Vec<Lost>, String> = (0..KILLS).map(one_kill).collect();
    let lost = lost.unwrap_or_else(|error| {
        eprintln!("bench control crash: {error}");
        std::process::exit(1);
    });
    report.row(&[
        ("bench", "crash".into()),
        ("kills", KILLS.into()),
        ("answered", lost.iter().map(|one| one.answered).sum::<u64>().into()),
        ("lost", lost.iter().map(|one| one.requests).sum::<u64>().into()),
        ("median_ms", median(lost.iter().map(|one| one.millis)).into()),
        ("worst_ms", lost.iter().map(|one| one.millis).fold(0.0, f64::max).into()),
        ("at_most_ms", 100u64.into()),
    ]);
}

struct Lost {
    answered: u64,
    requests: u64,
    millis: f64,
}

/// Each at another moment between two times at which usage is written.
fn one_kill(number: u64) -> Result<Lost, String> {
    let mut gateway = Gateway::start()?;
    let port = gateway.port;
    let callers = thread::spawn(move || on_core("0", answers(port)));
    thread::sleep(Duration::from_millis(1000 + number * 7));
    let killed = Instant::now();
    let folder = gateway.kill();
    let mut answers = callers.join().map_err(|_| "callers panicked")??;
    answers.sort();

    let store = open(&folder);
    let day = |seconds| Day::of(Time::from_secs(seconds));
    let now = UNIX_EPOCH.elapsed().map_err(|error| error.to_string())?.as_secs();
    // Midnight may have passed.
    let whole = UsageQuery::days(day(now - 86_400), day(now));
    let page = runtime().block_on(store.usage(whole)).map_err(|error| error.to_string())?;
    runtime().block_on(store.close()).map_err(|error| error.to_string())?;
    let told: u64 = page.rows.iter().map(|row| row.requests).sum();
    let requests = (answers.len() as u64).saturating_sub(told);
    let millis = match requests {
        0 => 0.0,
        lost => killed.duration_since(answers[answers.len() - lost as usize]).as_secs_f64() * 1e3,
    };
    Ok(Lost { answered: answers.len() as u64, requests, millis })
}

/// When each answer came, until no more come.
async fn answers(port: u16) -> Result<Vec<Instant>, String> {
    let request = format!("GET /bench HTTP/1.1\r\nhost: b\r\nx-api-key: {KEY}\r\n\r\n");
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (request, mut stream) = (request.clone(), connect(port).await?);
        callers.spawn(async move {
            let mut answered = Vec::new();
            while stream.write_all(request.as_bytes()).await.is_ok() {
                match response(&mut stream).await {
                    Ok(head) if head.starts_with("HTTP/1.1 200") => answered.push(Instant::now()),
                    Ok(head) => return Err(format!("not answered as it should be:\n{head}")),
                    Err(_) => break,
                }
            }
            Ok(answered)
        });
    }
    let all: Result<Vec<_>, String> = callers.join_all().await.into_iter().collect();
    Ok(all?.concat())
}
