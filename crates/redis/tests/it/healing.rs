//! The first moments after an outage: nodes know too little of one another, and have something to tell.

use std::time::Duration;

use tollgate_policy::shapes::Consistency;

use crate::gated::{Node, TERMS, Terms};
use crate::newcomers;
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run, until};

/// Late enough that a test has asked before an answer comes.
const LATER: Duration = Duration::from_millis(100);

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// How much a node admits of each counter, asked for so much.
async fn drain(node: &Node, times: u64) -> [u64; NAMES.len()] {
    let mut admitted = [0; NAMES.len()];
    for (nth, name) in NAMES.iter().enumerate() {
        for _ in 0..times {
            let is_admitted = node.admits(name, (nth as u128 + 1) << 64 | 7).await;
            admitted[nth] += u64::from(is_admitted);
        }
    }
    admitted
}

fn left(server: &Server) -> Vec<Option<i64>> {
    let of = |name| server.ask(&["HGET", &format!("tollgate:ratelimit:{name}"), "tokens"]);
    NAMES.iter().map(of).collect()
}

/// A node's own counter is the whole limit. It was not told what the others spent of it in the outage, so until it is its share
/// goes on. What broke: it decided by its own counter as soon as the breaker closed.
fn a_node_that_was_not_told_goes_on_with_its_share(brand: Brand) {
    let server = Server::start(brand);
    let proxies = [Proxy::to(server.port()), Proxy::to(server.port())];
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, ..TERMS };
        let nodes = [
            Node::start(&proxies[0].url(), terms).await,
            Node::start(&proxies[1].url(), terms).await,
        ];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for node in &nodes {
            assert_eq!(drain(node, 1).await, [1; NAMES.len()]);
        }
        until("all know it", || {
            nodes.iter().all(|node| NAMES.iter().all(|name| node.left_of(name) == 98))
        })
        .await;
        for (node, proxy) in nodes.iter().zip(&proxies) {
            proxy.cut();
            node.down().await;
        }
        for node in &nodes {
            assert_eq!(drain(node, 100).await, [49; NAMES.len()], "its share of what is left");
        }
        proxies[1].mend();
        until("the other has told it", || left(&server) == [Some(49); NAMES.len()]).await;
        proxies[0].delay(LATER);
        proxies[0].mend();
        nodes[0].up().await;
        assert_eq!(drain(&nodes[0], 100).await, [0; NAMES.len()]);
        proxies[0].delay(Duration::ZERO);
        until("all is told", || left(&server) == [Some(0); NAMES.len()]).await;
        assert_eq!(drain(&nodes[0], 10).await, [0; NAMES.len()]);
    });
}

/// Whoever can wait is decided by what Redis has.
fn requests_wait_for_the_first_answer(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let cut_off = newcomers::Node::start_at(&proxy.url(), newcomers::LONG).await;
        let other = newcomers::Node::start(&server, newcomers::LONG).await;
        until("they know of one another", || cut_off.shared.state().nodes == 2).await;
        assert_eq!((cut_off.burst(1).await, other.burst(1).await), (1, 1));
        let tokens = || {
            let key = server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).pop();
            key.and_then(|key| server.ask::<Option<i64>>(&["HGET", &key, "tokens"]))
        };
        until("all is told", || tokens() == Some(98)).await;
        proxy.cut();
        // It is in use all the while: nothing but the outage makes it old.
        let mut admitted = 1;
        while cut_off.shared.state().is_up {
            admitted += cut_off.burst(1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(other.burst(48).await, 48);
        until("the other has told it", || tokens().is_some_and(|left| left <= 50)).await;
        proxy.mend();
        until("Redis is up", || cut_off.shared.state().is_up).await;
        assert_eq!(admitted + cut_off.burst(newcomers::CAPACITY).await, 51, "what is left");
    });
}

on_both! {
    share => a_node_that_was_not_told_goes_on_with_its_share;
    asked => requests_wait_for_the_first_answer;
}
