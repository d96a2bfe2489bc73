//! Callers that ask as fast as they are answered, each over a connection of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What callers were answered.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: AtomicU64,
    pub refused: AtomicU64,
    /// 503.
    pub unavailable: AtomicU64,
    /// Anything else.
    pub other: AtomicU64,
    /// Answers that were not whole.
    pub lost: AtomicU64,
    /// The longest that an answer took, in microseconds.
    pub longest_us: AtomicU64,
}

/// Callers under way; they stop when told to, when dropped, or when nobody answers any more.
pub struct Load {
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    /// So many callers that show this key, each pausing so long after an answer.
    pub fn start(address: &str, key: &str, (callers, pause): (usize, Duration)) -> Load {
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::new(Tally::default()));
        let call = |_| {
            let (stop, tally) = (Arc::clone(&stop), Arc::clone(&tally));
            let (address, key) = (address.to_owned(), key.to_owned());
            std::thread::spawn(move || {
                // It ends when its gateway does, and comes again where it is only told to close.
                let is_lost = loop {
                    match call(&address, &key, pause, (&stop, &tally)) {
                        Ok(End::Closed) => {}
                        Ok(End::Gone) => break false,
                        Err(_) => break true,
                    }
                };
                tally.lost.fetch_add(u64::from(is_lost), Relaxed);
            })
        };
        let callers = (0..callers).map(call).collect();
        Load { stop, tally, callers }
    }

    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Tells them to stop and waits until they have.
    pub fn stop(mut self) -> Arc<Tally> {
        self.end();
        Arc::clone(&self.tally)
    }

    fn end(&mut self) {
        self.stop.store(true, Relaxed);
        for caller in self.callers.drain(..) {
            let _ = caller.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a caller left its connection.
enum End {
    /// It was told to, after an answer.
    Closed,
    /// It was told to stop, or nobody answers any more.
    Gone,
}

/// # Errors
///
/// If an answer is not whole.
fn call(
    address: &str,
    key: &str,
    pause: Duration,
    (stop, tally): (&AtomicBool, &Tally),
) -> std::io::Result<End> {
    let Ok(mut stream) = TcpStream::connect(address) else { return Ok(End::Gone) };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let request = format!("GET /load HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    while !stop.load(Relaxed) {
        let begin = Instant::now();
        // A connection may be closed just when another request is sent on it: that one was not taken.
        if stream.write_all(request.as_bytes()).is_err()
            || !reader.fill_buf().is_ok_and(|b| !b.is_empty())
        {
            return Ok(End::Gone);
        }
        let (mut status, mut length, mut closes) = (0u16, 0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap_or(0);
            } else if line == "connection: close" {
                closes = true;
            } else if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        let took = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        tally.longest_us.fetch_max(took, Relaxed);
        let count = match status {
            200 => &tally.passed,
            429 => &tally.refused,
            503 => &tally.unavailable,
            _ => &tally.other,
        };
        count.fetch_add(1, Relaxed);
        if closes {
            return Ok(End::Closed);
        }
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    Ok(End::Gone)
}
