//! A disk without room: every operation says so, nothing is corrupted, and it works again when there is room.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tollgate_core::Time;
use tollgate_storage::{
    Caller, Change, Day, Embedded, NotSpent, PageOf, QuotaBook, StoreError, Tidy, Unavailable,
    UsageRecorder, Use,
};

use crate::quotas::draw;
use crate::{NOW, child, folder_of_child, integrity, issue, key, runtime};

#[test]
fn a_full_database_refuses_by_name_keeps_what_it_has_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::at(folder.path()).max_bytes(512 * 1024).open().unwrap();
    runtime().block_on(async {
        let mut recorder = UsageRecorder::new();
        for n in 0..4000 {
            let key = format!("key-{n}");
            let caller = Caller { tenant: "acme", key: &key, route: "GET /", plan: "" };
            recorder.count(caller, Use { refused: false, tokens: 1 }, NOW);
        }
        recorder.flush(&store).await.unwrap();

        let full = || StoreError::Unavailable(Unavailable::Full);
        let mut issued = Vec::new();
        let refused = loop {
            let (_, stored) = key("acme", issued.len() as u64);
            match store.commit(issue(&stored)).await {
                Ok(_) => issued.push(stored),
                Err(why) => {
                    assert_eq!(why, full());
                    break stored;
                }
            }
        };
        assert!(store.key(refused.id.clone()).await.is_err());
        let book = QuotaBook::new(store.clone(), 100_000);
        let mut spent = Vec::new();
        let without = loop {
            let name = format!("quota-{:0200}", spent.len());
            let account = book.account(&name).unwrap();
            match account.spend(draw(1, 10)).await {
                Ok(_) => spent.push(name),
                Err(why) => {
                    assert_eq!(why, NotSpent::Unavailable(Unavailable::Full));
                    break account;
                }
            }
        };
        // Still full, and still told so.
        assert_eq!(store.commit(issue(&refused)).await, Err(full()));
        assert!(without.spend(draw(1, 10)).await.is_err());
        // What needs no room works: reading, and making room.
        let page = store.keys(None, PageOf { after: None, limit: 1 }).await.unwrap();
        assert_eq!(page.rows, issued[..1]);
        let usage_from = Day::from_number(Day::of(NOW).number() + 1);
        let now = crate::quotas::period(1).begins;
        let tidy = Tidy { now, usage_from, audit_from: Time::EPOCH };
        while store.tidy(tidy).await.unwrap() {}

        store.commit(issue(&refused)).await.unwrap();
        without.spend(draw(1, 10)).await.unwrap();
        book.close().await.unwrap();
        for name in spent {
            let taken = store.quota_taken(&name, crate::quotas::period(1).begins).await;
            assert_eq!(taken, Ok(1), "{name}");
        }
        for stored in issued {
            assert_eq!(store.key(stored.id.clone()).await, Ok(stored));
        }
        store.close().await.unwrap();
    });
    assert_eq!(integrity(folder.path()), "ok");
}

/// The system itself refuses to let any file grow, in the middle of whatever is being written.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_takes_no_more_is_told_and_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let program = child("failing::issues_keys_until_it_recovers", folder.path());
    let mut limited = Command::new("sh");
    limited
        .args(["-c", r#"trap "" XFSZ; ulimit -S -f 800; exec "$0" "$@""#])
        .arg(program.get_program())
        .args(program.get_args())
        .env("TOLLGATE_TEST_FOLDER", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = limited.spawn().unwrap();
    let (mut acknowledged, mut failures, mut recovered) = (Vec::new(), 0, false);
    for line in BufReader::new(running.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(id) = line.strip_prefix("key ") {
            acknowledged.push(id.to_owned());
            recovered |= failures > 0;
        } else if line.starts_with("failed") {
            failures += 1;
            if failures == 3 {
                let pid = running.id().to_string();
                let raised =
                    Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
                assert!(raised.unwrap().success());
            }
        }
    }
    assert!(running.wait().unwrap().success());
    assert!(failures >= 3 && recovered, "{failures} failures");
    assert_eq!(integrity(folder.path()), "ok");
    let store = Embedded::at(folder.path()).open().unwrap();
    runtime().block_on(async {
        let mut kept = 0;
        store.for_each_key(NOW, |_| kept += 1).await.unwrap();
        assert_eq!(kept, acknowledged.len());
        for id in acknowledged {
            store.key(id.parse().unwrap()).await.unwrap();
        }
    });
}

#[test]
#[ignore = "started by another test as a process of its own"]
fn issues_keys_until_it_recovers() {
    let Some(folder) = folder_of_child() else { return };
    runtime().block_on(async {
        // Whatever the harness has said is a line of its own.
        println!();
        let store = Embedded::at(folder).open().unwrap();
        let (mut failed, mut after) = (false, 0);
        for n in 0.. {
            let (_, stored) = key("acme", n);
            match store.commit(vec![Change::IssueKey(Box::new(stored.clone()))]).await {
                Ok(_) => {
                    println!("key {}", stored.id);
                    after += u32::from(failed);
                }
                Err(why) => {
                    println!("failed: {why}");
                    failed = true;
                }
            }
            if after == 20 {
                break;
            }
        }
        store.close().await.unwrap();
    });
}
