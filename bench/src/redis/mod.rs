//! Strict decisions a second against `redis-benchmark` calling the same script on the same server.
//!
//! The server is one core's work. Two processes drive it through the crate, as two gateways would, each with many
//! callers at once; the ceiling is two connections of redis-benchmark with a pipeline as deep.

mod through_gateway;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_engine::{Limit, Rate};
use tollgate_gate::Gate;
use tollgate_policy::compile::{Policy, Work};
use tollgate_redis::{Charge, Figures, Settings, SharedCounters, Sharing, Strict};

use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 5;
const CALLS: usize = 150_000;
/// Callers at once in each of the two processes; redis-benchmark has as many calls on their way.
const CALLERS: usize = 256;
const KEYS: usize = 100_000;

pub fn run(report: &mut Report, wanted: &[String]) {
    match wanted.first().map(String::as_str) {
        Some("drive") => return drive(&wanted[1]),
        Some("exact") => return exact(report),
        Some("outages") => return outages(report),
        Some("paths") => return paths(report),
        Some("gateway") => return through_gateway::run(report),
        _ => {}
    }
    let server = Server::start();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (one, two) = if round % 2 == 0 {
            let ours = both(&server);
            (ours, ceiling(&server))
        } else {
            let ceiling = ceiling(&server);
            (both(&server), ceiling)
        };
        ours.push(one);
        theirs.push(two);
        ratios.push(one / two);
    }
    report.row(&[
        ("bench", "strict".into()),
        ("processes", 2usize.into()),
        ("keys", KEYS.into()),
        ("ours_per_s", median(ours.into_iter()).into()),
        ("peer", "redis-benchmark".into()),
        ("peer_per_s", median(theirs.into_iter()).into()),
        ("ratio", median(ratios.into_iter()).into()),
    ]);
}

fn limit() -> Figures {
    let limit = Limit::token_bucket(Rate::per_second(1000)).burst(1_000_000_000).build();
    Figures::of(&limit.expect("good figures")).expect("in range")
}

/// Decisions a second that two processes make together.
fn both(server: &Server) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let drivers: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args(["redis", "drive", &server.url()]).stdout(Stdio::piped());
            command.spawn().expect("this program")
        })
        .collect();
    let seconds = drivers.into_iter().map(|driver| {
        let output = driver.wait_with_output().expect("ran");
        let text = String::from_utf8(output.stdout).expect("a number");
        text.trim().parse::<f64>().expect("a number")
    });
    // Until the slower one is done: they are not to be measured apart.
    (2 * (CALLS / CALLERS * CALLERS)) as f64 / seconds.fold(0.0, f64::max)
}

