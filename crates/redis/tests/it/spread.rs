//! Leased and hybrid counters in a cluster of three, and through a failover that a sentinel makes. Strict ones are in
//! `cluster.rs`.

use std::collections::HashMap;

use tollgate_policy::shapes::{Consistency, Fallback};
use tollgate_redis::{Mode, Settings};

use crate::gated::{KEY, Node, TERMS, Terms, hash};
use crate::groups::{Cluster, Watched};
use crate::servers::{Brand, Server, on_both, run, until};

/// Enough that each of three servers has some.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn key(name: &str) -> String {
    format!("tollgate:ratelimit:{name}")
}

async fn in_cluster(cluster: &Cluster, terms: Terms) -> Node {
    let settings = Settings::new(&cluster.url()).unwrap().mode(Mode::Cluster);
    Node::start_at(settings, terms).await
}

fn assert_all_are_used(cluster: &Cluster) {
    let of = |server: &Server| server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).len();
    let used: Vec<usize> = cluster.servers().iter().map(of).collect();
    assert!(
        used.iter().all(|keys| *keys > 0) && used.iter().sum::<usize>() == NAMES.len(),
        "{used:?}"
    );
}

fn leases_in_a_cluster_admit_exactly_the_limit(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let terms = Terms { consistency: Consistency::Lease, ..TERMS };
        let nodes = [in_cluster(&cluster, terms).await, in_cluster(&cluster, terms).await];
        let mut admitted = [0; NAMES.len()];
        for _ in 0..80 {
            for node in &nodes {
                for (nth, name) in NAMES.iter().enumerate() {
                    admitted[nth] += u64::from(node.admits(name, hash(nth)).await);
                }
            }
        }
        assert!(admitted.iter().all(|admitted| *admitted <= 100), "{admitted:?}");
        for node in &nodes {
            assert_eq!(node.shared.close().await, 0, "all that was left is returned");
        }
        let last = in_cluster(&cluster, terms).await;
        for (nth, name) in NAMES.iter().enumerate() {
            for _ in 0..110 {
                admitted[nth] += u64::from(last.admits(name, hash(nth)).await);
            }
        }
        assert_eq!(admitted, [100; NAMES.len()]);
        assert_all_are_used(&cluster);
    });
}

fn hybrid_nodes_of_a_cluster_know_of_one_another(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, ..TERMS };
        let nodes = [in_cluster(&cluster, terms).await, in_cluster(&cluster, terms).await];
        for (nth, name) in NAMES.iter().enumerate() {
            for (node, times) in nodes.iter().zip([30, 25]) {
                node.hears_of(name, hash(nth)).await;
                for _ in 0..times {
                    assert!(node.admits(name, hash(nth)).await);
                }
            }
        }
        let knows = |node: &Node, left| {
            NAMES.iter().enumerate().all(|(nth, name)| node.left_of(name, hash(nth)) == left)
        };
        until("each knows what both have admitted", || {
            nodes.iter().all(|node| knows(node, 45))
                && NAMES.iter().all(|name| cluster.tokens(&key(name)) == Some(45))
        })
        .await;
        assert_all_are_used(&cluster);
        // What is left is used up by one, and the other has nothing.
        for (nth, name) in NAMES.iter().enumerate() {
            for _ in 0..45 {
                assert!(nodes[0].admits(name, hash(nth)).await);
            }
            assert!(!nodes[0].admits(name, hash(nth)).await);
        }
        until("the other knows it", || knows(&nodes[1], 0)).await;
        for (nth, name) in NAMES.iter().enumerate() {
            assert!(!nodes[1].admits(name, hash(nth)).await);
        }
    });
}

async fn behind_sentinel(watched: &Watched, terms: Terms) -> Node {
    let settings = Settings::new(&watched.url()).unwrap().mode(Mode::Sentinel).master("billing");
    Node::start_at(settings, terms).await
}

impl Watched {
    /// Waits until the replica has what the primary has of the one counter there is.
    async fn is_replicated(&self) {
        let counter = |server: &Server| server.ask::<HashMap<String, String>>(&["HGETALL", KEY]);
        until("replication", || {
            let counted = counter(&self.primary);
            !counted.is_empty() && counter(&self.replica) == counted
        })
        .await;
    }
}

