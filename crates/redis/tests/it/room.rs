//! How many counters nodes share at once may change while they run.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::Limiter;
use tollgate_gate::{Gate, Holder};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::Fallback;
use tollgate_redis::{Settings, SharedCounters, Sharing};

use crate::servers::{Brand, Server, on_both, run, until};

const POLICY: &str = "
rate_limit_sync: { enabled: true }
plans: { a: { rate_limit: { sustained: { rate: 100, window: day }, scope: user, consistency: hybrid } } }
tenants: [ { id: acme, plan: a } ]
";

/// What broke: a reload that raised `counters.max_keys` reached only counters that nodes do not share.
fn room_that_is_made_while_running_is_used(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limiter = Arc::new(Limiter::new());
        let sharing = Sharing {
            settings: Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(20)),
            prefix: "tollgate".to_owned(),
            interval: Duration::from_secs(3600),
            fallback: Fallback::LocalOnly,
            max_keys: 4,
        };
        let shared = SharedCounters::start(sharing, &limiter);
        let gate = Gate::over(limiter).keeping(Arc::new(shared.clone()));
        let in_force = gate.enforce(Policy::of("policy.yaml", POLICY.as_bytes()).unwrap());
        until("Redis is up", || shared.state().is_up).await;
        let ask = async |users: std::ops::Range<u32>| {
            for user in users {
                let user = format!("user-{user}");
                let holder = Holder::User(&user);
                let caller = gate.caller(&in_force, 0, holder, [10, 0, 0, 1].into());
                assert!(gate.pass(&in_force, &caller, Work::default()).await.is_admitted());
            }
        };
        let unshared = || shared.state().unshared;
        ask(0..8).await;
        let before = unshared();
        assert!(before > 0 && shared.state().hybrid_in_use == 4);
        gate.set_max_keys(100);
        ask(8..24).await;
        assert_eq!(unshared(), before);
        gate.set_max_keys(10);
        ask(24..26).await;
        assert_eq!(unshared(), before + 2, "and there is less room again");
    });
}

on_both! {
    changed => room_that_is_made_while_running_is_used;
}
