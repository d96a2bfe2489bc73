//! What strict counting adds to a request through the gateway, at half of what the gateway can do with it.
//!
//! ```text
//! core 0: the gateway
//! core 1: Redis, the callers, and what they are forwarded to
//! ```
//! Redis goes before the others on its core: to wait for a core until somebody else has used up a turn, for milliseconds, is
//! what happens on two cores, not what strict counting takes.

use std::thread;
use std::time::Duration;

use super::node;
use super::server::Server;
use crate::calls::{Awake, Calls, at, backend, on_core};
use crate::gateway::proxies::Proxy;
use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 40;
const CALLERS: u32 = 32;
/// Short, so that milliseconds which the machine takes away count in few of them.
const ROUND: Duration = Duration::from_millis(500);

pub fn run(report: &mut Report) {
    if let Err(error) = compare(report) {
        eprintln!("bench redis gateway: {error}");
        std::process::exit(1);
    }
}

/// The same limit counted here and in Redis, in turns.
fn compare(report: &mut Report) -> Result<(), String> {
    let _awake = [Awake::start("0")?, Awake::start("1")?];
    let (server, backend) = (Server::start_before_others_on("1"), backend("1")?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let start = |mode| node::gateway((mode, &limits(mode)), folder.path(), (&server, backend));
    let (local, strict) = (start("local")?, start("strict")?);
    let unpaced = Calls { callers: CALLERS, pace: Duration::ZERO, round: ROUND };
    let long = Calls { round: 4 * ROUND, ..unpaced };
    round(long, &local)?;
    let most = round(long, &strict)?.len() as f64 / long.round.as_secs_f64();
    let calls =
        Calls { pace: Duration::from_secs_f64(f64::from(CALLERS) / (most / 2.0)), ..unpaced };
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let (first, second) = if number % 2 == 0 { (&local, &strict) } else { (&strict, &local) };
        let p99 = |gateway| round(calls, gateway).map(|micros| at(&micros, 0.99) / 1000.0);
        let (first, second) = (p99(first)?, p99(second)?);
        rounds.push(if number % 2 == 0 { (first, second) } else { (second, first) });
    }
    report.row(&[
        ("bench", "strict_through_gateway".into()),
        ("requests_per_s", (most / 2.0).into()),
        ("p99_local_ms", median(rounds.iter().map(|(local, _)| *local)).into()),
        ("p99_strict_ms", median(rounds.iter().map(|(_, strict)| *strict)).into()),
        ("added_ms", median(rounds.iter().map(|(local, strict)| strict - local)).into()),
        ("at_most_ms", 1.0.into()),
    ]);
    Ok(())
}

fn round(calls: Calls, gateway: &Proxy) -> Result<Vec<f64>, String> {
    let port = gateway.port;
    let calls = thread::spawn(move || on_core("1", calls.on(port)));
    calls.join().map_err(|_| "callers panicked".to_owned())?
}

fn limits(consistency: &str) -> String {
    format!(
        "plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 1000000 }}, scope: user, consistency: {consistency} }} }} }}
tenants: [ {{ id: acme, plan: pro }} ]
"
    )
}
