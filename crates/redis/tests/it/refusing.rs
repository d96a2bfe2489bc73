//! A Redis that is there, answers, and takes nothing: it is out of memory, its disk is full, or it lacks its replicas.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_policy::shapes::{Consistency, Fallback};

use crate::gated::{KEY, Node, TERMS, Terms, tokens};
use crate::servers::{Brand, Server, on_both, run, until};

fn refuse_writes(server: &Server) {
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn take_writes(server: &Server) {
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
}

const RATE: u64 = 50;

const HYBRID: Terms =
    Terms { consistency: Consistency::Hybrid, rate: (RATE, "second"), capacity: 100, ..TERMS };

/// Nodes of a hybrid counter have their shares meanwhile, and are not locked out afterwards.
fn hybrid_nodes_have_their_shares(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let nodes =
            [Node::start(&server.url(), HYBRID).await, Node::start(&server.url(), HYBRID).await];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for node in &nodes {
            assert!(node.is_admitted().await);
        }
        until("both are told", || server.ask::<Option<u64>>(&["HGET", KEY, "total"]) == Some(2))
            .await;
        let begin = Instant::now();
        refuse_writes(&server);
        // What they admit before they know that nobody can be told is the bound of hybrid counters.
        let mut unknowing = 0;
        for node in &nodes {
            while node.shared.state().fallbacks == 0 {
                unknowing += node.drain(1).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                assert!(begin.elapsed() < Duration::from_secs(30), "the fallback never decides");
            }
        }
        let mut admitted = 0;
        while begin.elapsed() < Duration::from_secs(4) {
            for node in &nodes {
                admitted += node.drain(10).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let shares = 100 + (begin.elapsed().as_secs_f64() * RATE as f64).ceil() as u64;
        assert!(admitted > RATE, "{admitted}");
        assert!(admitted <= shares, "{admitted} of {shares}, and {unknowing} before");
        take_writes(&server);
        let begin = Instant::now();
        for node in &nodes {
            let mut decided = node.shared.state().fallbacks;
            while !node.is_admitted().await || node.shared.state().fallbacks != decided {
                decided = node.shared.state().fallbacks;
                assert!(begin.elapsed() < Duration::from_secs(30), "nobody passes any more");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        // Time has paid off nearly all of it.
        let left = tokens(&server).unwrap_or(100);
        assert!(left > -100, "{left} left: nobody else passes for {} s", -left / RATE as i64);
    });
}

/// With `fail_closed` they pass again, although nothing was admitted meanwhile that they could be told of.
fn hybrid_nodes_pass_again(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node =
            Node::start(&server.url(), Terms { fallback: Fallback::FailClosed, ..HYBRID }).await;
        // Redis knows nothing of the counter, and time soon repays what the node admits.
        refuse_writes(&server);
        let mut asked = 0;
        while node.shared.state().fallbacks == 0 {
            asked += node.drain(1).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(asked < 2000, "the fallback never decides");
        }
        for _ in 0..100 {
            assert!(!node.is_admitted().await, "it was told, though Redis takes nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        take_writes(&server);
        let begin = Instant::now();
        while !node.is_admitted().await {
            assert!(begin.elapsed() < Duration::from_secs(30), "nobody passes any more");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(server.ask::<i64>(&["PTTL", KEY]) > 0);
    });
}

on_both! {
    hybrid => hybrid_nodes_have_their_shares;
    hybrid_closed => hybrid_nodes_pass_again;
}
