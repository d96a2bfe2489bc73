//! Quotas behind a gate: who is charged, when a period ends, and what a refusal gives back.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{FakeClock, Limiter};
use tollgate_gate::{Gate, Holder, InForce, Passage};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::OnError;
use tollgate_storage::{Embedded, Quotas};

use crate::runtime;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Place {
    clock: FakeClock,
    gate: Gate<FakeClock>,
    quotas: Quotas,
    in_force: Arc<InForce>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new(text: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::at(folder.path()).open().unwrap();
        let quotas = Quotas::new(store, 100, OnError::FailClosed);
        let clock = FakeClock::default();
        let limiter = Arc::new(Limiter::with_clock(clock.clone(), 100));
        let gate = Gate::over(limiter).keeping(Arc::new(quotas.clone()));
        let in_force = gate.enforce(Policy::of("test", text.as_bytes()).unwrap());
        Place { clock, gate, quotas, in_force, _folder: folder }
    }

    async fn ask(&self, user: &str) -> Passage<'_> {
        let acme = self.in_force.policy().tenants().number("acme").unwrap();
        let user = Holder::User(if user == "ada" { "ada" } else { "bob" });
        let caller = self.gate.caller(&self.in_force, acme, user, HOME);
        self.gate.pass(&self.in_force, &caller, Work::default()).await
    }

    fn remaining(passage: &Passage<'_>) -> Vec<u64> {
        (0..passage.len()).map(|place| passage.chain().standing(place).remaining).collect()
    }
}

const DAILY: &str = "
plans:
  free:
    rate_limit: { sustained: { rate: 5, window: hour }, scope: tenant }
    quota: { limit: 3, window: day }
tenants: [ { id: acme, plan: free } ]
";

#[test]
fn a_used_up_quota_charges_nothing_else_and_begins_anew_with_its_period() {
    runtime().block_on(async {
        let place = Place::new(DAILY);
        for left in [[4, 2], [3, 1], [2, 0]] {
            let passage = place.ask("ada").await;
            assert!(passage.is_admitted());
            assert_eq!(Place::remaining(&passage), left);
        }
        for _ in 0..3 {
            let passage = place.ask("ada").await;
            assert_eq!(passage.refused_by(), Some(1));
            assert_eq!(Place::remaining(&passage), [2, 0], "the tenant's bucket is as it was");
            // The clock stands at midnight.
            let day = Duration::from_secs(86_400);
            assert_eq!(passage.refusal().unwrap().retry_after(), Some(day));
        }
        // Another user has a balance of its own, and gives back what never was sent.
        let mut passage = place.ask("bob").await;
        assert_eq!(Place::remaining(&passage), [1, 2]);
        place.gate.give_back(&mut passage);
        assert_eq!(Place::remaining(&place.ask("bob").await), [1, 2]);

        place.clock.advance(Duration::from_secs(86_400));
        assert_eq!(Place::remaining(&place.ask("ada").await), [4, 2]);
        place.quotas.close().await.unwrap();
    });
}

#[test]
fn the_longest_wait_is_told_whoever_keeps_the_counter() {
    runtime().block_on(async {
        let place = Place::new(DAILY);
        for _ in 0..3 {
            assert!(place.ask("ada").await.is_admitted());
        }
        for _ in 0..2 {
            assert!(place.ask("bob").await.is_admitted());
        }
        // Both refuse ada: the bucket for twelve minutes, the quota for a day.
        let passage = place.ask("ada").await;
        assert_eq!(passage.refused_by(), Some(1));
        assert!(passage.chain().refusal(0).is_some());
        // Only the bucket refuses bob, and what is left of its quota is told all the same.
        let passage = place.ask("bob").await;
        assert_eq!(passage.refused_by(), Some(0));
        assert_eq!(Place::remaining(&passage), [0, 1]);
    });
}

#[test]
fn who_hangs_up_while_the_store_is_asked_has_charged_nothing() {
    runtime().block_on(async {
        let place = Place::new(&DAILY.replace("limit: 3", "limit: 1000"));
        {
            let asking = std::pin::pin!(place.ask("ada"));
            // Polled once: the bucket is charged and the store asked for a block.
            let polled = is_ready_at_once(asking).await;
            assert!(!polled, "the first of a period waits for the store");
        }
        let passage = place.ask("ada").await;
        assert_eq!(Place::remaining(&passage), [4, 999]);
        // Without waiting it can be decided only from now on.
        let acme = place.in_force.policy().tenants().number("acme").unwrap();
        let caller = place.gate.caller(&place.in_force, acme, Holder::User("ada"), HOME);
        let passage = place.gate.decide(&place.in_force, &caller, Work::default());
        assert_eq!(Place::remaining(&passage), [3, 998]);
        let caller = place.gate.caller(&place.in_force, acme, Holder::User("eve"), HOME);
        let passage = place.gate.decide(&place.in_force, &caller, Work::default());
        assert!(passage.unavailable().is_some() && !passage.is_admitted());
        assert_eq!(passage.chain().standing(0).remaining, 3);
    });
}

/// Polls once, and tells whether it was ready.
async fn is_ready_at_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()))
        .await
}
