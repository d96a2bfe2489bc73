//! Redis killed twenty times under load of two nodes, and started empty each time: what they admit in each mode together, and how
//! long callers wait.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use tollgate_engine::SystemClock;
use tollgate_gate::{Gate, Holder, InForce};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::Fallback;
use tollgate_redis::{Settings, SharedCounters, Sharing};

use super::{runtime, server::Server};
use crate::report::Report;

const TIMEOUT: Duration = Duration::from_millis(50);
const KILLS: u64 = 20;
const NODES: u64 = 2;
const CAPACITY: u64 = 2000;
/// Callers of each node.
const CALLERS: usize = 16;
const INTERVAL: Duration = Duration::from_millis(100);

/// What is driven, and how.
struct Case {
    mode: &'static str,
    fallback: Fallback,
    /// How long a caller waits between two calls.
    pause: Duration,
    /// What all nodes admit at most, where the last was admitted after so many kills.
    at_most: fn(u64) -> u64,
}

const FAST: Duration = Duration::from_millis(2);
const SLOW: Duration = Duration::from_millis(16);

/// An empty server grants a capacity once more, where it is the server that counts.
fn often(_: u64) -> u64 {
    CAPACITY * (KILLS + 1)
}

/// And whoever is back first is granted of it what the others have not told yet: a share for each of them.
fn often_and_shares(kills: u64) -> u64 {
    often(kills) + KILLS * (CAPACITY - CAPACITY / NODES)
}

/// A cut-off node has its share besides what the server grants.
fn often_and_all_shares(kills: u64) -> u64 {
    often(kills) + KILLS * CAPACITY
}

/// A node that counts itself forgets nothing. What the others admitted in the last 2τ + d it does not know, and never learns if the
/// server dies with it.
fn once_and_unknown(kills: u64) -> u64 {
    let unknown = (2 * INTERVAL + TIMEOUT).as_millis() / SLOW.as_millis();
    let others = (NODES - 1) * CALLERS as u64;
    CAPACITY + (kills + 1) * others * (unknown as u64 + 1)
}

const CASES: [Case; 5] = [
    Case { mode: "strict", fallback: Fallback::FailClosed, pause: FAST, at_most: often },
    Case { mode: "strict", fallback: Fallback::LocalOnly, pause: FAST, at_most: often_and_shares },
    Case { mode: "lease", fallback: Fallback::FailClosed, pause: FAST, at_most: often },
    Case {
        mode: "lease",
        fallback: Fallback::LocalOnly,
        pause: FAST,
        at_most: often_and_all_shares,
    },
    Case { mode: "hybrid", fallback: Fallback::FailClosed, pause: SLOW, at_most: once_and_unknown },
];

/// What callers saw.
#[derive(Default)]
struct Seen {
    admitted: u64,
    /// How often the server had been killed when the last was admitted.
    kills: u64,
    millis: Vec<f64>,
}

pub(super) fn run(report: &mut Report) {
    for case in CASES {
        let Seen { admitted, kills, mut millis } = under_load(&case);
        millis.sort_by(f64::total_cmp);
        report.row(&[
            ("bench", "outages".into()),
            ("mode", case.mode.into()),
            ("fallback", format!("{:?}", case.fallback).as_str().into()),
            ("nodes", NODES.into()),
            ("kills", KILLS.into()),
            ("calls", millis.len().into()),
            ("admitted", admitted.into()),
            ("at_most", (case.at_most)(kills).into()),
            ("p99_ms", millis[millis.len() * 99 / 100].into()),
            ("p99_at_most_ms", (TIMEOUT.as_millis() as u64 + 10).into()),
            ("longest_ms", millis[millis.len() - 1].into()),
        ]);
        let at_most = (case.at_most)(kills);
        assert!(admitted <= at_most, "{}: {admitted} were admitted", case.mode);
    }
}

/// One that counts together with others.
struct Node {
    gate: Rc<Gate>,
    in_force: Arc<InForce>,
    shared: Arc<SharedCounters<SystemClock>>,
}

impl Node {
    fn start(server: &Server, case: &Case) -> Node {
        let limiter = Arc::new(tollgate_engine::Limiter::new());
        let sharing = Sharing {
            settings: Settings::new(&server.url()).expect("a URL").timeout(TIMEOUT),
            prefix: "bench".to_owned(),
            interval: INTERVAL,
            fallback: case.fallback,
            max_keys: 1_000_000,
        };
        let shared = Arc::new(SharedCounters::start(sharing, &limiter));
        let gate = Rc::new(Gate::over(limiter).keeping(Arc::clone(&shared) as _));
        // Nothing comes back in the time this takes.
        let text = format!(
            "rate_limit_sync: {{ enabled: true }}\nplans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: day }}, burst: {{ capacity: {CAPACITY} }}, consistency: {} }} }} }}\ntenants: [ {{ id: acme, plan: p }} ]\n",
            case.mode
        );
        let in_force = gate.enforce(Policy::of("bench", text.as_bytes()).expect("a good policy"));
        Node { gate, in_force, shared }
    }
}

fn under_load(case: &Case) -> Seen {
    let mut server = Server::start();
    runtime().block_on(async {
        let nodes: Vec<Node> = (0..NODES).map(|_| Node::start(&server, case)).collect();
        for node in &nodes {
            while node.shared.state().nodes != NODES {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        let (kills, local) = (Rc::new(Cell::new(Some(0))), LocalSet::new());
        let callers: Vec<_> = (0..CALLERS)
            .flat_map(|_| &nodes)
            .map(|node| {
                let (gate, in_force) = (Rc::clone(&node.gate), Arc::clone(&node.in_force));
                local.spawn_local(calls(gate, in_force, (Rc::clone(&kills), case.pause)))
            })
            .collect();
        let killing = async {
            for nth in 1..=KILLS {
                tokio::time::sleep(Duration::from_millis(150)).await;
                kills.set(Some(nth));
                server.restart();
                for node in &nodes {
                    up(&node.shared).await;
                }
            }
            kills.set(None);
        };
        local.run_until(killing).await;
        local.await;
        let mut all = Seen::default();
        for caller in callers {
            let one = caller.await.expect("ran");
            all.admitted += one.admitted;
            all.kills = all.kills.max(one.kills);
            all.millis.extend(one.millis);
        }
        all
    })
}

async fn up(shared: &SharedCounters<SystemClock>) {
    while !shared.state().is_up {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Calls until nobody counts kills any more.
async fn calls(
    gate: Rc<Gate>,
    in_force: Arc<InForce>,
    (kills, pause): (Rc<Cell<Option<u64>>>, Duration),
) -> Seen {
    let acme = in_force.policy().tenants().number("acme").expect("declared");
    let home = std::net::IpAddr::from([127, 0, 0, 1]);
    let mut seen = Seen::default();
    while let Some(kills) = kills.get() {
        let caller = gate.caller(&in_force, acme, Holder::User("ada"), home);
        let begin = Instant::now();
        let is_admitted = gate.pass(&in_force, &caller, Work::default()).await.is_admitted();
        seen.millis.push(begin.elapsed().as_secs_f64() * 1000.0);
        if is_admitted {
            seen.admitted += 1;
            seen.kills = kills;
        }
        // As requests come: not all at once, nor as fast as they can.
        tokio::time::sleep(pause).await;
    }
    seen
}
