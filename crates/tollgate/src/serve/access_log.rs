//! One line of JSON for every request, written by a thread of its own: no worker ever waits for a disk.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use tollgate_engine::Time;
use tollgate_gateway::law::{FoundKey, Outcome, Plane, Record, Recorder};
use tollgate_policy::AccessLog as Destination;

/// Lines on their way to the writer. When there are more, further ones are dropped and counted.
const WAITING: usize = 16_384;

/// How long the last lines may take to be written when the process stops.
const LAST_LINES: Duration = Duration::from_secs(5);
/// How often it is looked whether they are.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where lines go, if anywhere; may be turned elsewhere while it runs.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    sink: ArcSwapOption<Sink>,
    dropped: Arc<AtomicU64>,
    writers: Mutex<Vec<JoinHandle<()>>>,
}

/// A writer, and what it was made for.
#[derive(Debug)]
pub(crate) struct Sink {
    lines: SyncSender<String>,
}

/// An open destination.
pub(crate) type Out = Box<dyn Write + Send>;

/// Opens a destination. A file is opened anew even if it is the same: it may have been rotated.
pub(crate) fn destination(to: &Destination) -> io::Result<Option<Out>> {
    Ok(match to {
        Destination::None => None,
        Destination::Stdout => Some(Box::new(io::stdout())),
        Destination::File(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path.as_path())?;
            Some(Box::new(file))
        }
    })
}

impl AccessLog {
    /// Begins to write to a destination.
    pub(crate) fn write_to(&self, out: Out) -> io::Result<Arc<Sink>> {
        let (lines, written) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let mut writers = self.writers.lock();
        writers.retain(|writer| !writer.is_finished());
        writers.push(thread.spawn(move || write(&written, out))?);
        Ok(Arc::new(Sink { lines }))
    }

    /// Lines go there from now on; what was written before is finished where it went.
    pub(crate) fn turn_to(&self, sink: Option<Arc<Sink>>) {
        self.sink.store(sink);
    }

    /// Writes what is left, as far as that is taken: whoever reads the log and does not go on reading cannot keep the process.
    pub(crate) async fn close(&self) {
        self.sink.store(None);
        // Each ends when nobody can send to it any more.
        let is_written = async {
            while self.writers.lock().iter().any(|writer| !writer.is_finished()) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(LAST_LINES, is_written).await.is_err() {
            tracing::warn!("the last lines of the access log are lost: nobody takes them");
        }
        match self.dropped.load(Relaxed) {
            0 => {}
            lines => tracing::warn!(lines, "the access log could not keep up"),
        }
    }
}

/// Writes lines as they come; what is written is flushed whenever there is nothing more to write.
fn write(lines: &Receiver<String>, out: Box<dyn Write + Send>) {
    let mut out = BufWriter::with_capacity(64 * 1024, out);
    let mut has_failed = false;
    while let Ok(mut line) = lines.recv() {
        let written = loop {
            if let Err(error) = out.write_all(line.as_bytes()) {
                break Err(error);
            }
            match lines.try_recv() {
                Ok(next) => line = next,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break out.flush(),
            }
        };
        if let (Err(error), false) = (written, has_failed) {
            has_failed = true;
            tracing::error!(%error, "the access log cannot be written");
        }
    }
}

/// What a line tells.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    address: Option<std::net::IpAddr>,
    method: &'a str,
    path: &'a str,
    status: u16,
    ms: f64,
    route: Option<&'a str>,
    tenant: Option<&'a str>,
    user: Option<&'a str>,
    key: Option<&'a str>,
    plan: Option<&'a str>,
    cost: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
}

impl Recorder for AccessLog {
    fn wants_details(&self) -> bool {
        self.sink.load().is_some()
    }

    fn record<F: FoundKey>(
        &self,
        record: &Record,
        (key, plane): (Option<&F>, &Plane),
        now: impl FnOnce() -> Time,
    ) {
        let sink = self.sink.load();
        let (Some(sink), Some((method, target))) = (&*sink, &record.head) else { return };
        let policy = plane.in_force().policy();
        let (outcome, refused_by) = match &record.outcome {
            Outcome::TurnedAway => ("turned_away", None),
            Outcome::Passed => ("passed", None),
            Outcome::Degraded => ("degraded", None),
            Outcome::GivenBack => ("given_back", None),
            Outcome::Refused { policy, source } => ("refused", Some((policy, source))),
        };
        let line = Line {
            time: when(record.began),
            id: record.request_id.as_str(),
            address: record.address,
            method: method.as_str(),
            // Without the query, which may hold what nobody should read.
            path: target.path(),
            status: record.status.as_u16(),
            ms: millis(now() - record.began),
            route: record.route.map(|number| policy.routes()[number].name()),
            tenant: record.tenant.map(|number| policy.tenants().all()[number].id()),
            user: key.and_then(FoundKey::user),
            key: key.map(FoundKey::id),
            plan: record.plan.map(|number| policy.plans()[number].name()),
            cost: record.cost,
            outcome,
            policy: refused_by.map(|(policy, _)| policy.to_string()),
            source: refused_by.map(|(_, source)| source.as_str()),
        };
        let Ok(line) = serde_json::to_string(&line) else { return };
        if let Err(TrySendError::Full(_)) = sink.lines.try_send(line + "\n") {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

fn when(time: Time) -> String {
    let nanos = i128::from(time.as_nanos());
    Timestamp::from_nanosecond(nanos).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

/// To the microsecond, which is a short number.
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_numbers() {
        for (nanos, told) in
            [(284_538, "0.284"), (0, "0.0"), (1_000_000, "1.0"), (60_000_007_000, "60000.007")]
        {
            assert_eq!(serde_json::to_string(&millis(Duration::from_nanos(nanos))).unwrap(), told);
        }
    }
}
