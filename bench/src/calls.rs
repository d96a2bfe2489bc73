//! Callers at a steady pace, and what they are forwarded to: how long a request takes when nobody is in a hurry.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::gateway::proxies::KEY;

/// Callers that keep their pace whatever happens; without one, each goes on as soon as it is answered.
#[derive(Clone, Copy)]
pub struct Calls {
    pub callers: u32,
    pub pace: Duration,
    pub round: Duration,
}

impl Calls {
    /// How long each request took, in microseconds, shortest first.
    pub async fn on(self, port: u16) -> Result<Vec<f64>, String> {
        let calls = self.each_on(port).await?;
        let mut micros: Vec<f64> = calls.into_iter().map(|(_, micros)| micros).collect();
        micros.sort_by(f64::total_cmp);
        Ok(micros)
    }

    /// The same for each span of so long by itself, but the first, in which connections are made.
    pub async fn in_spans(self, port: u16, span: Duration) -> Result<Vec<Vec<f64>>, String> {
        let mut calls = self.each_on(port).await?;
        calls.retain(|(sent, _)| (span..self.round).contains(sent));
        calls.sort_by_key(|(sent, _)| *sent);
        let nth = |sent: &Duration| sent.div_duration_f64(span) as u32;
        let spans = calls.chunk_by(|(one, _), (other, _)| nth(one) == nth(other));
        let micros = spans.map(|calls| {
            let mut micros: Vec<f64> = calls.iter().map(|(_, micros)| *micros).collect();
            micros.sort_by(f64::total_cmp);
            micros
        });
        Ok(micros.collect())
    }

    /// When each request was sent, since the beginning, and how long it took.
    async fn each_on(self, port: u16) -> Result<Vec<(Duration, f64)>, String> {
        let request = format!("GET /bench HTTP/1.1\r\nhost: b\r\nx-api-key: {KEY}\r\n\r\n");
        let (begin, mut callers) = (Instant::now(), JoinSet::new());
        for number in 0..self.callers {
            let request = request.clone();
            callers.spawn(async move {
                let mut stream = connect(port).await?;
                let mut calls = Vec::new();
                let mut next = begin + self.pace * number / self.callers;
                while begin.elapsed() < self.round {
                    if !self.pace.is_zero() {
                        tokio::time::sleep_until(next.into()).await;
                        next += self.pace;
                    }
                    let sent = Instant::now();
                    stream
                        .write_all(request.as_bytes())
                        .await
                        .map_err(|error| error.to_string())?;
                    let head = response(&mut stream).await?;
                    if !head.starts_with("HTTP/1.1 200") {
                        return Err(format!("not answered as it should be:\n{head}"));
                    }
                    calls.push((sent - begin, sent.elapsed().as_nanos() as f64 / 1000.0));
                }
                Ok(calls)
            });
        }
        let all: Result<Vec<Vec<_>>, String> = callers.join_all().await.into_iter().collect();
        Ok(all?.concat())
    }
}

/// The time within which this share of the requests was answered.
pub fn at(micros: &[f64], share: f64) -> f64 {
    micros[(micros.len() as f64 * share) as usize]
}

/// Runs on one core, by a runtime of one thread.
pub fn on_core<T>(core: &str, work: impl Future<Output = T>) -> T {
    if let Ok(thread) = fs::read_link("/proc/thread-self") {
        pin(&Path::new("/proc").join(thread), core);
    }
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Gives the thread of a folder of `/proc` a core.
pub fn pin(task: &Path, core: &str) {
    let id = task.file_name().unwrap_or_default();
    let _ = Command::new("taskset").args(["-pc", core]).arg(id).stdout(Stdio::null()).status();
}

/// Keeps a core from going to sleep, without ever being in the way: waking up takes a virtual core longer than a request.
pub struct Awake(Child);

impl Awake {
    pub fn start(core: &str) -> Result<Awake, String> {
        Command::new("taskset")
            .args(["-c", core, "chrt", "--idle", "0", "sh", "-c", "while :; do :; done"])
            .spawn()
            .map(Awake)
            .map_err(|error| format!("taskset did not start: {error}"))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers everything at once, on one core, until the process ends.
pub fn backend(core: &'static str) -> Result<u16, String> {
    let (port, serve) = answering()?;
    thread::spawn(move || on_core(core, serve));
    Ok(port)
}

/// A port on which everything is answered at once, by whoever polls.
pub fn answering() -> Result<(u16, impl Future<Output = ()> + Send), String> {
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
    Ok((port, serve))
}

pub async fn connect(port: u16) -> Result<TcpStream, String> {
    let stream =
        TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Reads one message, head and body.
pub async fn response(stream: &mut TcpStream) -> Result<String, String> {
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
