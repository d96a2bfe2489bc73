//! Quotas of nodes that share a store in Redis: what one node gives back, all have.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{FakeClock, Limiter};
use tollgate_gate::{Caller, Gate, Holder, InForce};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::OnError;
use tollgate_storage::{Quotas, Store};

use crate::homes::in_redis;
use crate::servers::{Brand, Server, on_both, run, until};

const LIMIT: u64 = 100;
/// What a node reserves of it at once.
const BLOCK: u64 = 1;

/// A node that has the quota of one user.
struct Node {
    clock: FakeClock,
    gate: Gate<FakeClock>,
    in_force: Arc<InForce>,
    store: Store,
}

impl Node {
    fn start(server: &Server) -> Node {
        let store = in_redis(server).open().unwrap();
        let quotas = Quotas::new(store.clone(), 100, OnError::FailClosed);
        let clock = FakeClock::default();
        let limiter = Arc::new(Limiter::with_clock(clock.clone(), 100));
        let gate = Gate::over(limiter).keeping(Arc::new(quotas));
        let text = format!(
            "plans: {{ free: {{ quota: {{ limit: {LIMIT}, window: day }} }} }}\n\
             tenants: [ {{ id: acme, plan: free }} ]\n"
        );
        let in_force = gate.enforce(Policy::of("test", text.as_bytes()).unwrap());
        Node { clock, gate, in_force, store }
    }

    fn caller(&self) -> Caller<'_> {
        let acme = self.in_force.policy().tenants().number("acme").unwrap();
        self.gate.caller(&self.in_force, acme, Holder::User("ada"), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    async fn is_admitted(&self) -> bool {
        let caller = self.caller();
        self.gate.pass(&self.in_force, &caller, Work::default()).await.is_admitted()
    }

    /// How many of so many are admitted, one after another.
    async fn admits(&self, many: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..many {
            admitted += u64::from(self.is_admitted().await);
        }
        admitted
    }

    /// What remains, as the API tells.
    async fn remaining(&self) -> u64 {
        let caller = self.caller();
        let seen = self.gate.look(&self.in_force, &caller, Work::default()).await;
        seen.chain().standing(0).remaining
    }

    async fn reset(&self) -> bool {
        let caller = self.caller();
        self.gate.reset(&self.in_force, (&caller, Work::default()), 0).await
    }
}

fn taken(server: &Server) -> u64 {
    let names: Vec<String> = server.ask(&["KEYS", "tollgate:quota:*"]);
    assert_eq!(names.len(), 1, "{names:?}");
    server.ask(&["HGET", &names[0], "taken"])
}

/// What broke: a node that had seen the quota used up refused until the period's end.
fn a_used_up_quota_that_is_made_new_elsewhere_is_found_out(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, two) = (Node::start(&server), Node::start(&server));
        assert_eq!(one.admits(LIMIT / 2).await, LIMIT / 2);
        let of_two = two.admits(LIMIT).await;
        let all = LIMIT / 2 + of_two + one.admits(LIMIT).await;
        assert!((LIMIT - BLOCK..=LIMIT).contains(&all), "{all}");
        assert!(!two.is_admitted().await && !one.is_admitted().await);
        assert!(one.reset().await);
        assert!(one.is_admitted().await);
        let mut of_two = 0;
        // Each time a second later.
        for _ in 0..100 {
            two.clock.advance(Duration::from_secs(1));
            of_two = u64::from(two.is_admitted().await);
            if of_two > 0 {
                break;
            }
            two.store.barrier().await.unwrap();
        }
        assert_eq!(of_two, 1, "it never finds out");
        // And what was reserved when it was made new is all that comes on top.
        let all = 1 + of_two + two.admits(2 * LIMIT).await + one.admits(2 * LIMIT).await;
        assert!((LIMIT - BLOCK..=LIMIT + BLOCK).contains(&all), "{all}");
    });
}

/// Callers who are refused do not become as many questions.
fn a_used_up_quota_is_asked_about_once_a_second(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server);
        assert_eq!(node.admits(2 * LIMIT).await, LIMIT);
        node.store.barrier().await.unwrap();
        let before = crate::servers::calls(&server);
        for _ in 0..5 {
            node.clock.advance(Duration::from_secs(1));
            assert_eq!(node.admits(50).await, 0);
            node.store.barrier().await.unwrap();
        }
        // Of two hundred and fifty callers. The store looks at its log of changes twice a second besides.
        let asked = crate::servers::calls(&server) - before;
        assert!((5..50).contains(&asked), "{asked}");
    });
}

/// What broke: a node gave back what it had heard of.
fn a_reset_gives_back_what_other_nodes_have_used(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, two) = (Node::start(&server), Node::start(&server));
        assert_eq!(one.admits(1).await, 1);
        assert_eq!(two.admits(60).await, 60);
        until("what two has asked for is there", || taken(&server) >= 61).await;
        two.store.barrier().await.unwrap();
        let remaining = one.remaining().await;
        assert!(remaining <= LIMIT - 61, "{remaining}: what others have used is seen");
        assert!(one.reset().await);
        let left = taken(&server);
        assert!(left <= 2 * BLOCK, "{left}");
        let remaining = two.remaining().await;
        assert!(remaining >= LIMIT - 2 * BLOCK, "{remaining}");
    });
}

on_both! {
    found_out => a_used_up_quota_that_is_made_new_elsewhere_is_found_out;
    once_a_second => a_used_up_quota_is_asked_about_once_a_second;
    given_back => a_reset_gives_back_what_other_nodes_have_used;
}
