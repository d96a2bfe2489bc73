//! A hybrid counter that is new on a node, or has rested there, is asked for before it decides: a node that knows nothing of
//! the others admits nothing that they have spent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tollgate_engine::{Limit, Limiter, Rate, SystemClock};
use tollgate_gate::{Gate, Holder, InForce};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::Fallback;
use tollgate_redis::{Figures, Hybrid, Settings, SharedCounters, Sharing, Strict};

use crate::servers::{Brand, Server, on_both, run, until};

pub const CAPACITY: usize = 100;
const INTERVAL: Duration = Duration::from_millis(100);

/// What a user may do: time does not fill it while a test runs.
const A_DAY: &str = "sustained: { rate: 1, window: day }, burst: { capacity: 100 }";

/// A node that decides whole chains.
pub struct Node {
    gate: Gate,
    in_force: Arc<InForce>,
    pub shared: SharedCounters<SystemClock>,
}

impl Node {
    pub async fn start(server: &Server, timeout: Duration) -> Node {
        Node::start_at(&server.url(), timeout).await
    }

    pub async fn start_at(url: &str, timeout: Duration) -> Node {
        Node::start_with(url, timeout, (A_DAY, INTERVAL)).await
    }

    async fn start_with(url: &str, timeout: Duration, (limit, interval): (&str, Duration)) -> Node {
        let text = format!(
            "
rate_limit_sync: {{ enabled: true }}
plans: {{ a: {{ rate_limit: {{ {limit}, scope: user, consistency: hybrid }} }} }}
tenants: [ {{ id: acme, plan: a }} ]
"
        );
        let policy = Policy::of("policy.yaml", text.as_bytes())
            .unwrap_or_else(|faults| panic!("{}", faults.diagnostics));
        let limiter = Arc::new(Limiter::new());
        let sharing = Sharing {
            settings: Settings::new(url).unwrap().timeout(timeout),
            prefix: "tollgate".to_owned(),
            interval,
            fallback: Fallback::LocalOnly,
            max_keys: 1000,
        };
        let shared = SharedCounters::start(sharing, &limiter);
        let gate = Gate::over(limiter).keeping(Arc::new(shared.clone()));
        let in_force = gate.enforce(policy);
        until("Redis is up", || shared.state().is_up).await;
        Node { gate, in_force, shared }
    }

    async fn is_admitted(&self) -> bool {
        let tenants = self.in_force.policy().tenants().all();
        let acme = tenants.iter().position(|tenant| tenant.id() == "acme").unwrap();
        let address = [10, 0, 0, 1].into();
        let caller = self.gate.caller(&self.in_force, acme, Holder::User("ci"), address);
        self.gate.pass(&self.in_force, &caller, Work::default()).await.is_admitted()
    }

    /// How many of so many are admitted that come at the same moment.
    pub async fn burst(&self, many: usize) -> usize {
        let all = join_all((0..many).map(|_| self.is_admitted())).await;
        all.into_iter().filter(|is_admitted| *is_admitted).count()
    }

    /// Waits until it asks for nothing any more; every second it says that it is alive.
    async fn rests(&self) {
        let mut before = self.calls();
        loop {
            tokio::time::sleep(3 * INTERVAL).await;
            let calls = self.calls();
            if calls <= before + 1 {
                return;
            }
            before = calls;
        }
    }

    fn calls(&self) -> u64 {
        self.shared.state().took.buckets.iter().map(|(_, count)| count).sum()
    }
}

pub async fn all_is_told(server: &Server, left: i64) {
    let key = || server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).pop();
    let tokens = || key().and_then(|key| server.ask::<Option<i64>>(&["HGET", &key, "tokens"]));
    until("all is told", || tokens() == Some(left)).await;
}

pub const LONG: Duration = Duration::from_secs(20);

fn a_node_that_is_new_to_a_counter_admits_nothing_that_others_have_spent(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let one = Node::start(&server, LONG).await;
        assert_eq!(one.burst(CAPACITY - 3).await, CAPACITY - 3);
        all_is_told(&server, 3).await;
        let two = Node::start(&server, LONG).await;
        let before = two.calls();
        assert_eq!(two.burst(CAPACITY).await, 3, "what is left");
        assert!(two.calls() - before < 10, "those who come at once share an answer");
        all_is_told(&server, 0).await;
        for _ in 0..3 {
            assert_eq!(Node::start(&server, LONG).await.burst(CAPACITY).await, 0);
        }
    });
}

