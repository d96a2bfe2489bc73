//! Leaky buckets in front of a queue: what they let out is let out one after another.

use tollgate_policy::shapes::Consistency;

use crate::gated::{Counts, Node, TERMS, Terms};
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run};

/// Also while Redis cannot be asked: a node's share of such a bucket is one too.
fn one_at_a_time_in_an_outage(brand: Brand) {
    for consistency in [Consistency::Strict, Consistency::Hybrid] {
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let terms = Terms { counts: Counts::Paced, consistency, ..TERMS };
            let node = Node::start(&proxy.url(), terms).await;
            proxy.cut();
            node.down().await;
            assert_eq!(node.drain(20).await, 1, "{consistency:?}");
        });
    }
}

on_both! {
    outage => one_at_a_time_in_an_outage;
}
