//! A cluster that grows, and one that loses a primary, under calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_policy::shapes::{Consistency, Fallback};
use tollgate_redis::{Charge, Figures, Mode, Plain, Settings, Strict, Unavailable};

use crate::gated::{Node, TERMS, Terms};
use crate::groups::Cluster;
use crate::servers::{Brand, Server, on_both, run, until};
use crate::spread::{documented_rights, with_user};

/// However busy the machine is.
const GENEROUS: Duration = Duration::from_secs(30);

/// Two counters of one slot, which are charged together.
const KEYS: [&str; 2] = ["tollgate:{alice}:user", "tollgate:{alice}:tenant"];

/// Callers who ask without a pause until they are told to stop.
struct Callers {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// Because one of their counters had gone and the other had not.
    refused: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Callers {
    fn start(strict: &Strict, figures: &Figures) -> Callers {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let refused = Arc::<AtomicU64>::default();
        let caller = || {
            let (strict, figures) = (strict.clone(), figures.clone());
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            let refused = Arc::clone(&refused);
            tokio::spawn(async move {
                let mut admitted = 0;
                while !is_over.load(Relaxed) {
                    let chain = KEYS.map(|key| Charge::new(key, &figures));
                    match strict.take(&chain).await {
                        Ok(answer) => {
                            admitted += u64::from(answer.verdict().is_admitted());
                            answered.fetch_add(1, Relaxed);
                        }
                        Err(Unavailable::Refused(why)) if why.starts_with("TryAgain") => {
                            refused.fetch_add(1, Relaxed);
                        }
                        Err(other) => panic!("a slot that moves is no outage: {other:?}"),
                    }
                }
                admitted
            })
        };
        let tasks = (0..8).map(|_| caller()).collect();
        Callers { is_over, answered, refused, tasks }
    }

    async fn go_on(&self) {
        let before = self.answered.load(Relaxed);
        until("callers are answered", || self.answered.load(Relaxed) >= before + 100).await;
    }

    /// How many were admitted.
    async fn stop(self) -> u64 {
        self.is_over.store(true, Relaxed);
        let mut admitted = 0;
        for task in self.tasks {
            admitted += task.await.unwrap();
        }
        admitted
    }
}

/// A slot goes to a server that had none, counters and all, while they are charged: everybody is answered, and no charge is lost
/// or made twice.
fn a_slot_moves_to_a_new_server(brand: Brand) {
    let cluster = Cluster::start_with(brand, 1);
    run(async {
        const LIMIT: u64 = 30_000;
        let figures = crate::cluster::bucket(LIMIT);
        // By a user who may do what is documented and nothing else.
        let rights = documented_rights();
        let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
        for server in cluster.servers() {
            server.ask::<String>(&rights);
        }
        let settings = with_user(&cluster.url()).mode(Mode::Cluster);
        let strict = Strict::start(settings.timeout(GENEROUS));
        strict.up().await;
        let (from, to) = (cluster.home_of(KEYS[0]), &cluster.servers()[3]);
        let slot = from.ask::<u64>(&["CLUSTER", "KEYSLOT", KEYS[0]]).to_string();
        let is_of = |server: &Server, state: &str, other: &Server| {
            let id = other.cluster_id();
            server.ask::<String>(&["CLUSTER", "SETSLOT", &slot, state, &id]);
        };
        let callers = Callers::start(&strict, &figures);
        callers.go_on().await;
        is_of(to, "IMPORTING", from);
        is_of(from, "MIGRATING", to);
        callers.go_on().await;
        let port = to.port().to_string();
        let migrate = |key: &str| {
            from.ask::<String>(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        };
        assert_eq!(callers.refused.load(Relaxed), 0);
        migrate(KEYS[0]);
        until("calls whose counters are apart fail", || callers.refused.load(Relaxed) > 0).await;
        migrate(KEYS[1]);
        // Now whoever is sent to the old server is told to ask the new one.
        callers.go_on().await;
        // Scripts that do not name all their keys, as the storage's, would find those empty which have not gone yet.
        let plain = Plain::new(with_user(&cluster.url()).mode(Mode::Cluster));
        let mut cmd = redis::cmd("HGET");
        cmd.arg(KEYS[0]).arg("tokens");
        let told = plain.ask(cmd, GENEROUS).await;
        assert!(
            matches!(&told, Err(Unavailable::Refused(why)) if why.starts_with("Ask")),
            "{told:?}"
        );
        is_of(to, "NODE", to);
        is_of(from, "NODE", to);
        callers.go_on().await;
        let admitted = callers.stop().await;
        for key in KEYS {
            let left: u64 = to.ask(&["HGET", key, "tokens"]);
            assert_eq!(left, LIMIT - admitted, "{key}");
        }
        assert_eq!(strict.times_opened(), 0);
    });
}

/// Its replica takes over what the primary of a slot had, and nodes of every mode go on with it.
fn a_replica_takes_over(brand: Brand) {
    let mut cluster = Cluster::replicated(brand);
    run(async {
        let settings = Settings::new(&cluster.url()).unwrap().mode(Mode::Cluster);
        let settings = settings.also(&cluster.servers()[1].url()).unwrap();
        let mut nodes = Vec::new();
        // Who holds a slice spends it first, so that none ends unspent.
        for consistency in [Consistency::Lease, Consistency::Strict, Consistency::Hybrid] {
            let terms = Terms { consistency, fallback: Fallback::FailClosed, ..TERMS };
            let node = Node::start_at(settings.clone(), terms).await;
            nodes.push((format!("{consistency:?}"), node));
        }
        // The first server of the cluster is the one that is lost, and these are on it.
        let name_at_first = |mode: &str| {
            let of = |nth| format!("{mode}-{nth}");
            let is_there = |name: &String| {
                let key = format!("tollgate:ratelimit:{name}");
                cluster.home_of(&key).port() == cluster.servers()[0].port()
            };
            (0..).map(of).find(is_there).unwrap()
        };
        let names: Vec<String> = nodes.iter().map(|(mode, _)| name_at_first(mode)).collect();
        for ((mode, node), name) in nodes.iter().zip(&names) {
            for _ in 0..40 {
                assert!(node.admits(name, 7).await, "{mode}");
            }
        }
        let tokens = |from: &mut redis::Connection, name: &str| -> Option<u64> {
            let key = format!("tollgate:ratelimit:{name}");
            // Nobody answers until the replica is the primary.
            redis::cmd("HGET").arg(key).arg("tokens").query(from).ok().flatten()
        };
        let mut first = cluster.servers()[0].connection();
        let mut replica = cluster.servers()[3].connection();
        redis::cmd("READONLY").exec(&mut replica).unwrap();
        until("all is told and copied", || {
            names.iter().all(|name| {
                let left = tokens(&mut first, name);
                left.is_some_and(|left| left <= 60) && tokens(&mut replica, name) == left
            })
        })
        .await;
        cluster.end(0);
        for ((mode, node), name) in nodes.iter().zip(&names) {
            let (mut admitted, began) = (40, Instant::now());
            // A slice may end unspent where the replica is slow to take over; then no more than that is lost.
            let is_leased = mode == "Lease";
            while admitted < 100 && !(is_leased && tokens(&mut replica, name) == Some(0)) {
                assert!(began.elapsed() < GENEROUS, "{mode} goes on: {admitted} admitted");
                match node.admits(name, 7).await {
                    true => admitted += 1,
                    false => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            for _ in 0..150 {
                admitted += u64::from(node.admits(name, 7).await);
            }
            assert!(admitted == 100 || is_leased && admitted < 100, "{mode}: {admitted}");
            until("the new primary knows it", || tokens(&mut replica, name) == Some(0)).await;
        }
        let role: Vec<redis::Value> = redis::cmd("ROLE").query(&mut replica).unwrap();
        assert_eq!(role[0], redis::Value::BulkString(b"master".to_vec()));
    });
}

on_both! {
    slot => a_slot_moves_to_a_new_server;
    primary => a_replica_takes_over;
}
