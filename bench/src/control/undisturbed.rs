//! Callers of the data plane while keys are issued at full speed.
//!
//! ```text
//! core 0: the gateway's workers, callers at a steady pace, and what they are forwarded to
//! core 1: the gateway's control plane and storage, clients that issue keys as fast as they are answered
//! ```
//! So what is measured is what one plane does to the other: locks, messages, memory, the disk. That both want the same core at
//! times is a question of how many there are.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate_policy::Sha256;

use crate::gateway::proxies::{KEY, built, free_port};
use crate::measure::median;
use crate::report::Report;

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(3);
/// 2000 requests a second: a worker answers ten times as many, so nobody waits for anybody else.
const CALLERS: u64 = 16;
const PACE: Duration = Duration::from_millis(8);
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
        let backend = backend()?;
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
        let calls = thread::spawn(move || on_core("0", call(port)));
        let calls = calls.join().map_err(|_| "callers panicked")?;
        is_over.store(true, Relaxed);
        issuers.join().map_err(|_| "issuers panicked")?;
        let mut micros = calls?;
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| micros[(micros.len() as f64 * share) as usize];
        let keys_per_s = issued.load(Relaxed) as f64 / ROUND.as_secs_f64();
        Ok(Seen { p50_us: at(0.5), p99_us: at(0.99), keys_per_s })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs on one core, by a runtime of one thread.
fn on_core<T>(core: &str, work: impl Future<Output = T>) -> T {
    if let Ok(thread) = fs::read_link("/proc/thread-self") {
        pin(&Path::new("/proc").join(thread), core);
    }
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Gives the thread of a folder of `/proc` a core.
fn pin(task: &Path, core: &str) {
    let id = task.file_name().unwrap_or_default();
    let _ = Command::new("taskset").args(["-pc", core]).arg(id).stdout(Stdio::null()).status();
}

/// Answers everything at once, until the process ends.
fn backend() -> Result<u16, String> {
    let failed = |error: std::io::Error| format!("no backend: {error}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let serve = async move {
        let listener = TcpListener::from_std(listener).expect("a listener");
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                while response(&mut stream).await.is_ok() {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    if stream.write_all(answer).await.is_err() {
                        break;
                    }
                }
            });
        }
    };
    thread::spawn(move || on_core("0", serve));
    Ok(port)
}

/// Callers that keep their pace whatever happens; how long each request took, in microseconds.
async fn call(port: u16) -> Result<Vec<f64>, String> {
    let request = format!("GET /bench HTTP/1.1\r\nhost: b\r\nx-api-key: {KEY}\r\n\r\n");
    let (begin, mut callers) = (Instant::now(), JoinSet::new());
    for number in 0..CALLERS {
        let request = request.clone();
        callers.spawn(async move {
            let mut stream = connect(port).await?;
            let mut micros = Vec::new();
            let mut next = begin + PACE.mul_f64(number as f64 / CALLERS as f64);
            while begin.elapsed() < ROUND {
                tokio::time::sleep_until(next.into()).await;
                next += PACE;
                let sent = Instant::now();
                stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
                let head = response(&mut stream).await?;
                if !head.starts_with("HTTP/1.1 200") {
                    return Err(format!("not answered as it should be:\n{head}"));
                }
                micros.push(sent.elapsed().as_nanos() as f64 / 1000.0);
            }
            Ok(micros)
        });
    }
    let all: Result<Vec<Vec<f64>>, String> = callers.join_all().await.into_iter().collect();
    Ok(all?.concat())
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

async fn connect(port: u16) -> Result<TcpStream, String> {
    let stream =
        TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Reads one message, head and body.
async fn response(stream: &mut TcpStream) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut bytes).await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Ok(head.to_owned());
            }
        }
        if read == 0 {
            return Err("the connection ended".to_owned());
        }
    }
}
