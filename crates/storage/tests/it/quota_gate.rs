//! Quotas behind a gate: who is charged, when a period ends, and what a refusal gives back.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate_engine::{FakeClock, Limiter};
use tollgate_gate::{Gate, Holder, InForce, Passage};
use tollgate_policy::compile::{Policy, Work};
use tollgate_policy::shapes::OnError;
use tollgate_storage::{Embedded, Quotas, Store, StoredKey};

use crate::{issue, key, runtime};

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Place {
    clock: FakeClock,
    gate: Gate<FakeClock>,
    quotas: Quotas,
    in_force: Arc<InForce>,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(text: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::at(folder.path()).open().unwrap();
        Place::over(store, folder, text)
    }

    fn over(store: Store, folder: tempfile::TempDir, text: &str) -> Place {
        let quotas = Quotas::new(store, 100, OnError::FailClosed);
        let clock = FakeClock::default();
        let limiter = Arc::new(Limiter::with_clock(clock.clone(), 100));
        let gate = Gate::over(limiter).keeping(Arc::new(quotas.clone()));
        let in_force = gate.enforce(Policy::of("test", text.as_bytes()).unwrap());
        Place { clock, gate, quotas, in_force, folder }
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
        let (store, folder, is_busy) = busy_store();
        let place = Place::over(store.clone(), folder, &DAILY.replace("limit: 3", "limit: 1000"));
        let (_, other) = key("acme", 1);
        let mut busy = std::pin::pin!(store.commit(issue(&other)));
        assert!(!is_ready_at_once(busy.as_mut()).await);
        {
            let asking = std::pin::pin!(place.ask("ada"));
            // Polled once: the bucket is charged and the store asked for a block.
            let polled = is_ready_at_once(asking).await;
            assert!(!polled, "the first of a period waits for the store");
        }
        is_busy.store(false, Relaxed);
        busy.await.unwrap();
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

#[test]
fn a_reset_is_written_down_before_it_is_answered() {
    runtime().block_on(async {
        let (store, folder, is_busy) = busy_store();
        let text = "plans: { free: { quota: { limit: 1000, window: day } } }\n\
                    tenants: [ { id: acme, plan: free } ]\n";
        let place = Place::over(store.clone(), folder, text);
        for _ in 0..200 {
            assert!(place.ask("ada").await.is_admitted());
        }
        let taken = || {
            let db = rusqlite::Connection::open(place.folder.path().join("tollgate.db")).unwrap();
            db.query_row("SELECT taken FROM quotas", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert!(taken() >= 200);
        let acme = place.in_force.policy().tenants().number("acme").unwrap();
        let caller = place.gate.caller(&place.in_force, acme, Holder::User("ada"), HOME);
        let reset = place.gate.reset(&place.in_force, (&caller, Work::default()), 0);
        let mut reset = std::pin::pin!(reset);
        // The store is busy with something else.
        let (_, other) = key("acme", 1);
        let busy = std::pin::pin!(store.commit(issue(&other)));
        assert!(!is_ready_at_once(busy).await);
        assert!(!is_ready_at_once(reset.as_mut()).await, "it is written down nowhere");
        is_busy.store(false, Relaxed);
        assert!(reset.await);
        assert!(taken() < 200, "{}", taken());
        assert_eq!(Place::remaining(&place.ask("ada").await), [999]);
        place.quotas.close().await.unwrap();
    });
}

#[test]
fn callers_whom_another_limit_refuses_take_nobodys_place() {
    let text = "
plans:
  free:
    rate_limit: { sustained: { rate: 1, window: day }, scope: tenant }
    quota: { limit: 3, window: day, scope: user }
  pro: { quota: { limit: 3, window: day, scope: user } }
tenants: [ { id: crowd, plan: free }, { id: acme, plan: pro } ]
";
    let place = Place::new(text);
    runtime().block_on(async {
        let tenant = |id| place.in_force.policy().tenants().number(id).unwrap();
        let ask = async |tenant: usize, user: &str| {
            let caller = place.gate.caller(&place.in_force, tenant, Holder::User(user), HOME);
            let passage = place.gate.pass(&place.in_force, &caller, Work::default()).await;
            (passage.is_admitted(), passage.unavailable().is_some())
        };
        for n in 0..3_000 {
            assert_eq!(ask(tenant("crowd"), &format!("crowd-{n}")).await, (n == 0, false), "{n}");
        }
        // Many more than may be in memory, one after another.
        for n in 0..300 {
            assert_eq!(ask(tenant("acme"), &format!("user-{n}")).await, (true, false), "{n}");
        }
        assert!(place.quotas.len() <= 128, "{}", place.quotas.len());
        place.quotas.close().await.unwrap();
    });
}

/// A store that has to do with a key that it was given until it is told to go on.
fn busy_store() -> (Store, tempfile::TempDir, Arc<AtomicBool>) {
    let is_busy = Arc::new(AtomicBool::new(true));
    let (folder, still) = (tempfile::tempdir().unwrap(), Arc::clone(&is_busy));
    let wait = move |_: &StoredKey| {
        while still.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let store = Embedded::at(folder.path()).watch_keys(wait).open().unwrap();
    (store, folder, is_busy)
}

/// Polls once, and tells whether it was ready.
async fn is_ready_at_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()))
        .await
}
