//! Limits whose algorithm a reload changes. Their counters in Redis have the same names, and begin anew.

use std::time::Duration;

use tollgate_policy::shapes::Consistency;

use crate::gated::{Counts, KEY, Node, TERMS, Terms, is_admitted};
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run, until};

/// A gate finds a counter by its algorithm too.
const BEFORE: u128 = 1;
const AFTER: u128 = 2;

/// A hybrid counter that is in use all the while: nodes go on hearing of one another.
fn nodes_share_the_new_counter_at_once(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, capacity: 10_000, ..TERMS };
        let nodes =
            [Node::start(&server.url(), terms).await, Node::start(&server.url(), terms).await];
        for node in &nodes {
            node.hears_of("one", BEFORE).await;
            assert!(node.admits("one", BEFORE).await);
        }
        let total = || server.ask::<Option<u64>>(&["HGET", KEY, "total"]);
        until("both have told", || total() == Some(2)).await;
        let [one, other] =
            nodes.each_ref().map(|node| node.reloaded(Terms { counts: Counts::Sliding, ..terms }));
        let (mut of_one, mut of_other) = (0, 0);
        // Never idle: an idle one looks at its figures.
        for _ in 0..3000 {
            of_one += u64::from(one.admits("one", AFTER).await);
            of_other += u64::from(other.admits("one", AFTER).await);
            let is_heard = one.left_of("one", AFTER) < 10_000 - of_one
                && other.left_of("one", AFTER) < 10_000 - of_other;
            if is_heard {
                let limit: String = server.ask(&["HGET", KEY, "limit"]);
                assert!(limit.starts_with("sliding_window"), "{limit}");
                return;
            }
            tokio::time::sleep(TERMS.interval / 20).await;
        }
        panic!("{of_one} and {of_other} were admitted, and neither node hears of the other");
    });
}

/// A slice of the old counter is given up after the new one began: that stays as it is.
fn an_old_slice_leaves_the_new_counter_alone(brand: Brand) {
    use Counts::{Bucket, Gcra, Sliding, Window};
    for (before, after, field, left) in [
        (Bucket, Sliding, "count", 40),
        (Window, Sliding, "count", 40),
        (Sliding, Window, "count", 40),
        (Window, Bucket, "tokens", 60),
        // Both are buckets: the slice takes room in it until its end.
        (Bucket, Gcra, "tokens", 50),
    ] {
        let server = Server::start(brand);
        run(async {
            let terms = Terms { consistency: Consistency::Lease, ..TERMS };
            let old = Node::start(&server.url(), Terms { counts: before, ..terms }).await;
            let counter = old.counter_of("one", BEFORE);
            let charged = old.ask_for(&counter, 10).await;
            assert!(is_admitted(charged));
            // So that some of the slice is unspent.
            old.give_back(&counter, 4, charged);
            let new = old.reloaded(Terms { counts: after, ..terms });
            assert!(is_admitted(new.ask_for(&new.counter_of("one", AFTER), 40).await));
            let limit = || server.ask::<String>(&["HGET", KEY, "limit"]);
            let begun = limit();
            assert_eq!(new.shared.close().await, 0);
            assert_eq!(limit(), begun);
            assert_eq!(server.ask::<Option<u64>>(&["HGET", KEY, field]), Some(left), "{begun}");
        });
    }
}

