//! What the client does before it sends, where nothing must wait.

use std::hint::black_box;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use tollgate_client::{Ask, Pacer, Pacers, Permit, Settings};

use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 101;
/// Permits at once: their answers are heard between two measurements.
const PERMITS: usize = 1_000;

pub fn run(report: &mut Report) -> Result<(), String> {
    let uri = Uri::from_static("https://api.example.com/v1/items");
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("tg_live_ExampleKeyDoNotUseItReal0fYmW4"));
    headers.insert("accept", HeaderValue::from_static("application/json"));
    let pacers = Pacers::new(Settings::new());
    let pacer = pacers.pacer(&uri, &headers);
    // It has learned what the server allows.
    for _ in 0..100 {
        answered(pacer.try_acquire(Ask::default()).ok_or("it waits")?);
    }
    type Check<'a> = &'a dyn Fn() -> Option<Permit>;
    let whole = || pacers.pacer(&uri, &headers).try_acquire(Ask::default());
    let checks: [(&str, Check<'_>); 2] =
        [("preflight", &|| Pacer::try_acquire(&pacer, Ask::default())), ("find_preflight", &whole)];
    for (name, check) in checks {
        let mut rounds = Vec::new();
        let mut heard = Vec::new();
        let mut permits = Vec::with_capacity(PERMITS);
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            for _ in 0..PERMITS {
                permits.push(black_box(check()));
            }
            let sent = begin.elapsed();
            if permits.iter().any(Option::is_none) {
                return Err("a request was to wait, though nothing is used up".to_owned());
            }
            let begin = Instant::now();
            permits.drain(..).flatten().for_each(answered);
            rounds.push(sent.as_nanos() as f64 / PERMITS as f64);
            heard.push(begin.elapsed().as_nanos() as f64 / PERMITS as f64);
        }
        report.row(&[
            ("bench", name.into()),
            ("ours_ns", median(rounds.into_iter()).into()),
            ("answer_ns", median(heard.into_iter()).into()),
        ]);
    }
    Ok(())
}

/// The server said that almost nothing is used up.
fn answered(permit: Permit) {
    let mut headers = HeaderMap::new();
    headers
        .insert("ratelimit-policy", HeaderValue::from_static(r#""user-second";q=100000000;w=10"#));
    headers.insert("ratelimit", HeaderValue::from_static(r#""user-second";r=99999999;t=1"#));
    permit.heard(StatusCode::OK, &headers);
}
