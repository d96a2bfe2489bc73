//! A node that is killed with SIGKILL, as a process of its own, strands at most the slice it held, and of a chain in several
//! slots at most one request's charges.

use std::io::{Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use tollgate_engine::{Limit, Period, Rate};
use tollgate_redis::{Charge, Figures, Leases, Mode, Settings, Strict};

use crate::groups::Cluster;
use crate::servers::{Brand, Server, on_both, run, until};

/// Where the process that is to be killed finds Redis, and which of the limits it spends.
const URL: &str = "TOLLGATE_TEST_REDIS";
const KEY: &str = "TOLLGATE_TEST_COUNTER";

/// Long enough that nobody comes near it before it is killed.
const LIMIT: u64 = 100_000;

/// Counters that are not renewed while a test runs.
fn figures(key: &str) -> Figures {
    let limit = match key {
        "quota" => Limit::quota(LIMIT, Period::Year, "UTC"),
        _ => Limit::token_bucket(Rate::per_day(10)).burst(LIMIT).build(),
    };
    Figures::of(&limit.unwrap()).unwrap()
}

/// Slices that outlive the test, so that Redis still tells of them at its end.
async fn node(url: &str) -> Leases {
    let settings = Settings::new(url).unwrap().timeout(Duration::from_secs(20));
    let strict = Strict::start(settings);
    strict.up().await;
    Leases::new(strict, Duration::from_secs(600), 10_000)
}

/// The process that is killed. Whatever it admits it says at once, so nothing is admitted that nobody knows of.
#[test]
#[ignore = "a process of its own, which the tests here start and kill"]
fn spends_until_it_is_killed() {
    let (Ok(url), Ok(key)) = (std::env::var(URL), std::env::var(KEY)) else { return };
    run(async {
        let (leases, limit) = (node(&url).await, figures(&key));
        let mut admitted = 0u64;
        while leases.take(&key, &limit, 1).await.unwrap().is_allowed() {
            std::io::stderr().write_all(b".").unwrap();
            admitted += 1;
            // A killer that is kept waiting must find something left.
            if admitted.is_multiple_of(16) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
}

/// The same for chains of counters in several slots of a cluster, one request at a time.
#[test]
#[ignore = "a process of its own, which the tests here start and kill"]
fn takes_chains_until_it_is_killed() {
    let (Ok(url), Ok(keys)) = (std::env::var(URL), std::env::var(KEY)) else { return };
    run(async {
        let settings = Settings::new(&url).unwrap().mode(Mode::Cluster);
        let strict = Strict::start(settings.timeout(Duration::from_secs(60)));
        strict.up().await;
        let limit = figures("chain");
        let chain: Vec<Charge<'_>> = keys.split(' ').map(|key| Charge::new(key, &limit)).collect();
        while strict.take(&chain).await.unwrap().verdict().is_admitted() {
            std::io::stderr().write_all(b".").unwrap();
        }
    });
}

/// A node in a process of its own, killed at the latest when it is dropped.
struct Victim {
    child: Child,
    said: ChildStderr,
    admitted: u64,
}

impl Victim {
    fn start(server: &Server, key: &str) -> Victim {
        Victim::doing("killed::spends_until_it_is_killed", (&server.url(), key))
    }

    fn doing(test: &str, (url, key): (&str, &str)) -> Victim {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .envs([(URL, url), (KEY, key)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = child.stderr.take().unwrap();
        Victim { child, said, admitted: 0 }
    }

    /// Waits until it has admitted so many.
    fn admits(&mut self, least: u64) {
        let mut said = [0; 64];
        while self.admitted < least {
            match self.said.read(&mut said).unwrap() {
                0 => panic!("it ended by itself after {} admitted", self.admitted),
                length => self.admitted += length as u64,
            }
        }
    }

    /// Kills it in the middle of what it does, and tells how many it has admitted.
    fn kill(mut self) -> u64 {
        assert!(self.child.try_wait().unwrap().is_none(), "it is still spending");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = Vec::new();
        self.said.read_to_end(&mut rest).unwrap();
        assert!(rest.iter().all(|said| *said == b'.'), "{}", String::from_utf8_lossy(&rest));
        self.admitted + rest.len() as u64
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes until it is refused twenty times, and returns what it holds then.
async fn drain(leases: &Leases, key: &str, limit: &Figures) -> u64 {
    let (mut admitted, mut refused) = (0, 0);
    while refused < 20 {
        match leases.take(key, limit, 1).await.unwrap().is_allowed() {
            true => admitted += 1,
            false => refused += 1,
        }
    }
    leases.close().await;
    admitted
}

fn killed_nodes_strand_what_they_held(brand: Brand, key: &str) {
    let server = Server::start(brand);
    let mut victims = [Victim::start(&server, key), Victim::start(&server, key)];
    victims[0].admits(700);
    victims[1].admits(1500);
    let dead = victims.into_iter().map(Victim::kill).sum::<u64>();
    run(async {
        // What they sent before they died may still be granted to them.
        until("Redis has noticed", || {
            let clients: String = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
            clients.lines().count() == 1
        })
        .await;
        let field = |name: &str| server.ask::<Option<u64>>(&["HGET", key, name]).unwrap_or(0);
        let held = match key {
            "quota" => field("count") - dead,
            _ => field("leased") + field("leased_before"),
        };
        assert!(held > 0, "they died with slices");
        let limit = figures(key);
        let mut survived = 0;
        let (one, two) = (node(&server.url()).await, node(&server.url()).await);
        let (of_one, of_two) = tokio::join!(drain(&one, key, &limit), drain(&two, key, &limit));
        survived += of_one + of_two;
        // What one returned after the other was refused.
        survived += drain(&node(&server.url()).await, key, &limit).await;
        let admitted = dead + survived;
        assert!(admitted <= LIMIT, "{dead} by the dead and {survived} by survivors of {LIMIT}");
        let stranded = LIMIT - admitted;
        assert!(stranded <= held, "{stranded} stranded of slices of {held}");
        // A slice is at most twice the one before, most of which was spent: it is no more than a few times all they spent.
        assert!(stranded <= 4 * dead, "{stranded} stranded after {dead} spent");
    });
}

/// A node dies when the first of its slots has charged a request and the last has not answered.
fn a_node_that_dies_between_slots_leaves_one_request(brand: Brand) {
    let cluster = Cluster::start(brand);
    let names: Vec<String> = (0..100).map(|nth| format!("key-{nth}")).collect();
    let on = |server: usize| {
        let port = cluster.servers()[server].port();
        names.iter().find(|name| cluster.home_of(name).port() == port).unwrap().as_str()
    };
    let keys = [on(0), on(1), on(2)];
    let mut victim =
        Victim::doing("killed::takes_chains_until_it_is_killed", (&cluster.url(), &keys.join(" ")));
    victim.admits(50);
    let slow = &cluster.servers()[2];
    slow.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let charged = |key: &str| LIMIT - cluster.tokens(key).unwrap();
    run(until("one is charged in two slots and waits for the third", || {
        let clients: String = slow.ask(&["INFO", "clients"]);
        let is_asked = clients.lines().any(|line| line.trim() == "blocked_clients:1");
        is_asked && charged(keys[0]) == charged(keys[1]) && charged(keys[0]) > charged(keys[2])
    }));
    let admitted = victim.kill();
    slow.ask::<String>(&["CLIENT", "UNPAUSE"]);
    run(until("all have noticed", || {
        let is_gone = |server: &Server| {
            let clients: String = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
            clients.lines().count() == 1
        };
        cluster.servers().iter().all(is_gone)
    }));
    assert_eq!(keys[..2].iter().map(|key| charged(key)).collect::<Vec<_>>(), [admitted + 1; 2]);
    let last = charged(keys[2]);
    assert!((admitted..=admitted + 1).contains(&last), "{last} charged after {admitted} admitted");
}

fn a_bucket(brand: Brand) {
    killed_nodes_strand_what_they_held(brand, "bucket");
}

fn a_quota(brand: Brand) {
    killed_nodes_strand_what_they_held(brand, "quota");
}

on_both! {
    bucket => a_bucket;
    quota => a_quota;
    between_slots => a_node_that_dies_between_slots_leaves_one_request;
}