/// A slice was deducted on the replica too, so whoever holds it goes on, and nobody is granted it again.
fn leases_outlast_a_failover(brand: Brand) {
    let mut watched = Watched::start(brand, "billing");
    run(async {
        let fallback = Fallback::FailClosed;
        let terms = Terms { consistency: Consistency::Lease, fallback, capacity: 400, ..TERMS };
        let nodes =
            [behind_sentinel(&watched, terms).await, behind_sentinel(&watched, terms).await];
        let mut admitted = nodes[0].drain(100).await + nodes[1].drain(50).await;
        assert_eq!(admitted, 150);
        watched.is_replicated().await;
        watched.primary.kill();
        for node in &nodes {
            node.down().await;
            admitted += node.drain(100).await;
        }
        assert!(admitted <= 400, "{admitted}");
        for node in &nodes {
            node.up().await;
        }
        let before = admitted;
        for node in &nodes {
            admitted += node.drain(500).await;
        }
        assert!(admitted > before, "the new primary grants slices: {admitted}");
        assert!(admitted <= 400, "{admitted} of 400");
        let left: i64 = watched.replica.ask(&["HGET", KEY, "tokens"]);
        assert_eq!(left, 0, "it was asked until it had nothing");
    });
}

/// What nodes admitted while there was no primary is told to the new one, and to one another.
fn hybrid_nodes_go_on_after_a_failover(brand: Brand) {
    let mut watched = Watched::start(brand, "billing");
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, capacity: 400, ..TERMS };
        let nodes =
            [behind_sentinel(&watched, terms).await, behind_sentinel(&watched, terms).await];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for node in &nodes {
            node.hears_of("one", 1).await;
        }
        assert_eq!((nodes[0].drain(60).await, nodes[1].drain(40).await), (60, 40));
        until("all know it", || nodes.iter().all(|node| node.left() == 300)).await;
        watched.is_replicated().await;
        watched.primary.kill();
        for node in &nodes {
            node.down().await;
            assert_eq!(node.drain(10).await, 10);
        }
        for node in &nodes {
            node.up().await;
        }
        let left = || watched.replica.ask::<i64>(&["HGET", KEY, "tokens"]);
        until("both have told it", || left() == 280).await;
        // Who was back first rests meanwhile, and hears of the other when it is used.
        for node in &nodes {
            assert!(node.is_admitted().await);
        }
        until("all know it", || left() == 278 && nodes.iter().all(|node| node.left() == 278)).await;
    });
}

/// The rights that the documentation lists for counters, as words of `ACL SETUSER`.
pub fn documented_rights() -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("docs/distribution.md")).unwrap();
    let begin = text.find("ACL SETUSER tollgate on >secret").unwrap();
    let end = begin + text[begin..].find("```").unwrap();
    text[begin..end].split_whitespace().map(str::to_owned).collect()
}

/// A user who may do what is documented and nothing else counts in every mode.
async fn each_mode_counts(settings: &Settings) {
    let modes = [Consistency::Strict, Consistency::Lease, Consistency::Hybrid];
    for (nth, consistency) in modes.into_iter().enumerate() {
        let terms = Terms { consistency, fallback: Fallback::FailClosed, ..TERMS };
        let start = || Node::start_at(settings.clone(), terms);
        let nodes = [start().await, start().await];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for _ in 0..5 {
            assert!(nodes[0].admits(NAMES[nth], hash(nth)).await, "{consistency:?}");
        }
        for node in &nodes {
            assert_eq!(node.shared.close().await, 0);
            let state = node.shared.state();
            assert_eq!((state.fallbacks, state.times_opened), (0, 0), "{consistency:?}");
        }
    }
}

pub fn with_user(url: &str) -> Settings {
    Settings::new(&url.replace("redis://", "redis://tollgate:secret@")).unwrap()
}

fn documented_rights_are_enough(brand: Brand) {
    let rights = documented_rights();
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    let single = Server::start(brand);
    single.ask::<String>(&rights);
    run(each_mode_counts(&with_user(&single.url())));
    let tokens = |server: &Server, nth: usize| {
        server.ask::<Option<i64>>(&["HGET", &key(NAMES[nth]), "tokens"])
    };
    assert_eq!([0, 1, 2].map(|nth| tokens(&single, nth)), [Some(95); 3]);
    let cluster = Cluster::start(brand);
    for server in cluster.servers() {
        server.ask::<String>(&rights);
    }
    run(each_mode_counts(&with_user(&cluster.url()).mode(Mode::Cluster)));
    assert_eq!([0, 1, 2].map(|nth| cluster.tokens(&key(NAMES[nth]))), [Some(95); 3]);
    let watched = Watched::start(brand, "billing");
    for server in [&watched.primary, &watched.replica] {
        server.ask::<String>(&rights);
    }
    let settings = with_user(&watched.url()).mode(Mode::Sentinel).master("billing");
    run(each_mode_counts(&settings));
    assert_eq!([0, 1, 2].map(|nth| tokens(&watched.primary, nth)), [Some(95); 3]);
}

on_both! {
    cluster_lease => leases_in_a_cluster_admit_exactly_the_limit;
    cluster_hybrid => hybrid_nodes_of_a_cluster_know_of_one_another;
    failover_lease => leases_outlast_a_failover;
    failover_hybrid => hybrid_nodes_go_on_after_a_failover;
    rights => documented_rights_are_enough;
}
