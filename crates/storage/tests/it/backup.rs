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
