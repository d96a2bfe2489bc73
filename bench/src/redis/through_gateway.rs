//! What strict counting adds to a request through the gateway, at half of what the gateway can do with it.
//!
//! ```text
//! core 0: the gateway
//! core 1: Redis; the callers and what they are forwarded to, in one thread
//! ```
//! Redis goes before the others on its core: to wait for a core until somebody else has used up a turn, for milliseconds, is
//! what happens on two cores, not what strict counting takes. For the same reason callers and backend are one thread: as two
//! they kept each other waiting for four milliseconds, and hid everything else.

use std::time::Duration;

use super::node;
use super::server::Server;
use crate::calls::{Awake, Calls, answering, at, on_core};
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
    let (server, (backend, answering)) = (Server::start_before_others_on("1"), answering()?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let start = |mode| node::gateway((mode, &limits(mode)), folder.path(), (&server, backend));
    let (local, strict) = (start("local")?, start("strict")?);
    let (requests, rounds) = on_core("1", async {
        tokio::spawn(answering);
        measure(&local, &strict).await
    })?;
    report.row(&[
        ("bench", "strict_through_gateway".into()),
        ("requests_per_s", requests.into()),
        ("p99_local_ms", median(rounds.iter().map(|(local, _)| *local)).into()),
        ("p99_strict_ms", median(rounds.iter().map(|(_, strict)| *strict)).into()),
        ("added_ms", median(rounds.iter().map(|(local, strict)| strict - local)).into()),
        ("at_most_ms", 1.0.into()),
    ]);
    Ok(())
}

/// How many requests a second there are, and the p99 of each round, here and strict.
async fn measure(local: &Proxy, strict: &Proxy) -> Result<(f64, Vec<(f64, f64)>), String> {
    let unpaced = Calls { callers: CALLERS, pace: Duration::ZERO, round: ROUND };
    let long = Calls { round: 4 * ROUND, ..unpaced };
    long.on(local.port).await?;
    let most = long.on(strict.port).await?.len() as f64 / long.round.as_secs_f64();
    let calls =
        Calls { pace: Duration::from_secs_f64(f64::from(CALLERS) / (most / 2.0)), ..unpaced };
    let p99 = async |gateway: &Proxy| {
        calls.on(gateway.port).await.map(|micros| at(&micros, 0.99) / 1000.0)
    };
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        rounds.push(if number % 2 == 0 {
            (p99(local).await?, p99(strict).await?)
        } else {
            let strict = p99(strict).await?;
            (p99(local).await?, strict)
        });
    }
    Ok((most / 2.0, rounds))
}

fn limits(consistency: &str) -> String {
    format!(
        "plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 1000000 }}, scope: user, consistency: {consistency} }} }} }}
tenants: [ {{ id: acme, plan: pro }} ]
"
    )
}
