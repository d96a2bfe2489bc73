//! What deciding costs on a request's path, by where counters are kept.

use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::Gate;
use tollgate_policy::compile::{Policy, Work};
use tollgate_redis::{Settings, SharedCounters, Sharing};

use super::{ROUNDS, server::Server};
use crate::measure::median;
use crate::report::Report;

/// What the chain of a request costs in this process, as the gateway decides it: a plan's limit, its tenant's and the
/// system's, in memory alone, shared afterwards, and from slices; then the plan's limit alone with a quota, in memory and
/// from the storage's blocks.
pub(super) fn run(report: &mut Report) {
    let server = Server::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _inside = runtime.enter();
    let limiter = Arc::new(tollgate_engine::Limiter::new());
    let sharing = Sharing {
        settings: Settings::new(&server.url()).expect("a URL").timeout(Duration::from_secs(1)),
        prefix: "bench".to_owned(),
        interval: Duration::from_millis(100),
        fallback: tollgate_policy::shapes::Fallback::FailClosed,
        max_keys: 1_000_000,
    };
    let shared = SharedCounters::start(sharing, &limiter);
    while !shared.state().is_up {
        std::thread::sleep(Duration::from_millis(5));
    }
    let folder = std::env::temp_dir().join(format!("tollgate-bench-{}", std::process::id()));
    let store = tollgate_storage::Embedded::at(&folder).open().expect("a database");
    let fail = tollgate_policy::shapes::OnError::FailClosed;
    let quotas = tollgate_storage::Quotas::new(store, 1_000_000, fail);
    let alone = Gate::over(Arc::clone(&limiter));
    let gate = Gate::over(limiter).keeping(Arc::new(quotas)).keeping(Arc::new(shared));
    let mut chains = Vec::new();
    for mode in ["local", "hybrid", "lease"] {
        let of = |rest: &str| {
            format!(
                "{{ sustained: {{ rate: 1000000000 }}, burst: {{ capacity: 1000000000000 }}, consistency: {mode}{rest} }}"
            )
        };
        chains.push((&gate, format!(
            "rate_limit_sync: {{ enabled: true }}\nplans: {{ p: {{ rate_limit: {} }} }}\ntenants:\n  - {{ id: acme, plan: p, rate_limit: {} }}\n  - {{ id: system, rate_limit: {} }}\n",
            of(", scope: user"), of(""), of(", sharing: enforce"),
        )));
    }
    let quota = "plans: { p: { rate_limit: { sustained: { rate: 1000000000 } }, quota: { limit: 9000000000000, window: year } } }\ntenants: [ { id: acme, plan: p } ]\n";
    chains.push((&alone, quota.to_owned()));
    chains.push((&gate, quota.to_owned()));
    let chains: Vec<_> = chains
        .into_iter()
        .map(|(gate, text)| {
            let policy = Policy::of("bench", text.as_bytes()).expect("a good policy");
            (gate, gate.enforce(policy))
        })
        .collect();
    let home = std::net::IpAddr::from([127, 0, 0, 1]);
    let decide = |(gate, in_force): &(&Gate, Arc<tollgate_gate::InForce>)| {
        let acme = in_force.policy().tenants().number("acme").expect("declared");
        let caller = gate.caller(in_force, acme, tollgate_gate::Holder::User("ada"), home);
        gate.decide(in_force, &caller, Work::default()).is_admitted()
    };
    for (gate, in_force) in &chains {
        let acme = in_force.policy().tenants().number("acme").expect("declared");
        let caller = gate.caller(in_force, acme, tollgate_gate::Holder::User("ada"), home);
        // Slices grow with what is spent.
        for _ in 0..300_000 {
            assert!(runtime.block_on(gate.pass(in_force, &caller, Work::default())).is_admitted());
        }
    }
    let calls = 300_000;
    let at_once = std::cell::Cell::new(0u64);
    let mut nanos = vec![Vec::new(); chains.len()];
    for _ in 0..ROUNDS {
        for (chain, nanos) in chains.iter().zip(&mut nanos) {
            let work = || at_once.set(at_once.get() + u64::from(decide(chain)));
            nanos.push(crate::measure::nanos_per_call_here(calls, work));
        }
    }
    let mut medians = nanos.into_iter().map(|nanos| median(nanos.into_iter()));
    let mut next = || medians.next().unwrap_or_default();
    let share = at_once.get() as f64 / (calls * (ROUNDS * chains.len()) as u64) as f64;
    report.row(&[
        ("bench", "paths".into()),
        ("limits", 3usize.into()),
        ("local_ns", next().into()),
        ("hybrid_ns", next().into()),
        ("lease_ns", next().into()),
        ("quota_in_memory_ns", next().into()),
        ("quota_in_storage_ns", next().into()),
        ("decided_at_once", share.into()),
    ]);
    drop(chains);
    let _ = std::fs::remove_dir_all(folder);
}
