//! The gateway against nginx and HAProxy: CPU time per forwarded request.
//!
//! Each proxy has core 0 to itself while it is measured; the load and the backend have core 1. What a request costs
//! is the time the proxy's process was on its core, by the kernel's own account, divided by the requests that were
//! answered meanwhile. So a busy neighbour makes a round longer, but a request hardly dearer.

mod load;
mod proxies;

use crate::measure::median;
use crate::report::Report;
use load::Load;
use proxies::{Backend, Kind, Proxy};

const ROUNDS: usize = 9;
const SECONDS: u32 = 2;
const CONNECTIONS: u32 = 64;

pub fn run(report: &mut Report, _wanted: &[String]) {
    if let Err(error) = forward(report) {
        eprintln!("bench gateway: {error}");
        std::process::exit(1);
    }
}

/// Forwarding and nothing else.
fn forward(report: &mut Report) -> Result<(), String> {
    let backend = Backend::start()?;
    let ours = Proxy::start(Kind::Ours, &backend)?;
    let peers = [Proxy::start(Kind::Nginx, &backend)?, Proxy::start(Kind::Haproxy, &backend)?];
    let load = Load { connections: CONNECTIONS, seconds: 1 };
    for proxy in std::iter::once(&ours).chain(&peers) {
        load.on(proxy)?;
    }
    let load = Load { seconds: SECONDS, ..load };
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        // Whoever is measured last has the machine as the others left it: take turns.
        let mut all = [None, None, None];
        for at in 0..3 {
            let which = (round + at) % 3;
            all[which] = Some(load.on([&ours, &peers[0], &peers[1]][which])?);
        }
        let [Some(ours), Some(nginx), Some(haproxy)] = all else {
            return Err("a round is missing".to_owned());
        };
        rounds.push([ours, nginx, haproxy]);
    }
    for (at, peer) in [(1, "nginx"), (2, "haproxy")] {
        let of = |which: usize| rounds.iter().map(move |round| round[which].micros);
        let p99 = |which: usize| rounds.iter().map(move |round| round[which].p99_ms);
        report.row(&[
            ("case", "forward_bare".into()),
            ("ours_us", median(of(0)).into()),
            ("peer", peer.into()),
            ("peer_us", median(of(at)).into()),
            ("ratio", median(rounds.iter().map(|round| round[0].micros / round[at].micros)).into()),
            ("p99_ours", median(p99(0)).into()),
            ("p99_peer", median(p99(at)).into()),
        ]);
    }
    Ok(())
}
