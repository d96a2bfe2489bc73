//! Callers of the data plane while keys are issued at full speed.
//!
//! ```text
//! core 0: the gateway's workers, callers at a steady pace, and what they are forwarded to
//! core 1: the gateway's control plane and storage, clients that issue keys as fast as they are answered
//! ```
//! So what is measured is what one plane does to the other: locks, messages, memory, the disk. That both want the same core at
//! times is a question of how many there are.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tollgate_policy::Sha256;

use crate::calls::{Calls, at, backend, connect, on_core, pin, response};
use crate::gateway::proxies::{KEY, built, free_port};
use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 9;
/// 2000 requests a second: a worker answers ten times as many, so nobody waits for anybody else.
const CALLS: Calls =
    Calls { callers: 16, pace: Duration::from_millis(8), round: Duration::from_secs(3) };
const ISSUERS: usize = 32;
const TOKEN: &str = "token-of-the-benchmark-0123456789";

pub fn run(report: &mut Report) {
    if let Err(error) = compare(report) {
        eprintln!("bench control undisturbed: {error}");
        std::process::exit(1);
    }
}

/// Rounds with and without issuers in turns.
fn compare(report: &mut Report) -> Result<(), String> {
    let gateway = Gateway::start()?;
    gateway.round(false)?;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let first = gateway.round(round % 2 == 0)?;
        let second = gateway.round(round % 2 != 0)?;
        rounds.push(if round % 2 == 0 { (second, first) } else { (first, second) });
    }
    let of = |which: fn(&Seen) -> f64| {
        let quiet = median(rounds.iter().map(|(quiet, _)| which(quiet)));
        let busy = median(rounds.iter().map(|(_, busy)| which(busy)));
        let ratio = median(rounds.iter().map(|(quiet, busy)| which(busy) / which(quiet)));
        (quiet, busy, ratio)
    };
    let (p50, p99) = (of(|seen| seen.p50_us), of(|seen| seen.p99_us));
    report.row(&[
        ("bench", "undisturbed".into()),
        ("p50_us", p50.0.into()),
        ("p50_issuing_us", p50.1.into()),
        ("p99_us", p99.0.into()),
        ("p99_issuing_us", p99.1.into()),
        ("p99_ratio", p99.2.into()),
        ("at_most", 1.05.into()),
        ("keys_per_s", median(rounds.iter().map(|(_, busy)| busy.keys_per_s)).into()),
    ]);
    Ok(())
}

/// What one round showed.
struct Seen {
    p50_us: f64,
    p99_us: f64,
    keys_per_s: f64,
}

/// A gateway in a process of its own.
struct Gateway {
    child: Child,
    port: u16,
    admin: u16,
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Result<Gateway, String> {
        let folder = super::folder();
        let (port, admin) = (free_port()?, free_port()?);
        let backend = backend("0")?;
        let text = format!(
            "server: {{ listen: 127.0.0.1:{port}, admin_listen: 127.0.0.1:{admin}, workers: 1 }}
storage: {{ path: ./data }}
upstreams: {{ api: {{ url: \"http://127.0.0.1:{backend}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 1000000 }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: pro }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
            Sha256::of(KEY.as_bytes())
        );
        let failed = |error: std::io::Error| format!("the gateway did not start: {error}");
        fs::write(folder.path().join("tollgate.yaml"), text).map_err(failed)?;
        let child = Command::new(built("tollgate", &[], "tollgate")?)
            .args(["serve", "--config", "tollgate.yaml"])
            .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let gateway = Gateway { child, port, admin, _folder: folder };
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", admin)).is_ok() {
                gateway.share_cores();
                return Ok(gateway);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err("the gateway does not listen".to_owned())
    }

    /// Workers have core 0, everybody else core 1.
    fn share_cores(&self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let core = if name.starts_with("worker-") { "0" } else { "1" };
            pin(&task.path(), core);
        }
    }

    fn round(&self, is_issuing: bool) -> Result<Seen, String> {
        let (is_over, issued) = (Arc::new(AtomicBool::new(!is_issuing)), Arc::default());
        let (admin, over, count) = (self.admin, Arc::clone(&is_over), Arc::clone(&issued));
        let issuers = thread::spawn(move || on_core("1", issue(admin, over, count)));
        let port = self.port;
        let calls = thread::spawn(move || on_core("0", CALLS.on(port)));
        let calls = calls.join().map_err(|_| "callers panicked")?;
        is_over.store(true, Relaxed);
        issuers.join().map_err(|_| "issuers panicked")?;
        let micros = calls?;
        let keys_per_s = issued.load(Relaxed) as f64 / CALLS.round.as_secs_f64();
        Ok(Seen { p50_us: at(&micros, 0.5), p99_us: at(&micros, 0.99), keys_per_s })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients that issue keys, each as soon as its last was answered.
async fn issue(admin: u16, is_over: Arc<AtomicBool>, issued: Arc<AtomicU64>) {
    let body = "{\"tenant\": \"acme\"}";
    let request = format!(
        "POST /v1/keys HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut issuers = JoinSet::new();
    for _ in 0..ISSUERS {
        let (request, is_over, issued) =
            (request.clone(), Arc::clone(&is_over), Arc::clone(&issued));
        issuers.spawn(async move {
            let Ok(mut stream) = connect(admin).await else { return };
            while !is_over.load(Relaxed) && stream.write_all(request.as_bytes()).await.is_ok() {
                match response(&mut stream).await {
                    Ok(head) if head.starts_with("HTTP/1.1 201") => issued.fetch_add(1, Relaxed),
                    other => panic!("a key was not issued: {other:?}"),
                };
            }
        });
    }
    issuers.join_all().await;
}
