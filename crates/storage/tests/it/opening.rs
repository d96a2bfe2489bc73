//! One process at a time, no database of others, nothing newer than we know.

use std::io::{BufRead, BufReader};

use tollgate_storage::{Embedded, OpenError, StoreError, Unavailable};

use crate::homes::embedded;
use crate::{child, folder_of_child, issue, key, runtime};

#[test]
fn a_second_process_is_refused_by_name_of_the_first_and_let_in_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = child("opening::holds_the_database", folder.path()).spawn().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("open")), "it opened");
    let refused = Embedded::at(folder.path()).open().unwrap_err();
    let (pid, told) = (first.id(), refused.to_string());
    assert!(matches!(refused, OpenError::InUse { pid: Some(found), .. } if found == pid), "{told}");
    assert!(told.contains(&format!("process {pid}")) && told.contains("storage.path"), "{told}");
    first.kill().unwrap();
    first.wait().unwrap();
    let store = Embedded::at(folder.path()).open().unwrap();
    runtime().block_on(store.close()).unwrap();
}

#[test]
#[ignore = "started by another test as a process of its own"]
fn holds_the_database() {
    let Some(folder) = folder_of_child() else { return };
    let _store = Embedded::at(folder).open().unwrap();
    println!("open");
    // Until it is killed, or the test that started it is gone.
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn a_closed_store_says_so_and_its_folder_can_be_opened_again() {
    let (folder, store) = embedded();
    runtime().block_on(async {
        store.close().await.unwrap();
        let closed = || Err(StoreError::Unavailable(Unavailable::Closed));
        assert_eq!(store.commit(Vec::new()).await.map(drop), closed());
        assert_eq!(store.key("key_1".parse().unwrap()).await.map(drop), closed());
        assert_eq!(store.barrier().await, closed());
        assert_eq!(store.close().await, closed());
        assert_eq!(store.for_each_key(crate::NOW, |_| ()).await, closed());
        let again = Embedded::at(folder.path()).open().unwrap();
        again.close().await.unwrap();
    });
}

#[test]
fn a_store_whose_handles_are_gone_closes_by_itself() {
    let (folder, store) = embedded();
    runtime().block_on(store.commit(issue(&key("acme", 1).1))).unwrap();
    drop(store);
    let mut tries = 0;
    let again = loop {
        match Embedded::at(folder.path()).open() {
            Ok(store) => break store,
            Err(OpenError::InUse { .. }) if tries < 60_000 => tries += 1,
            Err(why) => panic!("{why}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    runtime().block_on(again.close()).unwrap();
    assert_eq!(crate::integrity(folder.path()), "ok");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (folder, store) = embedded();
    runtime().block_on(store.close()).unwrap();
    let db = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
    db.pragma_update(None, "user_version", 4711).unwrap();
    drop(db);
    let refused = Embedded::at(folder.path()).open().unwrap_err();
    let told = refused.to_string();
    assert!(matches!(refused, OpenError::NewerSchema { found: 4711, .. }), "{told}");
    assert!(told.contains("schema version 4711") && told.contains("newer Tollgate"), "{told}");
    let db = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 4711);
}

#[test]
fn databases_and_files_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(db);
    let refused = Embedded::at(folder.path()).open().unwrap_err();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    std::fs::write(&file, "not a database, but long enough to be looked at as one".repeat(20))
        .unwrap();
    let refused = Embedded::at(folder.path()).open().unwrap_err();
    assert!(matches!(refused, OpenError::Unusable { .. }), "{refused}");
    let refused = Embedded::at(&file).open().unwrap_err();
    assert!(matches!(refused, OpenError::Unusable { .. }), "{refused}");
}

#[cfg(unix)]
#[test]
fn only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/data");
    let store = Embedded::at(&inner).open().unwrap();
    runtime().block_on(store.commit(issue(&key("acme", 1).1))).unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(inner.clone()), 0o700);
    for name in ["tollgate.db", "tollgate.db-wal", "tollgate.db-shm"] {
        assert_eq!(mode(inner.join(name)), 0o600, "{name}");
    }
    runtime().block_on(store.close()).unwrap();
}
