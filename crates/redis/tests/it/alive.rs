//! How many nodes there are, and what a node thinks of that when Redis has forgotten.

use crate::gated::{Node, TERMS, Terms};
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run, until};

/// Redis comes back empty, one node speaks before the others, and is cut off.
fn the_first_to_speak_is_not_alone(brand: Brand) {
    let server = Server::start(brand);
    let proxies = [0, 1, 2].map(|_| Proxy::to(server.port()));
    run(async {
        let terms = Terms { capacity: 99, ..TERMS };
        let mut nodes = Vec::new();
        for proxy in &proxies {
            nodes.push(Node::start(&proxy.url(), terms).await);
        }
        until("all know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 3)
        })
        .await;
        for (proxy, node) in proxies.iter().zip(&nodes).skip(1) {
            proxy.cut();
            node.down().await;
        }
        server.ask::<()>(&["FLUSHALL"]);
        let spoken =
            || server.ask::<Vec<String>>(&["ZRANGE", "tollgate:nodes", "0", "-1", "WITHSCORES"]);
        until("the first has spoken", || spoken().len() == 2).await;
        // When it speaks again it has heard the answer.
        let once = spoken();
        until("it has spoken again", || spoken() != once).await;
        proxies[0].cut();
        nodes[0].down().await;
        assert_eq!(nodes[0].shared.state().nodes, 3);
        assert_eq!(nodes[0].drain(99).await, 33);
    });
}

on_both! {
    forgotten => the_first_to_speak_is_not_alone;
}
