//! What the control plane keeps: durable keys, a million of them in memory, a year of usage.
//!
//! There is no peer that keeps all of it in one process; the figures stand beside the bounds they must keep.

mod crash;
mod gateway;
mod undisturbed;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate_core::Time;
use tollgate_storage::{
    Caller, Change, Day, Draw, Embedded, Grouping, KeyDraft, KeyLoader, KeySnapshot, KeyTerms,
    QuotaBook, QuotaPeriod, Store, StoredKey, UsageQuery, UsageRecorder, Use,
};

use crate::measure::{nanos_per_call, resident_bytes, scatter};
use crate::report::Report;

const NOW: Time = Time::from_secs(1_800_000_000);
const MILLION: u64 = 1_000_000;

pub fn run(report: &mut Report, wanted: &[String]) {
    if let [child, folder, ..] = wanted
        && child == "load"
    {
        return load(report, Path::new(folder));
    }
    let cases: [(&str, fn(&mut Report)); 6] = [
        ("issue", issue),
        ("keys", keys),
        ("usage", usage),
        ("path", path),
        ("undisturbed", undisturbed::run),
        ("crash", crash::run),
    ];
    for (name, case) in cases {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            case(report);
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

/// In the folder that is built in: temporary folders are often not on a disk.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("target").expect("a folder")
}

fn open(folder: &Path) -> Store {
    Embedded::at(folder).open().expect("a store")
}

fn key(n: u64) -> StoredKey {
    let draft = KeyDraft {
        tenant: format!("tenant-{}", n % 1000).parse().expect("a name"),
        user: Some(format!("user-{n}").parse().expect("a name")),
        terms: KeyTerms { plan: Some("pro".parse().expect("a name")), ..KeyTerms::default() },
    };
    draft.mint(NOW).expect("random bytes").1
}

/// Each key is on the disk before the next of its caller is asked for.
fn issue(report: &mut Report) {
    for callers in [1, 64] {
        let folder = folder();
        let store = open(folder.path());
        let each = if callers == 1 { 500 } else { 200 };
        let seconds = runtime().block_on(async {
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..callers {
                let store = store.clone();
                tasks.spawn(async move {
                    for n in 0..each {
                        let key = Box::new(key(n));
                        store.commit(vec![Change::IssueKey(key)]).await.expect("issued");
                    }
                });
            }
            tasks.join_all().await;
            let seconds = begin.elapsed().as_secs_f64();
            store.close().await.expect("closed");
            seconds
        });
        report.row(&[
            ("bench", "issue".into()),
            ("callers", (callers as u64).into()),
            ("keys_per_s", ((callers * each) as f64 / seconds).into()),
            ("at_least", if callers == 1 { 100u64 } else { 1000 }.into()),
        ]);
    }
}

/// A million keys, loaded by a process that does nothing else.
fn keys(report: &mut Report) {
    let folder = folder();
    let store = open(folder.path());
    runtime().block_on(async {
        for part in 0..MILLION / 1000 {
            let keys = (0..1000).map(|n| Change::IssueKey(Box::new(key(part * 1000 + n))));
            store.commit(keys.collect()).await.expect("issued");
        }
        store.close().await.expect("closed");
    });
    let json = if report.is_json() { vec!["--json"] } else { vec![] };
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    let done = child.args(["control", "load"]).arg(folder.path()).args(json).status();
    assert!(done.expect("a process").success());
}

fn load(report: &mut Report, folder: &Path) {
    let store = open(folder);
    // What a later layer attaches is a pointer to something that many share.
    let chain = Arc::new(0u64);
    let before = resident_bytes();
    let begin = Instant::now();
    let snapshot = runtime().block_on(async {
        let mut loader = KeyLoader::new();
        store.for_each_key(NOW, |key| loader.push(&key, Arc::clone(&chain))).await.expect("loaded");
        loader.finish()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = (resident_bytes() - before) as f64 / MILLION as f64;
    report.row(&[
        ("bench", "load".into()),
        ("keys", snapshot.len().into()),
        ("seconds", seconds.into()),
        ("at_most_s", 5u64.into()),
        ("bytes_per_key", bytes.into()),
        ("at_most_bytes", 200u64.into()),
    ]);
    lookups(report, &store, &snapshot, &chain);
    runtime().block_on(store.close()).expect("closed");
}

fn lookups(report: &mut Report, store: &Store, snapshot: &KeySnapshot<Arc<u64>>, chain: &Arc<u64>) {
    let mut digests = Vec::new();
    let collect = store.for_each_key(NOW, |key| digests.push(key.sha256));
    runtime().block_on(collect).expect("loaded");
    let find = |t, n| {
        let digest = &digests[scatter(t, n, MILLION) as usize];
        black_box(snapshot.find(digest, NOW)).expect("known");
    };
    let new: Vec<StoredKey> = (0..20_000).map(key).collect();
    let unknown = |_, n: u64| assert!(snapshot.find(&new[n as usize].sha256, NOW).is_none());
    let found = nanos_per_call(1, 500_000, find);
    let not_found = nanos_per_call(1, 20_000, unknown);
    let applied = nanos_per_call(1, 20_000, |_, n| {
        snapshot.apply(&new[n as usize], Arc::clone(chain));
    });
    report.row(&[
        ("bench", "lookup".into()),
        ("found_ns", found.into()),
        ("unknown_ns", not_found.into()),
        ("new_key_ns", applied.into()),
    ]);
}

const DAYS: u64 = 365;
const KEYS: u64 = 1000;
const ROUTES: u64 = 20;

/// A year of a thousand keys on twenty routes.
fn usage(report: &mut Report) {
    let folder = folder();
    let store = open(folder.path());
    let runtime = runtime();
    let day = |n: u64| Time::from_secs((20_000 + n) * 86_400);
    let begin = Instant::now();
    for n in 0..DAYS {
        let mut recorder = UsageRecorder::new();
        for key in 0..KEYS {
            let (tenant, key) = (format!("tenant-{}", key % 100), format!("key_{key:016}"));
            for route in 0..ROUTES {
                let route = format!("POST /v1/route-{route}");
                let caller = Caller { tenant: &tenant, key: &key, route: &route, plan: "pro" };
                recorder.count(caller, Use { refused: false, tokens: 1234 + n }, day(n));
            }
        }
        runtime.block_on(recorder.flush(&store)).expect("added");
    }
    let rows = DAYS * KEYS * ROUTES;
    let bytes = std::fs::metadata(folder.path().join("tollgate.db")).map_or(0, |file| file.len());
    report.row(&[
        ("bench", "usage_add".into()),
        ("rows", rows.into()),
        ("rows_per_s", (rows as f64 / begin.elapsed().as_secs_f64()).into()),
        ("bytes_per_row", (bytes as f64 / rows as f64).into()),
    ]);
    let none = Grouping::default();
    let whole = UsageQuery::days(Day::of(day(0)), Day::of(day(DAYS - 1)));
    let by = |group_by| UsageQuery { group_by, ..whole.clone() };
    let one = Some("key_0000000000000007".parse().expect("a name"));
    let all = Grouping { tenant: true, key: true, route: true, plan: true, day: true };
    let cases = [
        ("total", by(none)),
        ("by_key", by(Grouping { tenant: true, key: true, ..none })),
        ("by_route_day", by(Grouping { route: true, day: true, ..none })),
        ("by_key_route", by(Grouping { key: true, route: true, plan: true, ..none })),
        ("by_tenant_day", by(Grouping { tenant: true, day: true, ..none })),
        ("one_key", UsageQuery { key: one, ..by(all) }),
    ];
    for (name, query) in cases {
        let mut fastest = f64::MAX;
        let mut answered = 0;
        for _ in 0..3 {
            let begin = Instant::now();
            let page = runtime.block_on(store.usage(query.clone())).expect("answered");
            fastest = fastest.min(begin.elapsed().as_secs_f64());
            answered = page.rows.len();
        }
        report.row(&[
            ("bench", "usage_query".into()),
            ("query", name.into()),
            ("answer_rows", answered.into()),
            ("seconds", fastest.into()),
            ("at_most_s", 1u64.into()),
        ]);
    }
    runtime.block_on(store.close()).expect("closed");
}

/// What a request pays.
fn path(report: &mut Report) {
    let folder = folder();
    let store = open(folder.path());
    let book = QuotaBook::new(store.clone(), 1000);
    let account = book.account("tenant:acme/user:ci/month").expect("room");
    let period = QuotaPeriod { begins: NOW, ends: Time::MAX };
    let draw = Draw { amount: 1, limit: 1 << 40, period };
    drop(runtime().block_on(account.spend(draw)).expect("granted"));
    let spend = nanos_per_call(1, 1_000_000, |_, _| {
        drop(black_box(account.try_spend(draw)).expect("a large block"));
    });
    let mut recorder = UsageRecorder::new();
    let names: Vec<String> = (0..100).map(|n| format!("key_{n:016}")).collect();
    let begin = Instant::now();
    for n in 0..1_000_000usize {
        let key = &names[n % names.len()];
        let caller =
            Caller { tenant: "acme", key, route: "POST /v1/chat/completions", plan: "pro" };
        recorder.count(caller, Use { refused: false, tokens: 10 }, NOW);
    }
    let count = begin.elapsed().as_nanos() as f64 / 1e6;
    black_box(recorder.drain());
    report.row(&[
        ("bench", "path".into()),
        ("quota_spend_ns", spend.into()),
        ("usage_count_ns", count.into()),
    ]);
    runtime().block_on(store.close()).expect("closed");
}
