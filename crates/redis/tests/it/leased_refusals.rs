//! Chains of several leased limits that refuse: the longest wait is told, and Redis is not asked by every request.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Limiter, Refusal};
use tollgate_gate::{Gate, Holder, InForce};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::Fallback;
use tollgate_redis::{Settings, SharedCounters, Sharing};

use crate::servers::{Brand, Server, calls, on_both, run, until};

/// A user's bucket, which has a token more every hour, and the tenant's, which has one more every day.
const POLICY: &str = "
rate_limit_sync: { enabled: true }
plans: { a: { rate_limit: { sustained: { rate: 24, window: day }, burst: { capacity: 2 }, scope: user, consistency: lease } } }
tenants:
  - { id: acme, plan: a, rate_limit: { sustained: { rate: 1, window: day }, burst: { capacity: 2 }, scope: tenant, consistency: lease } }
";
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(10);

struct Node {
    gate: Gate,
    in_force: Arc<InForce>,
}

impl Node {
    async fn start(server: &Server, interval: Duration) -> Node {
        let policy = Policy::of("policy.yaml", POLICY.as_bytes())
            .unwrap_or_else(|faults| panic!("{}", faults.diagnostics));
        let limiter = Arc::new(Limiter::new());
        let sharing = Sharing {
            settings: Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(20)),
            prefix: "tollgate".to_owned(),
            interval,
            fallback: Fallback::LocalOnly,
            max_keys: 1000,
        };
        let shared = SharedCounters::start(sharing, &limiter);
        let gate = Gate::over(limiter).keeping(Arc::new(shared.clone()));
        let in_force = gate.enforce(policy);
        until("Redis is up", || shared.state().is_up).await;
        Node { gate, in_force }
    }

    /// Who refuses this user's request, and for how long.
    async fn refused(&self, user: &str) -> Option<(String, Duration)> {
        let tenants = self.in_force.policy().tenants().all();
        let acme = tenants.iter().position(|tenant| tenant.id() == "acme").unwrap();
        let caller =
            self.gate.caller(&self.in_force, acme, Holder::User(user), [10, 0, 0, 1].into());
        let passage = self.gate.pass(&self.in_force, &caller, Work::default()).await;
        let by = passage.limit(passage.refused_by()?).source().to_owned();
        let Some(Refusal::Wait(nanos)) = passage.refusal() else { panic!("it may pass some day") };
        Some((by, Duration::from_nanos(nanos)))
    }
}

/// The user's was asked first, and its hour was told.
fn the_longest_wait_of_leased_limits_is_told(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        for interval in [SHORT, HOUR] {
            server.ask::<String>(&["FLUSHALL"]);
            let node = Node::start(&server, interval).await;
            for _ in 0..2 {
                assert_eq!(node.refused("ann").await, None);
            }
            for nth in 0..50 {
                let (by, wait) = node.refused("ann").await.unwrap();
                assert_eq!(by, "tenant:acme", "request {nth}");
                assert!(wait > 20 * HOUR && wait <= 24 * HOUR, "{wait:?}");
            }
        }
    });
}

fn a_refusal_is_believed_for_an_interval_and_charges_nothing(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server, HOUR).await;
        for _ in 0..2 {
            assert_eq!(node.refused("ann").await, None);
        }
        assert!(node.refused("ann").await.is_some());
        let before = calls(&server);
        for user in ["ann", "bob"].iter().cycle().take(400) {
            assert!(node.refused(user).await.is_some());
        }
        // Now and then one asks again, and the node says every second that it lives.
        let more = calls(&server) - before;
        assert!(more < 100, "{more} calls for 400 requests");
    });
}

/// Somebody else makes the counters new: that is found out after an interval, also by a node that goes on being asked.
fn what_comes_back_elsewhere_is_found_out(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server, SHORT).await;
        for _ in 0..2 {
            assert_eq!(node.refused("ann").await, None);
        }
        assert!(node.refused("ann").await.is_some());
        for name in server.ask::<Vec<String>>(&["KEYS", "tollgate:ratelimit:tenant:*"]) {
            server.ask::<i64>(&["UNLINK", &name]);
        }
        // Ann's own is used up still, and is what she is told of as soon as the other's is known.
        let mut by = String::new();
        while by != "plan:a" {
            by = node.refused("ann").await.unwrap().0;
        }
        assert_eq!(node.refused("bob").await, None);
    });
}

on_both! {
    longest => the_longest_wait_of_leased_limits_is_told;
    believed => a_refusal_is_believed_for_an_interval_and_charges_nothing;
    found_out => what_comes_back_elsewhere_is_found_out;
}