fn a_node_whose_counter_has_rested_admits_nothing_that_others_have_spent(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, two) = (Node::start(&server, LONG).await, Node::start(&server, LONG).await);
        assert_eq!(two.burst(1).await, 1);
        all_is_told(&server, CAPACITY as i64 - 1).await;
        two.rests().await;
        assert_eq!(one.burst(CAPACITY).await, CAPACITY - 1);
        all_is_told(&server, 0).await;
        // What it asked for a moment before may be decided by for so long.
        tokio::time::sleep(INTERVAL).await;
        assert_eq!(two.burst(CAPACITY).await, 0);
    });
}

/// Others use four fifths of a limit and more while the counter rests here. What broke: after a short rest a node was charged all
/// of that and credited with no more than a full counter, so whoever came now and then was refused every time.
fn a_node_whose_counter_rested_for_a_moment_has_what_redis_has(brand: Brand) {
    const TAU: Duration = Duration::from_millis(500);
    let server = Server::start(brand);
    run(async {
        let limit = "sustained: { rate: 1000, window: second }, burst: { capacity: 20 }";
        let start = async || Node::start_with(&server.url(), LONG, (limit, TAU)).await;
        let (one, two) = (start().await, start().await);
        assert_eq!(two.burst(1).await, 1);
        // It asks every τ until it rests, and once a second it says that it is alive.
        let (mut calls, mut since) = (two.calls(), Instant::now());
        while since.elapsed() < 3 * TAU / 2 {
            tokio::time::sleep(TAU / 50).await;
            if calls != two.calls() {
                (calls, since) = (two.calls(), Instant::now());
            }
        }
        let key = server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).pop().unwrap();
        let total = || server.ask::<i64>(&["HGET", &key, "total"]);
        for round in 1..=3 {
            assert_eq!(one.burst(20).await, 20);
            until("it is told", || total() == 1 + 20 * round).await;
            // Till both have refilled it.
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        assert_eq!(two.burst(1).await, 1, "Redis has all of it");
    });
}

/// Whoever is refused does not wait for Redis, but has it asked.
fn a_counter_that_rests_and_refuses_learns_that_it_was_made_new(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server, LONG).await;
        assert_eq!(node.burst(CAPACITY).await, CAPACITY);
        all_is_told(&server, 0).await;
        node.rests().await;
        assert!(!node.is_admitted().await);
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(CAPACITY as u64).build().unwrap();
        let strict = Strict::start(Settings::new(&server.url()).unwrap().timeout(LONG));
        strict.up().await;
        let other = Hybrid::start(strict, Arc::new(Limiter::new()), (INTERVAL, 10));
        let key = server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:*"]).pop().unwrap();
        other.reset(&key, &Figures::of(&limit).unwrap()).await.unwrap();
        let begin = Instant::now();
        while !node.is_admitted().await {
            assert!(begin.elapsed() < LONG, "it never learns of it");
            tokio::time::sleep(INTERVAL / 10).await;
        }
    });
}

fn a_silent_redis_is_waited_for_once_and_then_the_share_decides(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server, Duration::from_millis(50)).await;
        let _: redis::Value = server.ask(&["CLIENT", "PAUSE", "20000", "ALL"]);
        assert_eq!(
            node.burst(2 * CAPACITY).await,
            CAPACITY,
            "it is the only node: its share is all"
        );
        // Requests may give up a moment before the call does that they wait for.
        until("the breaker opens", || !node.shared.state().is_up).await;
        assert!(!node.is_admitted().await, "without waiting, for the breaker is open");
    });
}

/// Redis restarts without its data: who had the counter goes on with what it knows, and all together have one capacity more at most.
fn an_emptied_server_grants_a_capacity_at_most(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let long = Duration::from_secs(20);
        let one = Node::start(&server, long).await;
        assert_eq!(one.burst(60).await, 60);
        one.rests().await;
        server.ask::<String>(&["FLUSHALL"]);
        let two = Node::start(&server, long).await;
        let of_two = two.burst(CAPACITY / 2).await;
        one.rests().await;
        let of_one = one.burst(2 * CAPACITY).await;
        assert!(of_one <= 40, "{of_one} were left there");
        let all = 60 + of_one + of_two + two.burst(2 * CAPACITY).await;
        assert!(all <= 2 * CAPACITY, "{all}");
    });
}

on_both! {
    emptied => an_emptied_server_grants_a_capacity_at_most;
    first => a_node_that_is_new_to_a_counter_admits_nothing_that_others_have_spent;
    rested => a_node_whose_counter_has_rested_admits_nothing_that_others_have_spent;
    short_rest => a_node_whose_counter_rested_for_a_moment_has_what_redis_has;
    made_new => a_counter_that_rests_and_refuses_learns_that_it_was_made_new;
    silent => a_silent_redis_is_waited_for_once_and_then_the_share_decides;
}
