//! What a node says when it stops: little, and what would strand first.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Limit, Rate};
use tollgate_policy::shapes::Consistency;
use tollgate_redis::Figures;

use crate::gated::{Node, TERMS, Terms, hash, is_admitted};
use crate::hybrid::node_telling_every;
use crate::servers::{Brand, Server, calls, on_both, run, until};

/// Nothing is told meanwhile but what is to be told at once.
const HOUR: Duration = Duration::from_secs(3600);

/// Hybrid counters of which all is told cost nothing.
fn only_what_is_untold_is_told(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (hybrid, limiter, rule) = node_telling_every(HOUR, &server, &limit).await;
        let consume = |nth: usize| {
            let name = format!("many{nth}");
            assert!(hybrid.consumed(&name, (&rule, limiter.identity(&name)), &figures, 1));
        };
        (0..50).for_each(consume);
        let is_told = |nth: usize| {
            server.ask::<Option<u64>>(&["HGET", &format!("many{nth}"), "total"]) == Some(1)
        };
        until("their first charges are told", || (0..50).all(is_told)).await;
        // It waits for answers that are under way.
        hybrid.close().await;
        let told = calls(&server);
        hybrid.close().await;
        assert_eq!(calls(&server), told, "there is nothing to tell");
        (0..3).for_each(consume);
        hybrid.close().await;
        assert_eq!(calls(&server), told + 3);
        assert_eq!(server.ask::<u64>(&["HGET", "many0", "total"]), 2);
    });
}

/// What is leased strands if the time is over before it is returned; what is untold does not count elsewhere, and strands nothing.
fn leases_are_returned_first(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, interval: HOUR, ..TERMS };
        let telling = Node::start(&server.url(), terms).await;
        let leasing = telling.reloaded(Terms { consistency: Consistency::Lease, ..terms });
        server.ask::<String>(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
        server.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        assert!(telling.admits("told", hash(0)).await);
        let total = || server.ask::<Option<u64>>(&["HGET", "tollgate:ratelimit:told", "total"]);
        until("the first charge is told", || total() == Some(1)).await;
        assert!(telling.admits("told", hash(0)).await);
        let leased = leasing.counter_of("leased", hash(1));
        assert!(is_admitted(leasing.ask_for(&leased, 10).await));
        assert_eq!(telling.shared.close().await, 0);
        assert_eq!(total(), Some(2));
        // The newest comes first.
        type Row = (i64, i64, i64, Vec<String>, String, String);
        let rows: Vec<Row> = server.ask(&["SLOWLOG", "GET", "-1"]);
        let age_of = |key: &str| {
            rows.iter()
                .position(|row| row.3[0] == "EVALSHA" && row.3.iter().any(|word| word == key))
        };
        let [told, returned] = ["tollgate:ratelimit:told", "tollgate:ratelimit:leased"]
            .map(|key| age_of(key).unwrap());
        assert!(told < returned, "told {told} calls ago, returned {returned}");
    });
}

on_both! {
    untold => only_what_is_untold_is_told;
    leases_first => leases_are_returned_first;
}
