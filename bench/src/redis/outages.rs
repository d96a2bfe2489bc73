//! Redis killed twenty times under load, and started empty each time: what each mode admits, and how long callers wait.

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
const CAPACITY: u64 = 2000;
const CALLERS: usize = 32;

/// What a caller saw.
#[derive(Default)]
struct Seen {
    admitted: u64,
    millis: Vec<f64>,
}

pub(super) fn run(report: &mut Report) {
    // An empty server grants a capacity once more, where it is the server that counts; a node that counts itself forgets nothing.
    let often = CAPACITY * (KILLS + 1);
    let cases = [
        ("strict", Fallback::FailClosed, often),
        ("strict", Fallback::LocalOnly, often),
        ("lease", Fallback::FailClosed, often),
        ("hybrid", Fallback::FailClosed, CAPACITY),
    ];
    for (mode, fallback, at_most) in cases {
        let Seen { admitted, mut millis } = under_load(mode, fallback);
        millis.sort_by(f64::total_cmp);
        report.row(&[
            ("bench", "outages".into()),
            ("mode", mode.into()),
            ("fallback", format!("{fallback:?}").as_str().into()),
            ("kills", KILLS.into()),
            ("calls", millis.len().into()),
            ("admitted", admitted.into()),
            ("at_most", at_most.into()),
            ("p99_ms", millis[millis.len() * 99 / 100].into()),
            ("p99_at_most_ms", (TIMEOUT.as_millis() as u64 + 10).into()),
            ("longest_ms", millis[millis.len() - 1].into()),
        ]);
    }
}

fn under_load(mode: &str, fallback: Fallback) -> Seen {
    let mut server = Server::start();
    runtime().block_on(async {
        let limiter = Arc::new(tollgate_engine::Limiter::new());
        let sharing = Sharing {
            settings: Settings::new(&server.url()).expect("a URL").timeout(TIMEOUT),
            prefix: "bench".to_owned(),
            interval: Duration::from_millis(100),
            fallback,
            max_keys: 1_000_000,
        };
        let shared = Arc::new(SharedCounters::start(sharing, &limiter));
        up(&shared).await;
        let gate = Rc::new(Gate::over(limiter).keeping(Arc::clone(&shared) as _));
        // Nothing comes back in the time this takes.
        let text = format!(
            "rate_limit_sync: {{ enabled: true }}\nplans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: day }}, burst: {{ capacity: {CAPACITY} }}, consistency: {mode} }} }} }}\ntenants: [ {{ id: acme, plan: p }} ]\n"
        );
        let in_force = gate.enforce(Policy::of("bench", text.as_bytes()).expect("a good policy"));
        let (stop, local) = (Rc::new(Cell::new(false)), LocalSet::new());
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (gate, in_force) = (Rc::clone(&gate), Arc::clone(&in_force));
                local.spawn_local(calls(gate, in_force, Rc::clone(&stop)))
            })
            .collect();
        let kills = async {
            for _ in 0..KILLS {
                tokio::time::sleep(Duration::from_millis(150)).await;
                server.restart();
                up(&shared).await;
            }
            stop.set(true);
        };
        local.run_until(kills).await;
        local.await;
        let mut all = Seen::default();
        for caller in callers {
            let one = caller.await.expect("ran");
            all.admitted += one.admitted;
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

async fn calls(gate: Rc<Gate>, in_force: Arc<InForce>, stop: Rc<Cell<bool>>) -> Seen {
    let acme = in_force.policy().tenants().number("acme").expect("declared");
    let home = std::net::IpAddr::from([127, 0, 0, 1]);
    let mut seen = Seen::default();
    while !stop.get() {
        let caller = gate.caller(&in_force, acme, Holder::User("ada"), home);
        let begin = Instant::now();
        let admitted = gate.pass(&in_force, &caller, Work::default()).await.is_admitted();
        seen.millis.push(begin.elapsed().as_secs_f64() * 1000.0);
        seen.admitted += u64::from(admitted);
        // As requests come: not all at once, nor as fast as they can.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    seen
}
