//! What one forwarded request takes besides time: system calls by strace, allocations by counting them.

use std::process::{Command, Stdio};
use std::sync::Arc;

use tollgate_gate::Gate;
use tollgate_gateway::law::{Law, Metrics, Plane, Shared};
use tollgate_gateway::{Gateway, Settings};
use tollgate_policy::compile::Policy;

use super::load::{Answered, Asks, Load};
use super::proxies::{Backend, Case, Kind, Proxy, free_port, ours_config};
use crate::allocations;
use crate::report::Report;

pub fn run(report: &mut Report) -> Result<(), String> {
    for (kind, name) in [(Kind::Ours, "ours"), (Kind::Nginx, "nginx")] {
        let calls = syscalls(kind)?;
        report.row(&[
            ("case", "syscalls".into()),
            ("of", name.into()),
            ("per_request", calls.into()),
        ]);
    }
    report.row(&[("case", "allocations".into()), ("per_request", allocations_a_request()?.into())]);
    Ok(())
}

/// Calls of a proxy a request, while strace looks on.
fn syscalls(kind: Kind) -> Result<f64, String> {
    let backend = Backend::start()?;
    let proxy = Proxy::start(kind, Case::Forward, &backend)?;
    let load = Load { connections: 64, seconds: 2, answered: Answered::Well, asks: Asks::Same };
    load.on(&proxy)?;
    let strace = Command::new("strace")
        .args(["-f", "-c", "-p", &proxy.pid().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("strace did not start: {error}"))?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    let cost = load.on(&proxy)?;
    let pid = strace.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid]).status();
    let output = strace.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let total = text.lines().rev().find(|line| line.trim_end().ends_with("total"));
    let calls = total.and_then(|line| line.split_whitespace().nth(3)?.parse::<f64>().ok());
    calls.map(|calls| calls / cost.requests).ok_or(format!("strace said:\n{text}"))
}

/// Allocations of the whole gateway a request, which runs in this process for the purpose.
fn allocations_a_request() -> Result<f64, String> {
    let backend = Backend::start()?;
    let port = free_port()?;
    let text = ours_config(Case::Forward, port, backend.port)?;
    let policy = Policy::of("bench", text.as_bytes()).map_err(|f| f.diagnostics.to_string())?;
    let settings = Settings::new(&policy.settings().server);
    let gate = Gate::new(1_000_000);
    let metrics = Metrics::default();
    let plane = Plane::prepare(policy, None).map_err(|error| error.to_string())?;
    let plane = plane.bind(&gate, &metrics);
    let shared = Shared::new((gate, metrics), (), plane);
    let gateway = Gateway::bind(settings).map_err(|error| error.to_string())?;
    let running = gateway
        .start(move || Law::new(&Arc::clone(&shared), ()))
        .map_err(|error| error.to_string())?;
    let load = Load { connections: 64, seconds: 2, answered: Answered::Well, asks: Asks::Same };
    load.at(port)?;
    let (cost, counted) = allocations::count(|| load.at(port));
    running.stop().stop();
    Ok(counted as f64 / cost?.requests)
}
