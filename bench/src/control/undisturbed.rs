//! Callers of the data plane while keys are issued at full speed.
//!
//! ```text
//! core 0: the gateway's workers, callers at a steady pace, and what they are forwarded to
//! core 1: the gateway's control plane and storage, clients that issue keys as fast as they are answered
//! ```
//! So what is measured is what one plane does to the other: locks, messages, memory, the disk. That both want the same core at
//! times is a question of how many there are.
//!
//! A hundredth of the requests is late for reasons of the machine's own, which come and go: for seconds a virtual core is taken
//! away now and then, for milliseconds each time. So slots of half a second take turns, and what counts is the p99 of the slot
//! in the middle. There are three kinds: nobody issues keys, keys of this gateway are issued, keys of another gateway beside it
//! are, which shares the machine and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::gateway::{Gateway, TOKEN};
use crate::calls::{Awake, Calls, at, connect, on_core, response};
use crate::measure::median;
use crate::report::Report;

/// Slots of each kind.
const SLOTS: usize = 120;
/// A request each millisecond, which takes a fifth of that: nobody waits for anybody else, and a core that the machine takes
/// away for a moment makes one request late, not ten.
const CALLS: Calls =
    Calls { callers: 4, pace: Duration::from_millis(4), round: Duration::from_millis(500) };
const ISSUERS: usize = 32;

pub fn run(report: &mut Report) {
    if let Err(error) = compare(report) {
        eprintln!("bench control undisturbed: {error}");
        std::process::exit(1);
    }
}

/// Slots of the three kinds in turns.
fn compare(report: &mut Report) -> Result<(), String> {
    let _awake = [Awake::start("0")?, Awake::start("1")?];
    let (gateway, another) = (Gateway::start()?, Gateway::start()?);
    let kinds = [None, Some(gateway.admin), Some(another.admin)];
    let mut slots = [Vec::new(), Vec::new(), Vec::new()];
    let mut keys = 0;
    gateway.slot(kinds[1])?;
    for slot in 0..SLOTS {
        for at in 0..3 {
            // Each kind follows each other as often.
            let turn = if slot % 2 == 0 { at } else { 2 - at };
            let kind = (turn + slot / 2) % 3;
            let (micros, issued) = gateway.slot(kinds[kind])?;
            slots[kind].push(micros);
            keys += if kind == 1 { issued } else { 0 };
        }
    }
    let p = |share| slots.each_ref().map(|all| median(all.iter().map(|slot| at(slot, share))));
    let ([quiet_p50, issuing_p50, _], [quiet, issuing, elsewhere]) = (p(0.5), p(0.99));
    report.row(&[
        ("bench", "undisturbed".into()),
        ("p50_us", quiet_p50.into()),
        ("p50_issuing_us", issuing_p50.into()),
        ("p99_us", quiet.into()),
        ("p99_issuing_us", issuing.into()),
        ("p99_issuing_elsewhere_us", elsewhere.into()),
        ("p99_ratio", (issuing / quiet).into()),
        ("p99_ratio_to_elsewhere", (issuing / elsewhere).into()),
        ("at_most", 1.05.into()),
        ("keys_per_s", (keys as f64 / (SLOTS as f64 * CALLS.round.as_secs_f64())).into()),
    ]);
    Ok(())
}

impl Gateway {
    /// How long each request of a slot took, and how many keys were issued meanwhile by whoever's admin port is given.
    fn slot(&self, admin: Option<u16>) -> Result<(Vec<f64>, u64), String> {
        let (is_over, issued) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&issued));
        let issuers =
            admin.map(|admin| thread::spawn(move || on_core("1", issue(admin, over, count))));
        let port = self.port;
        let calls = thread::spawn(move || on_core("0", CALLS.on(port)));
        let calls = calls.join().map_err(|_| "callers panicked")?;
        is_over.store(true, Relaxed);
        if let Some(issuers) = issuers {
            issuers.join().map_err(|_| "issuers panicked")?;
        }
        Ok((calls?, issued.load(Relaxed)))
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
