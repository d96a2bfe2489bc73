//! A backup is the database of one moment, taken while others write.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate_storage::{Embedded, PageOf, StoreError};

use crate::homes::embedded;
use crate::{integrity, issue, key, runtime};

#[test]
fn a_backup_taken_under_load_is_whole_and_opens() {
    let (folder, store) = embedded();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let target = folder.path().join("copy");
    std::fs::create_dir(&target).unwrap();
    let file = target.join("tollgate.db");
    let done = AtomicBool::new(false);
    let (before, after) = runtime.block_on(async {
        let mut issued = 0;
        for n in 0..500 {
            store.commit(issue(&key("acme", n).1)).await.unwrap();
        }
        let writing = async {
            while !done.load(Relaxed) {
                store.commit(issue(&key("acme", 500 + issued).1)).await.unwrap();
                issued += 1;
            }
        };
        let copying = async {
            store.backup(&file).await.unwrap();
            done.store(true, Relaxed);
        };
        tokio::join!(writing, copying);
        (500, 500 + issued)
    });
    assert_eq!(integrity(&target), "ok");
    runtime.block_on(async {
        let exists = store.backup(&file).await;
        assert!(matches!(exists, Err(StoreError::Exists { .. })), "{exists:?}");
        let copy = Embedded::at(&target).open().unwrap();
        let mut keys = 0;
        copy.for_each_key(crate::NOW, |_| keys += 1).await.unwrap();
        assert!((before..=after).contains(&keys), "{before} {keys} {after}");
        copy.commit(issue(&key("other", u64::MAX).1)).await.unwrap();
        copy.close().await.unwrap();
    });
}

#[test]
fn a_backup_that_cannot_be_written_leaves_nothing() {
    let (folder, store) = embedded();
    runtime().block_on(async {
        let missing = folder.path().join("no/such/folder/file");
        let failed = store.backup(&missing).await.unwrap_err();
        assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
        assert!(!missing.exists());
        // And the store goes on.
        let page = store.keys(None, PageOf::default()).await.unwrap();
        assert!(page.rows.is_empty());
    });
}

/// Keys in a copy.
fn keys_in(folder: &std::path::Path) -> usize {
    let copy = Embedded::at(folder).open().unwrap();
    let mut keys = 0;
    runtime().block_on(async {
        copy.for_each_key(crate::NOW, |_| keys += 1).await.unwrap();
        copy.close().await.unwrap();
    });
    keys
}

#[test]
fn a_folder_is_backed_up_from_outside_open_or_not() {
    let (folder, store) = embedded();
    runtime().block_on(store.commit(issue(&key("acme", 1).1))).unwrap();
    let outside = Embedded::at(folder.path());
    let (open, closed) = (folder.path().join("open"), folder.path().join("closed"));
    for target in [&open, &closed] {
        std::fs::create_dir(target).unwrap();
    }
    outside.backup(&open.join("tollgate.db")).unwrap();
    // The copy kept nobody out.
    runtime().block_on(store.commit(issue(&key("acme", 2).1))).unwrap();
    runtime().block_on(store.close()).unwrap();
    outside.backup(&closed.join("tollgate.db")).unwrap();
    assert_eq!((keys_in(&open), keys_in(&closed)), (1, 2));
    assert_eq!((integrity(&open), integrity(&closed)), ("ok".to_owned(), "ok".to_owned()));
}

#[test]
fn what_is_no_database_of_ours_is_not_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy");
    let missing = Embedded::at(folder.path()).backup(&to).unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
    let other = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    let foreign = Embedded::at(folder.path()).backup(&to).unwrap_err();
    assert!(foreign.to_string().contains("another program"), "{foreign}");
    assert!(!to.exists());
}
