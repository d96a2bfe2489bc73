//! Several servers as one: a cluster of three, and a server with a replica and a sentinel.

use std::time::Duration;

use crate::servers::{Brand, Server};

/// Three servers that share the slots, and others that have none yet.
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    pub fn start(brand: Brand) -> Cluster {
        Cluster::start_with(brand, 0)
    }

    /// With so many servers more.
    pub fn start_with(brand: Brand, more: usize) -> Cluster {
        let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let all = 0..3 + more;
        let servers: Vec<Server> = all.map(|_| Server::start_clustered(brand, &args)).collect();
        for (server, slots) in servers.iter().zip([(0, 5460), (5461, 10_922), (10_923, 16_383)]) {
            let (first, last) = (slots.0.to_string(), slots.1.to_string());
            server.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            for other in &servers {
                let (port, talk) = (other.port().to_string(), other.cluster_port().to_string());
                server.ask::<String>(&["CLUSTER", "MEET", "127.0.0.1", &port, &talk]);
            }
        }
        let known = format!("cluster_known_nodes:{}\r", servers.len());
        let is_ready = |server: &Server| {
            let info: String = server.ask(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        within_half_a_minute("the cluster forms", || servers.iter().all(is_ready));
        Cluster { servers }
    }

    /// Three servers with a replica each, behind them in the same order.
    pub fn replicated(brand: Brand) -> Cluster {
        let cluster = Cluster::start_with(brand, 3);
        for (replica, primary) in cluster.servers[3..].iter().zip(&cluster.servers) {
            replica.ask::<String>(&["CLUSTER", "REPLICATE", &primary.cluster_id()]);
        }
        within_half_a_minute("replicas follow", || cluster.servers[3..].iter().all(follows));
        cluster
    }

    pub fn end(&mut self, nth: usize) {
        self.servers[nth].kill();
    }

    pub fn url(&self) -> String {
        self.servers[0].url()
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Which of them has a key.
    pub fn home_of(&self, key: &str) -> &Server {
        let slot: usize = self.servers[0].ask(&["CLUSTER", "KEYSLOT", key]);
        &self.servers[[5461, 10_923].partition_point(|first| *first <= slot)]
    }

    /// What is left of a bucket, if it was ever charged.
    pub fn tokens(&self, key: &str) -> Option<u64> {
        self.home_of(key).ask(&["HGET", key, "tokens"])
    }
}

/// A primary, its replica, and the sentinel that watches them.
pub struct Watched {
    pub primary: Server,
    pub replica: Server,
    sentinel: Server,
}

impl Watched {
    /// With a primary that its sentinel calls `name`.
    pub fn start(brand: Brand, name: &str) -> Watched {
        let primary = Server::start(brand);
        let port = primary.port().to_string();
        let replica = Server::start_with(brand, &["--replicaof", "127.0.0.1", &port]);
        within_half_a_minute("the replica follows", || follows(&replica));
        let sentinel = Server::start_sentinel(
            brand,
            &format!(
                "sentinel monitor {name} 127.0.0.1 {port} 1\n\
                 sentinel down-after-milliseconds {name} 500\n\
                 sentinel failover-timeout {name} 3000\n"
            ),
        );
        within_half_a_minute("the sentinel sees the replica", || {
            let info: String = sentinel.ask(&["INFO", "sentinel"]);
            info.contains("status=ok") && info.contains("slaves=1")
        });
        Watched { primary, replica, sentinel }
    }

    pub fn url(&self) -> String {
        self.sentinel.url()
    }
}

fn follows(replica: &Server) -> bool {
    replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up")
}

fn within_half_a_minute(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: not in half a minute");
}
