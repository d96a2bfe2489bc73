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

const ROUNDS: usize = 20;
const CALLERS: u32 = 32;
const ROUND: Duration = Duration::from_secs(1);
/// Short: a machine that takes a core away for three milliseconds twice a second decides the p99 of every round, but not of
/// every span. What counts is the span in the middle.
const SPAN: Duration = Duration::from_millis(100);

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
    let Middle { requests, local: [local_p50, local], strict: [strict_p50, strict] } =
        on_core("1", async {
            tokio::spawn(answering);
            measure(&local, &strict).await
        })?;
    report.row(&[
        ("bench", "strict_through_gateway".into()),
        ("requests_per_s", requests.into()),
        ("p50_local_ms", local_p50.into()),
        ("p50_strict_ms", strict_p50.into()),
        ("p99_local_ms", local.into()),
        ("p99_strict_ms", strict.into()),
        ("added_ms", (strict - local).into()),
        ("at_most_ms", 1.0.into()),
    ]);
    Ok(())
}

/// Half and 99 hundredths of the requests were answered within so many milliseconds, in the span in the middle.
struct Middle {
    requests: f64,
    local: [f64; 2],
    strict: [f64; 2],
}

async fn measure(local: &Proxy, strict: &Proxy) -> Result<Middle, String> {
    let unpaced = Calls { callers: CALLERS, pace: Duration::ZERO, round: ROUND };
    let long = Calls { round: 2 * ROUND, ..unpaced };
    long.on(local.port).await?;
    let half = long.on(strict.port).await?.len() as f64 / long.round.as_secs_f64() / 2.0;
    let calls = Calls { pace: Duration::from_secs_f64(f64::from(CALLERS) / half), ..unpaced };
    let mut spans = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        // Each is first as often.
        let which = (round + round / 2) % 2;
        spans[which].extend(calls.in_spans([local, strict][which].port, SPAN).await?);
    }
    let of = |spans: &[Vec<f64>], share| median(spans.iter().map(|span| at(span, share) / 1000.0));
    let [local, strict] = spans.map(|spans| [of(&spans, 0.5), of(&spans, 0.99)]);
    Ok(Middle { requests: half, local, strict })
}

fn limits(consistency: &str) -> String {
    format!(
        "plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 1000000 }}, scope: user, consistency: {consistency} }} }} }}
tenants: [ {{ id: acme, plan: pro }} ]
"
    )
}
