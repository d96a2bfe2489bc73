//! Many at once share a transaction, and each gets its own answer.

use tokio::task::JoinSet;
use tollgate_storage::{PageOf, StoreError};

use crate::homes::{Kind, on_every_store, store};
use crate::{issue, key};

fn a_refused_request_does_not_disturb_its_group(kind: Kind) {
    let (_home, store) = store(kind);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        // Every key is issued twice: one of the two is refused, whichever comes second.
        for n in 0..1000 {
            let store = store.clone();
            tasks.spawn(async move { (n / 2, store.commit(issue(&key("acme", n / 2).1)).await) });
        }
        let mut issued = Vec::new();
        for (n, answer) in tasks.join_all().await {
            match answer {
                Ok(_) => issued.push(n),
                Err(StoreError::Exists { .. }) => (),
                Err(why) => panic!("{why}"),
            }
        }
        issued.sort_unstable();
        assert_eq!(issued, (0..500).collect::<Vec<_>>());
        let page = store.keys(None, PageOf { after: None, limit: 1000 }).await.unwrap();
        assert_eq!(page.rows.len(), 500);
    });
}

fn a_caller_that_gives_up_is_not_in_the_way(kind: Kind) {
    let (_home, store) = store(kind);
    crate::runtime().block_on(async {
        for n in 0..200 {
            let (_, abandoned) = key("acme", 2 * n);
            let commit = store.commit(issue(&abandoned));
            tokio::select! { biased; _ = commit => (), () = async {} => () }
            store.commit(issue(&key("acme", 2 * n + 1).1)).await.unwrap();
        }
    });
}

on_every_store! {
    a_refused_request_does_not_disturb_its_group,
    a_caller_that_gives_up_is_not_in_the_way,
}