/// One of the two processes: prints how many seconds it took.
fn drive(url: &str) {
    let seconds = runtime().block_on(async {
        let settings = Settings::new(url).expect("a URL").timeout(Duration::from_secs(10));
        let strict = Strict::start(settings);
        strict.up().await;
        let begin = Instant::now();
        let local = tokio::task::LocalSet::new();
        for caller in 0..CALLERS {
            let strict = strict.clone();
            local.spawn_local(async move {
                let limit = limit();
                let mut state = caller as u64;
                for _ in 0..CALLS / CALLERS {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let key = format!(
                        "tollgate:ratelimit:user:plan/{:012}:second",
                        (state >> 33) as usize % KEYS
                    );
                    let answer = strict.take(&[Charge::new(&key, &limit)]).await.expect("answered");
                    assert!(answer.verdict().is_admitted());
                }
            });
        }
        local.await;
        begin.elapsed().as_secs_f64()
    });
    println!("{seconds}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Calls a second that redis-benchmark makes of the same script, found among those the crate loaded.
fn ceiling(server: &Server) -> f64 {
    let args = tollgate_redis::driven::arguments(&[Charge::new(
        "tollgate:ratelimit:user:plan/__rand_int__:second",
        &limit(),
    )]);
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-p", &server.port.to_string(), "-n", &(2 * CALLS).to_string(), "--csv"])
        .args(["-c", "2", "-P", &CALLERS.to_string(), "-r", &KEYS.to_string()])
        .args(args);
    let output = command.output().expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The last line is `"the command","calls a second",…`; the command has no quotes.
    let line = text.lines().last().unwrap_or_default();
    let figure = line.split("\",\"").nth(1);
    figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| {
        panic!("redis-benchmark said {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// A million calls of 64 callers on one key: admitted is exactly the limit.
fn exact(report: &mut Report) {
    let server = Server::start();
    let (calls, limit) = (1_000_000u64, 123_456);
    let quota = Limit::quota(limit, tollgate_engine::Period::Year, "UTC").expect("good figures");
    let quota = Figures::of(&quota).expect("in range");
    let admitted = runtime().block_on(async {
        let settings =
            Settings::new(&server.url()).expect("a URL").timeout(Duration::from_secs(10));
        let strict = Strict::start(settings);
        strict.up().await;
        let local = tokio::task::LocalSet::new();
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let (strict, quota) = (strict.clone(), quota.clone());
                local.spawn_local(async move {
                    let mut admitted = 0u64;
                    for _ in 0..calls / 64 {
                        let answer =
                            strict.take(&[Charge::new("one", &quota)]).await.expect("answered");
                        admitted += u64::from(answer.verdict().is_admitted());
                    }
                    admitted
                })
            })
            .collect();
        local.await;
        let mut all = 0;
        for caller in callers {
            all += caller.await.expect("ran");
        }
        all
    });
    report.row(&[
        ("bench", "strict_exact".into()),
        ("callers", 64usize.into()),
        ("calls", calls.into()),
        ("limit", limit.into()),
        ("admitted", admitted.into()),
    ]);
}

/// The server killed twenty times under load, and started empty: what is admitted, and how long calls take.
fn outages(report: &mut Report) {
    let (timeout, capacity, kills) = (Duration::from_millis(50), 2000u64, 20u64);
    let mut server = Server::start();
    let quota = Limit::quota(capacity, tollgate_engine::Period::Year, "UTC").expect("good figures");
    let quota = Figures::of(&quota).expect("in range");
    let (admitted, mut took, failed) = runtime().block_on(async {
        let strict = Strict::start(Settings::new(&server.url()).expect("a URL").timeout(timeout));
        strict.up().await;
        let local = tokio::task::LocalSet::new();
        let stop = std::rc::Rc::new(std::cell::Cell::new(false));
        let callers: Vec<_> = (0..32)
            .map(|_| {
                let (strict, quota, stop) = (strict.clone(), quota.clone(), stop.clone());
                local.spawn_local(async move {
                    let (mut admitted, mut failed, mut took) = (0u64, 0u64, Vec::new());
                    while !stop.get() {
                        let begin = Instant::now();
                        let answer = strict.take(&[Charge::new("one", &quota)]).await;
                        took.push(begin.elapsed().as_secs_f64() * 1000.0);
                        match answer {
                            Ok(answer) => admitted += u64::from(answer.verdict().is_admitted()),
                            Err(_) => failed += 1,
                        }
                        // As requests come: not all at once, nor as fast as they can.
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    (admitted, failed, took)
                })
            })
            .collect();
        let chaos = async {
            for _ in 0..kills {
                tokio::time::sleep(Duration::from_millis(150)).await;
                server.restart();
                strict.up().await;
            }
            stop.set(true);
        };
        local.run_until(chaos).await;
        local.await;
        let (mut admitted, mut failed, mut took) = (0, 0, Vec::new());
        for caller in callers {
            let one = caller.await.expect("ran");
            admitted += one.0;
            failed += one.1;
            took.extend(one.2);
        }
        (admitted, took, failed)
    });
    took.sort_by(f64::total_cmp);
    report.row(&[
        ("bench", "outages".into()),
        ("kills", kills.into()),
        ("calls", took.len().into()),
        ("failed", failed.into()),
        ("admitted", admitted.into()),
        ("at_most", (capacity * (kills + 1)).into()),
        ("timeout_ms", 50u64.into()),
        ("p99_ms", took[took.len() * 99 / 100].into()),
        ("longest_ms", took[took.len() - 1].into()),
    ]);
}

/// What the chain of a request costs in this process, as the gateway decides it: a plan's limit, its tenant's and the
/// system's, in memory alone, shared afterwards, and from slices; then the plan's limit alone with a quota, in memory and
/// from the storage's blocks.
fn paths(report: &mut Report) {
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

struct Server {
    port: u16,
    child: Child,
}

impl Server {
    fn start() -> Server {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        Server { port, child: Server::spawn(port) }
    }

    /// Killed as by `kill -9`, and started again with nothing.
    fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Server::spawn(self.port);
    }

    fn spawn(port: u16) -> Child {
        Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed")
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
