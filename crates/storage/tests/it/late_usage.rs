//! Usage that was taken before Redis answered is added whatever Redis answers at first.

use tollgate_storage::{Caller, Day, Store, UsageQuery, UsageRecorder, Use};

use crate::NOW;
use crate::homes::in_redis;
use crate::servers::{Brand, Server, on_both, run, until};

/// More than one call brings.
const KEYS: u64 = 1200;

async fn requests(store: &Store) -> u64 {
    let rows = store.usage(UsageQuery::days(Day::of(NOW), Day::of(NOW))).await.unwrap().rows;
    rows.iter().map(|row| row.requests).sum()
}

/// What broke: a server that was silent and came back without room was believed to have refused it, and nobody was told.
fn usage_that_was_taken_is_added_although_the_server_comes_back_full(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let store = in_redis(&server).open().unwrap();
        let mut recorder = UsageRecorder::new();
        for n in 0..KEYS {
            let key = format!("key-{n}");
            let caller = Caller { tenant: "acme", key: &key, route: "GET /", plan: "pro" };
            recorder.count(caller, Use { refused: false, tokens: 2 }, NOW);
        }
        server.ask::<String>(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        recorder.flush(&store).await.unwrap();
        server.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
        server.ask::<String>(&["CLIENT", "UNPAUSE"]);
        let refused = || server.ask::<String>(&["INFO", "errorstats"]).contains("errorstat_OOM");
        until("it is refused", refused).await;
        server.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
        let begin = tokio::time::Instant::now();
        while requests(&store).await != KEYS {
            assert!(begin.elapsed().as_secs() < 30, "it is lost");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
}

on_both! {
    full => usage_that_was_taken_is_added_although_the_server_comes_back_full;
}