/// What an outage has admitted under the old algorithm is told after the new counter began: that stays as it is.
fn an_old_debt_leaves_the_new_counter_alone(brand: Brand) {
    use Counts::{Bucket, Gcra, Sliding, Window};
    for consistency in [Consistency::Strict, Consistency::Lease] {
        for (before, after, field, left) in [
            (Bucket, Sliding, "count", 40),
            (Sliding, Window, "count", 40),
            (Window, Bucket, "tokens", 60),
            (Bucket, Gcra, "tokens", 60),
        ] {
            let server = Server::start(brand);
            let proxy = Proxy::to(server.port());
            run(async {
                let terms = Terms { consistency, ..TERMS };
                let old = Node::start(&proxy.url(), Terms { counts: before, ..terms }).await;
                proxy.cut();
                old.down().await;
                assert!(is_admitted(old.ask_for(&old.counter_of("one", BEFORE), 10).await));
                // Another node has the new file already.
                let terms = Terms { counts: after, ..terms };
                let new = Node::start(&server.url(), terms).await;
                assert!(is_admitted(new.ask_for(&new.counter_of("one", AFTER), 40).await));
                let limit = || server.ask::<String>(&["HGET", KEY, "limit"]);
                let begun = limit();
                let reloaded = old.reloaded(terms);
                drop(old);
                proxy.mend();
                reloaded.up().await;
                for _ in 0..2 {
                    assert_eq!(reloaded.shared.close().await, 0, "{begun}");
                    assert_eq!(limit(), begun);
                    let has: Option<u64> = server.ask(&["HGET", KEY, field]);
                    assert_eq!(has, Some(left), "{begun}");
                    // What was to be told may be on its way in the background.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
            });
        }
    }
}

/// What an outage has admitted under the new algorithm is told, though Redis still has the old counter.
fn a_new_debt_replaces_the_old_counter(brand: Brand) {
    use Counts::{Bucket, Gcra, Sliding, Window};
    for consistency in [Consistency::Strict, Consistency::Lease] {
        for (before, after, field, left) in [
            (Bucket, Sliding, "count", 10),
            (Sliding, Window, "count", 10),
            (Window, Bucket, "tokens", 90),
            (Bucket, Gcra, "tokens", 90),
        ] {
            let server = Server::start(brand);
            let proxy = Proxy::to(server.port());
            run(async {
                let terms = Terms { consistency, ..TERMS };
                let old = Node::start(&proxy.url(), Terms { counts: before, ..terms }).await;
                assert!(is_admitted(old.ask_for(&old.counter_of("one", BEFORE), 40).await));
                assert_eq!(old.shared.close().await, 0);
                let new = old.reloaded(Terms { counts: after, ..terms });
                drop(old);
                proxy.cut();
                new.down().await;
                assert!(is_admitted(new.ask_for(&new.counter_of("one", AFTER), 10).await));
                proxy.mend();
                new.up().await;
                assert_eq!(new.shared.close().await, 0);
                let has = || server.ask::<Option<u64>>(&["HGET", KEY, field]);
                until("it is told", || has() == Some(left)).await;
            });
        }
    }
}

/// A slice that was granted under a higher limit is not spent under a lower one that is used up.
fn a_lower_limit_is_kept_by_slices_too(brand: Brand) {
    for (counts, left) in [(Counts::Window, 0), (Counts::Sliding, 0), (Counts::Bucket, 100)] {
        let server = Server::start(brand);
        run(async {
            let terms = Terms { consistency: Consistency::Lease, capacity: 1000, counts, ..TERMS };
            let node = Node::start(&server.url(), terms).await;
            let counter = node.counter();
            assert!(is_admitted(node.ask_for(&counter, 500).await));
            let charged = node.ask_for(&counter, 400).await;
            assert!(is_admitted(charged));
            node.give_back(&counter, 400, charged);
            let lower = node.reloaded(Terms { capacity: 100, ..terms });
            assert_eq!(lower.drain(150).await, left, "of what is held");
            // Others see the same.
            let other = Node::start(&server.url(), Terms { capacity: 100, ..terms }).await;
            assert_eq!(other.drain(150).await, 0);
        });
    }
}

/// A bucket whose rate is of another window goes on in Redis where its name does not tell the window, as a gate's does. A node begins
/// another counter for it, and is told what is left.
fn another_window_grants_a_bucket_nothing(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, ..TERMS };
        let node = Node::start(&server.url(), terms).await;
        node.hears_of("one", BEFORE).await;
        for _ in 0..60 {
            assert!(node.admits("one", BEFORE).await);
        }
        let total = || server.ask::<Option<u64>>(&["HGET", KEY, "total"]);
        until("it has told", || total() == Some(60)).await;
        let reloaded = node.reloaded(Terms { rate: (1, "hour"), ..terms });
        reloaded.hears_of("one", AFTER).await;
        assert_eq!(reloaded.left_of("one", AFTER), 40);
    });
}

on_both! {
    old_debt => an_old_debt_leaves_the_new_counter_alone;
    new_debt => a_new_debt_replaces_the_old_counter;
    lower => a_lower_limit_is_kept_by_slices_too;
    window => another_window_grants_a_bucket_nothing;
    hybrid => nodes_share_the_new_counter_at_once;
    old_slice => an_old_slice_leaves_the_new_counter_alone;
}
