//! The snapshot says what the store says, at once and to everybody.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Time;
use tollgate_storage::{KeyLoader, KeySnapshot, KeyTerms};

use crate::homes::{Home, Kind, on_every_store};
use crate::{NOW, issue, key, runtime};

#[test]
fn a_key_is_found_until_it_ends_with_everything_about_it() {
    let snapshot = KeySnapshot::new();
    let (_, mut stored) = key("acme", 1);
    stored.user = Some("ann".parse().unwrap());
    stored.terms.plan = Some("pro".parse().unwrap());
    stored.terms.expires_at = Some(NOW + Duration::from_secs(1));
    assert!(snapshot.find(&stored.sha256, NOW).is_none());
    snapshot.apply(&stored, "chain of acme");
    let found = snapshot.find(&stored.sha256, NOW).unwrap();
    assert_eq!((found.id(), found.origin()), (stored.id.as_str(), stored.id.as_str()));
    assert_eq!((found.tenant(), found.user()), (&stored.tenant, Some("ann")));
    assert_eq!((found.plan(), *found.attached()), (stored.terms.plan.as_ref(), "chain of acme"));
    assert_eq!(found.sha256(), stored.sha256);
    assert!(snapshot.find(&stored.sha256, NOW + Duration::from_secs(1)).is_none());
    assert!(snapshot.find(&key("acme", 2).1.sha256, NOW).is_none());
}

#[test]
fn a_successor_without_a_user_is_counted_as_the_key_it_replaced() {
    let snapshot = KeySnapshot::new();
    let (_, old) = key("acme", 1);
    let (_, new) = old.mint_successor(NOW).unwrap();
    snapshot.apply(&new, ());
    let found = snapshot.find(&new.sha256, NOW).unwrap();
    assert_eq!((found.id(), found.origin()), (new.id.as_str(), old.id.as_str()));
    assert_eq!(found.user(), None);
}

#[test]
fn whoever_holds_a_key_keeps_it_while_others_see_the_change() {
    let snapshot = KeySnapshot::new();
    let (_, mut stored) = key("acme", 1);
    snapshot.apply(&stored, 1);
    let held = snapshot.find(&stored.sha256, NOW).unwrap();
    stored.terms = KeyTerms { plan: Some("pro".parse().unwrap()), ..KeyTerms::default() };
    snapshot.apply(&stored, 2);
    assert_eq!((*held.attached(), held.plan()), (1, None));
    let shared = snapshot.find(&stored.sha256, NOW).unwrap().share();
    stored.revoked_at = Some(NOW);
    snapshot.apply(&stored, 3);
    assert!(snapshot.find(&stored.sha256, NOW).is_none() && snapshot.is_empty());
    assert_eq!(*shared.attached(), 2);
}

#[test]
fn a_new_policy_reaches_every_key() {
    let mut loader = KeyLoader::new();
    let keys: Vec<_> = (0..1000).map(|n| key("acme", n).1).collect();
    keys.iter().for_each(|key| loader.push(key, 1));
    let snapshot = loader.finish();
    snapshot.reattach(|entry| entry.attached() + entry.id().len());
    assert_eq!(snapshot.len(), 1000);
    for key in &keys {
        assert_eq!(*snapshot.find(&key.sha256, NOW).unwrap().attached(), 21);
    }
}

