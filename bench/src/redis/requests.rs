//! What a request costs the gateway, by where the counters of its chain are kept: a plan's, its tenant's and the system's.
//!
//! CPU time of the whole process, so what is sent to Redis and back meanwhile is in it. The gateway has core 0; the load, Redis
//! and what requests are forwarded to have core 1.

use super::node;
use super::server::Server;
use crate::gateway::load::{Answered, Asks, Cost, Load};
use crate::gateway::proxies::{Backend, Proxy};
use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 33;
/// What each side is called, and where its counters are kept.
const SIDES: [(&str, &str); 4] =
    [("local", "local"), ("hybrid", "hybrid"), ("lease", "lease"), ("local-again", "local")];

pub(super) fn run(report: &mut Report) {
    if let Err(error) = compare(report) {
        eprintln!("bench redis requests: {error}");
        std::process::exit(1);
    }
}

fn compare(report: &mut Report) -> Result<(), String> {
    let (server, backend) = (Server::start_on("1"), Backend::start()?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let start = |(name, mode): (&str, &str)| {
        node::gateway((name, &limits(mode)), folder.path(), (&server, backend.port))
    };
    let gateways: Vec<Proxy> = SIDES.into_iter().map(start).collect::<Result<_, _>>()?;
    let load = Load { connections: 64, seconds: 1, answered: Answered::Well, asks: Asks::Same };
    // Slices grow with what is spent.
    for gateway in gateways.iter().chain(&gateways) {
        load.on(gateway)?;
    }
    let mut rounds: Vec<Vec<Cost>> = Vec::new();
    for round in 0..ROUNDS {
        let mut costs = Vec::new();
        for at in 0..SIDES.len() {
            let which = (round + at) % SIDES.len();
            costs.push((which, load.on(&gateways[which])?));
        }
        costs.sort_by_key(|(which, _)| *which);
        rounds.push(costs.into_iter().map(|(_, cost)| cost).collect());
    }
    for (at, (name, _)) in SIDES.into_iter().enumerate() {
        let of = |what: fn(&Cost) -> f64| median(rounds.iter().map(|round| what(&round[at])));
        let ratio = median(rounds.iter().map(|round| round[at].micros / round[0].micros));
        report.row(&[
            ("bench", "requests".into()),
            ("mode", name.into()),
            ("cpu_us", of(|cost| cost.micros).into()),
            ("ratio_to_local", ratio.into()),
            ("at_most", 1.1.into()),
            ("p99_ms", of(|cost| cost.p99_ms).into()),
        ]);
    }
    Ok(())
}

fn limits(mode: &str) -> String {
    let of = |rate: u64, rest: &str| {
        format!("{{ sustained: {{ rate: {rate} }}, consistency: {mode}{rest} }}")
    };
    format!(
        "plans: {{ pro: {{ rate_limit: {} }} }}
tenants:
  - {{ id: acme, plan: pro, rate_limit: {} }}
  - {{ id: system, rate_limit: {} }}
",
        of(1_000_000, ", scope: user"),
        of(2_000_000, ""),
        of(4_000_000, ", sharing: enforce"),
    )
}
