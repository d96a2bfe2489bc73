//! What belongs to a period that is over is not charged to the next one.

use std::time::Duration;

use tollgate_policy::shapes::Consistency;

use crate::gated::{Counts, KEY, Node, TERMS, Terms};
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, calls, on_both, run, until};

/// Longer than a month: where the node thinks it is, Redis' period is over.
const AGES: Duration = Duration::from_secs(40 * 86_400);

/// Those that have periods.
const ALL: [(Counts, Consistency); 3] = [
    (Counts::Quota, Consistency::Lease),
    (Counts::Window, Consistency::Lease),
    (Counts::Window, Consistency::Strict),
];

/// A debt that comes to Redis after its period is over hits nobody.
fn a_debt_ends_with_its_period(brand: Brand) {
    for (counts, consistency) in ALL {
        // A server of its own: the node before may say once more that it lives.
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let terms = Terms { counts, consistency, behind: AGES, ..TERMS };
            let node = Node::start(&proxy.url(), terms).await;
            proxy.cut();
            node.down().await;
            assert_eq!(node.drain(30).await, 30, "its share decides");
            proxy.mend();
            node.up().await;
            // It is told as soon as that is possible. Nodes say every second that they live: some time later.
            let before = calls(&server);
            until("it is told", || calls(&server) >= before + 4).await;
            assert_eq!(node.drain(150).await, 100, "the next period has all of its balance");
        });
    }
}

/// One that comes in time is charged.
fn a_debt_is_charged_to_its_period(brand: Brand) {
    for (counts, consistency) in ALL {
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let node = Node::start(&proxy.url(), Terms { counts, consistency, ..TERMS }).await;
            proxy.cut();
            node.down().await;
            assert_eq!(node.drain(30).await, 30);
            proxy.mend();
            node.up().await;
            until("it is charged", || {
                server.ask::<Option<u64>>(&["HGET", KEY, "count"]) == Some(30)
            })
            .await;
            assert_eq!(node.drain(150).await, 70);
        });
    }
}

/// That a period was used up says nothing of the next one, also if Redis cannot be asked about that.
fn what_was_left_says_nothing_of_the_next_period(brand: Brand) {
    for (counts, consistency) in ALL {
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let terms = Terms { counts, consistency, behind: AGES, ..TERMS };
            let node = Node::start(&proxy.url(), terms).await;
            assert_eq!(node.drain(150).await, 100);
            node.catches_up();
            proxy.cut();
            node.down().await;
            assert_eq!(node.drain(150).await, 100, "its share of the next period");
        });
    }
}

on_both! {
    debt_ends => a_debt_ends_with_its_period;
    debt_counts => a_debt_is_charged_to_its_period;
    next_period => what_was_left_says_nothing_of_the_next_period;
}