fn what_the_caller_is_told_is_in_force(kind: Kind) {
    let home = Home::new(kind);
    let snapshot = Arc::new(KeySnapshot::new());
    let watching = Arc::clone(&snapshot);
    let store = home.open_watching(move |key| watching.apply(key, ()));
    runtime().block_on(async {
        for n in 0..100 {
            let (_, stored) = key("acme", n);
            store.commit(issue(&stored)).await.unwrap();
            assert!(snapshot.find(&stored.sha256, NOW).is_some());
            // One that the store refuses changes nothing.
            assert!(store.commit(issue(&stored)).await.is_err());
            assert_eq!(snapshot.len() as u64, n + 1);
        }
        store.close().await.unwrap();

        let again = Arc::new(KeySnapshot::new());
        let watching = Arc::clone(&again);
        let store = home.open_watching(move |key| watching.apply(key, 2));
        let mut loader = KeyLoader::new();
        store.for_each_key(NOW, |key| loader.push(&key, 1)).await.unwrap();
        again.fill(loader);
        store.catch_up().await.unwrap();
        store.commit(issue(&key("acme", 100).1)).await.unwrap();
        for n in 0..=100 {
            let found = again.find(&key("acme", n).1.sha256, NOW).unwrap();
            assert_eq!(*found.attached(), if n < 100 { 1 } else { 2 });
        }
        store.close().await.unwrap();
    });
}

on_every_store! {
    what_the_caller_is_told_is_in_force,
}

#[test]
fn readers_never_miss_a_key_while_others_come_and_go() {
    let snapshot = KeySnapshot::new();
    let steady: Vec<_> = (0..100).map(|n| key("acme", n).1).collect();
    steady.iter().for_each(|key| snapshot.apply(key, ()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut seen = 0u64;
            while !done.load(Relaxed) || seen == 0 {
                assert!(steady.iter().all(|key| snapshot.find(&key.sha256, NOW).is_some()));
                seen += 1;
            }
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for n in 100..5000 {
            let (_, stored) = key("other", n);
            snapshot.apply(&stored, ());
            assert!(snapshot.find(&stored.sha256, NOW).is_some());
            if n % 2 == 0 {
                snapshot.remove(&stored);
                assert!(snapshot.find(&stored.sha256, NOW).is_none());
            }
        }
        done.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(snapshot.len(), 100 + 2450);
}

#[derive(Clone, Debug)]
enum Op {
    Apply { key: u64, ends: u64, revoked: bool },
    Remove { key: u64 },
    Sweep { now: u64 },
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..40u64, 1..50u64, prop::bool::weighted(0.2))
            .prop_map(|(key, ends, revoked)| Op::Apply { key, ends, revoked }),
        1 => (0..40u64).prop_map(|key| Op::Remove { key }),
        1 => (0..50u64).prop_map(|now| Op::Sweep { now }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_snapshot_is_a_map_with_ends(ops in prop::collection::vec(ops(), 1..60), loaded in 0..20u64) {
        let mut loader = KeyLoader::new();
        let mut model: HashMap<u64, u64> = HashMap::new();
        for n in 0..loaded {
            loader.push(&key("acme", n).1, ());
            model.insert(n, u64::MAX);
        }
        let snapshot = loader.finish();
        for op in ops {
            match op {
                Op::Apply { key: n, ends, revoked } => {
                    let (_, mut stored) = key("acme", n);
                    stored.terms.expires_at = Some(Time::from_secs(ends));
                    stored.revoked_at = revoked.then_some(NOW);
                    snapshot.apply(&stored, ());
                    if revoked { model.remove(&n); } else { model.insert(n, ends); }
                }
                Op::Remove { key: n } => {
                    snapshot.remove(&key("acme", n).1);
                    model.remove(&n);
                }
                Op::Sweep { now } => {
                    let before = model.len();
                    model.retain(|_, ends| *ends > now);
                    prop_assert_eq!(snapshot.sweep(Time::from_secs(now)), before - model.len());
                }
            }
            prop_assert_eq!(snapshot.len(), model.len());
            for n in 0..40 {
                let (_, stored) = key("acme", n);
                for now in [0, 10, 30, 49] {
                    let found = snapshot.find(&stored.sha256, Time::from_secs(now));
                    let expected = model.get(&n).is_some_and(|ends| *ends > now);
                    prop_assert_eq!(found.is_some(), expected);
                    prop_assert!(found.is_none_or(|found| found.id() == stored.id.as_str()));
                }
            }
        }
    }
}
