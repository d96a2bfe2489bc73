//! The gateway against nginx and HAProxy: CPU time per request, forwarded and refused, with everything on.
//!
//! Each proxy has core 0 to itself while it is measured; the load and the backend have core 1. What a request costs
//! is the time the proxy's process was on its core, by the kernel's own account, divided by the requests that were
//! answered meanwhile. So a busy neighbour makes a round longer, but a request hardly dearer.

mod counts;
mod echo;
pub mod load;
mod memory;
pub mod proxies;

use crate::measure::median;
use crate::report::Report;
use load::{Answered, Asks, Cost, Load};
use proxies::{Backend, Case, Kind, Proxy};

const ROUNDS: usize = 9;
const SECONDS: u32 = 2;
const CONNECTIONS: u32 = 64;

pub fn run(report: &mut Report, wanted: &[String]) {
    if let [program, port] = wanted
        && program == "echo"
        && let Ok(port) = port.parse()
        && let Err(error) = echo::serve(port)
    {
        eprintln!("bench gateway echo: {error}");
        std::process::exit(1);
    }
    type Bench = fn(&mut Report) -> Result<(), String>;
    let all: [(&str, Bench); 8] = [
        ("forward", |report| compare(report, "forward", (Case::Forward, Asks::Same))),
        ("refuse", |report| compare(report, "refuse", (Case::Refuse, Asks::Same))),
        ("varied", |report| compare(report, "forward_varied", (Case::Forward, Asks::Varied))),
        ("refuse_varied", |report| compare(report, "refuse_varied", (Case::Refuse, Asks::Varied))),
        ("bare", |report| compare(report, "forward_bare", (Case::Bare, Asks::Same))),
        ("counts", counts::run),
        ("idle", memory::idle),
        ("stream", memory::stream),
    ];
    for (name, bench) in all {
        let is_wanted = wanted.is_empty() || wanted.iter().any(|one| one == name);
        if is_wanted && let Err(error) = bench(report) {
            eprintln!("bench gateway {name}: {error}");
            std::process::exit(1);
        }
    }
}

/// Ours and its peers in turns.
fn compare(report: &mut Report, name: &str, (case, asks): (Case, Asks)) -> Result<(), String> {
    let (answered, kinds): (_, &[Kind]) = match case {
        Case::Refuse => (
            Answered::Refused,
            &[
                Kind::Ours,
                Kind::Nginx,
                Kind::Haproxy,
                Kind::NginxLogging,
                Kind::NginxTelling,
                Kind::Echo,
            ],
        ),
        Case::Bare | Case::Forward => (Answered::Well, &[Kind::Ours, Kind::Nginx, Kind::Haproxy]),
    };
    let backend = Backend::start()?;
    let start = |kind: &Kind| Proxy::start(*kind, case, &backend);
    let proxies = kinds.iter().map(start).collect::<Result<Vec<Proxy>, String>>()?;
    let load = Load { connections: CONNECTIONS, seconds: 1, answered, asks };
    for proxy in &proxies {
        load.on(proxy)?;
    }
    let load = Load { seconds: SECONDS, ..load };
    let mut rounds: Vec<Vec<Cost>> = Vec::new();
    for round in 0..ROUNDS {
        // Whoever is measured last has the machine as the others left it: take turns.
        let mut all: Vec<(usize, Cost)> = Vec::new();
        for at in 0..kinds.len() {
            let which = (round + at) % kinds.len();
            all.push((which, load.on(&proxies[which])?));
        }
        all.sort_by_key(|(which, _)| *which);
        rounds.push(all.into_iter().map(|(_, cost)| cost).collect());
    }
    let of = |which: usize| rounds.iter().map(move |round| round[which].micros);
    let p99 = |which: usize| rounds.iter().map(move |round| round[which].p99_ms);
    for (at, peer) in kinds.iter().enumerate().skip(1) {
        report.row(&[
            ("case", name.into()),
            ("ours_us", median(of(0)).into()),
            ("peer", peer.name().into()),
            ("peer_us", median(of(at)).into()),
            ("ratio", median(rounds.iter().map(|round| round[0].micros / round[at].micros)).into()),
            ("p99_ours", median(p99(0)).into()),
            ("p99_peer", median(p99(at)).into()),
        ]);
    }
    Ok(())
}
