//! The connection for other things than counters.

use std::time::Duration;

use tollgate_redis::{Plain, Settings};

use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run};

/// Else it would begin anew for each who needs it, and where it takes longer than any of them waits there would never be one.
fn connecting_outlasts_whoever_needed_it(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    let mut watching = server.connection();
    let mut connections = || -> u64 {
        let stats: String = redis::cmd("INFO").arg("stats").query(&mut watching).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse().unwrap()
    };
    run(async {
        let plain = Plain::new(Settings::new(&proxy.url()).unwrap());
        proxy.delay(Duration::from_millis(200));
        let before = connections();
        let asked = plain.ask(redis::cmd("PING"), Duration::from_millis(50)).await;
        assert!(!asked.unwrap_err().may_have_run());
        plain.ask(redis::cmd("PING"), Duration::from_secs(20)).await.unwrap();
        assert_eq!(connections() - before, 1);
    });
}

on_both! {
    outlasts => connecting_outlasts_whoever_needed_it;
}
