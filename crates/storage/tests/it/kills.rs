//! `kill -9` under load: nothing that was acknowledged is lost, and no quota comes back.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};

use tollgate_storage::{Embedded, QuotaBook, block};

use crate::quotas::{draw, period};
use crate::{child, folder_of_child, integrity, runtime};

const KILLS: u64 = 50;
const LIMIT: u64 = 40_000;

#[test]
fn fifty_kills_lose_nothing_acknowledged_and_give_no_quota_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut spent, mut keys) = (0, HashSet::new());
    for kill in 0..KILLS {
        let mut running = child("kills::spends_and_issues", folder.path()).spawn().unwrap();
        // From before it has made its tables to a thousand acknowledgements.
        let wanted = if kill % 10 == 0 { kill / 10 } else { kill * 37 % 1000 };
        let mut seen = 0;
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
        let mut note = |line: String| match line.split_once(' ') {
            Some(("spent", amount)) => spent += amount.parse::<u64>().unwrap(),
            Some(("key", id)) => keys.extend([id.to_owned()]),
            _ => (),
        };
        while seen < wanted {
            let Some(line) = lines.next() else { break };
            note(line.unwrap());
            seen += 1;
        }
        running.kill().unwrap();
        running.wait().unwrap();
        // What it still said before the end counts too; a last line may be cut.
        lines.map_while(Result::ok).for_each(note);

        if !folder.path().join("tollgate.db").exists() {
            continue;
        }
        assert_eq!(integrity(folder.path()), "ok", "after kill {kill}");
        let store = Embedded::at(folder.path()).open().unwrap();
        let taken = runtime().block_on(store.quota_taken("acme", period(1).begins)).unwrap();
        runtime().block_on(store.close()).unwrap();
        assert!(taken <= LIMIT && taken >= spent, "{taken} taken, {spent} spent");
        // Besides the block, one request at most was on its way to be acknowledged.
        let stranded = taken - spent;
        assert!(stranded <= (kill + 1) * (block(LIMIT, 0) + 1), "{stranded} after {kill} kills");
    }
    assert!(spent > 1000 && keys.len() > 50, "{spent} spent, {} keys", keys.len());

    let store = Embedded::at(folder.path()).open().unwrap();
    runtime().block_on(async {
        let mut stored = HashSet::new();
        store.for_each_key(crate::NOW, |key| stored.extend([key.id.to_string()])).await.unwrap();
        assert!(keys.is_subset(&stored), "every acknowledged key is there");
        // Of each kill, at most the one that was not yet acknowledged.
        assert!(stored.len() as u64 <= keys.len() as u64 + KILLS);
        // Spent to the end, all kills together have admitted no more than the limit.
        let book = QuotaBook::new(store.clone(), 10);
        let account = book.account("acme").unwrap();
        while account.spend(draw(1, LIMIT)).await.is_ok() {
            spent += 1;
        }
        assert!(spent <= LIMIT && spent >= LIMIT - KILLS * (block(LIMIT, 0) + 1), "{spent}");
        book.close().await.unwrap();
        store.close().await.unwrap();
    });
}

/// Says what it did only after it was told that it was done.
#[test]
#[ignore = "started by another test as a process of its own"]
fn spends_and_issues() {
    let Some(folder) = folder_of_child() else { return };
    let store = Embedded::at(folder).open().unwrap();
    let say = |line: String| std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    // Whatever the harness has said is a line of its own.
    say("\n".to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime().block_on(async {
                let book = QuotaBook::new(store.clone(), 10);
                let account = book.account("acme").unwrap();
                while account.spend(draw(1, LIMIT)).await.is_ok() {
                    say("spent 1\n".to_owned());
                }
            });
        });
        scope.spawn(|| {
            runtime().block_on(async {
                loop {
                    let draft = tollgate_storage::KeyDraft {
                        tenant: "acme".parse().unwrap(),
                        user: None,
                        terms: tollgate_storage::KeyTerms::default(),
                    };
                    let (_, stored) = draft.mint(crate::NOW).unwrap();
                    let id = stored.id.clone();
                    store.commit(crate::issue(&stored)).await.unwrap();
                    say(format!("key {id}\n"));
                }
            });
        });
    });
}
