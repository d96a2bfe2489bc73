//! Changes that meet.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate_storage::{Change, KeyDraft, KeyTerms, ObjectKind};

use crate::node::FILE;
use crate::{Ask, Node};

#[test]
fn children_that_come_at_once_never_exceed_the_budget() {
    let node = Node::start();
    let made = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (node, made) = (&node, &made);
            scope.spawn(move || {
                for at in 0..5 {
                    let id = format!("c{worker}-{at}");
                    let limit = json!({ "sustained": { "rate": 10 } });
                    let body = json!({ "id": id, "parent": "part", "rate_limit": limit });
                    match node.post("/v1/tenants", &body).status {
                        201 => drop(made.fetch_add(1, Relaxed)),
                        status => assert_eq!(status, 409),
                    }
                }
            });
        }
    });
    // 100 × 1.5, in tens.
    assert_eq!(made.into_inner(), 15);
    let stored = node.get("/v1/tenants?limit=1000").expect(200);
    let by_api = stored["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["declared_in"] == "api")
        .count();
    assert_eq!(by_api, 15);
    assert_eq!(node.in_force().policy().tenants().all().len(), 15 + 4);
}

#[test]
fn of_requests_with_one_idempotency_key_one_is_done() {
    let node = Node::start();
    let ask = Ask::new("POST", "/v1/keys")
        .header("idempotency-key", "same")
        .json(&json!({ "tenant": "acme" }));
    let answers: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(|| node.send(&ask).expect(201))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(node.keys.len(), 1);
    assert!(answers.iter().all(|told| told["id"] == answers[0]["id"]));
    assert_eq!(answers.iter().filter(|told| told.get("key").is_some()).count(), 1);
}

#[test]
fn no_key_is_left_in_a_tenant_that_vanished() {
    let node = Node::start();
    for round in 0..10 {
        let id = format!("t{round}");
        node.post("/v1/tenants", &json!({ "id": id })).expect(201);
        thread::scope(|scope| {
            let issued = scope.spawn(|| node.post("/v1/keys", &json!({ "tenant": id })).status);
            let removed = scope.spawn(|| node.delete(&format!("/v1/tenants/{id}")).status);
            let both = (issued.join().unwrap(), removed.join().unwrap());
            assert!(matches!(both, (201, 409) | (422, 204)), "{both:?}");
        });
    }
}

/// Does something while the storage takes changes and makes none, and lets it go on then.
fn while_the_storage_is_held_up<R>(node: &Node, work: impl FnOnce() -> R) -> R {
    let held = node.hold.lock();
    let draft =
        KeyDraft { tenant: "acme".parse().unwrap(), user: None, terms: KeyTerms::default() };
    let (_, key) = draft.mint(crate::NOW).unwrap();
    let store = node.store.clone();
    let holding = node.runtime.spawn(async move {
        store.commit(vec![Change::IssueKey(Box::new(key))]).await.unwrap();
    });
    let done = work();
    drop(held);
    node.runtime.block_on(holding).unwrap();
    done
}

/// A client that waits no longer sends its request again, while the first is still being done.
#[test]
fn whoever_asks_again_meanwhile_is_answered_what_the_first_is() {
    let node = Node::start();
    let key = node.post("/v1/keys", &json!({ "tenant": "acme" })).expect(201);
    let rotate = format!("/v1/keys/{}/rotate", key["id"].as_str().unwrap());
    let asks = [
        ("/v1/tenants", json!({ "id": "made" })),
        ("/v1/plans", json!({ "name": "gold" })),
        (&rotate, json!({ "grace_seconds": 0 })),
    ];
    for (path, body) in asks {
        let ask = Ask::new("POST", path).header("idempotency-key", path).json(&body);
        thread::scope(|scope| {
            let workers: Vec<_> = while_the_storage_is_held_up(&node, || {
                let workers = (0..4).map(|_| scope.spawn(|| node.send(&ask)));
                let workers = workers.collect();
                // Long enough for all to have asked; whoever comes later finds the answer there, which tells nothing.
                thread::sleep(Duration::from_millis(300));
                workers
            });
            let answers: Vec<_> = workers.into_iter().map(|one| one.join().unwrap()).collect();
            let mut told: Vec<_> = answers.iter().map(|answer| answer.expect(201)).collect();
            let replayed =
                answers.iter().filter(|one| one.header("idempotency-replayed").is_some());
            assert_eq!(replayed.count(), 3, "{path}");
            // Only the first is told the key.
            told.iter_mut().for_each(|told| drop(told.as_object_mut().unwrap().remove("key")));
            assert!(told.iter().all(|one| *one == told[0]), "{path}: {told:?}");
        });
    }
}

/// The storage is held up while the caller waits for it, so that it hangs up just between what is stored and what is in force.
#[test]
fn whoever_hangs_up_leaves_nothing_stored_that_is_not_in_force() {
    let node = Node::start();
    let mut stored = 0;
    for at in 0..5 {
        let id = format!("t{at}");
        let ask = Ask::new("POST", "/v1/tenants").json(&json!({ "id": id }));
        while_the_storage_is_held_up(&node, || {
            // Long enough to get as far as the storage; where it is not, the round tells nothing.
            ask.send_and_hang_up(node.address, Duration::from_millis(300));
            thread::sleep(Duration::from_millis(100));
        });
        node.runtime.block_on(node.store.barrier()).unwrap();
        if node.runtime.block_on(node.store.object(ObjectKind::Tenant, &id)).is_ok() {
            stored += 1;
            let is_in_force = (0..600).any(|_| {
                thread::sleep(Duration::from_millis(10));
                node.in_force().policy().tenants().number(&id).is_some()
            });
            assert!(is_in_force, "{id} is stored and not in force");
        }
    }
    assert!(stored > 0);
}

/// Repeats a round until one tells something: not those in which this machine was so slow that nothing had begun when its caller hung up.
fn one_tells(round: impl Fn() -> bool) {
    assert!((0..20).any(|_| round()), "this machine is too busy to tell");
}

/// What was done to a key after it was issued, the first first.
fn done_to(node: &Node, key: &serde_json::Value) -> Vec<String> {
    let audit = node.get("/v1/audit").expect(200);
    let subject = format!("key {}", key["id"].as_str().unwrap());
    let rows = audit["items"].as_array().unwrap().iter().rev();
    let of_key = rows.filter(|row| row["subject"] == subject.as_str());
    of_key.skip(1).map(|row| row["action"].as_str().unwrap().to_owned()).collect()
}

/// The next change is made from what the one before leaves, although nobody waits for that any more.
#[test]
fn a_key_keeps_what_was_changed_of_it_for_somebody_who_hung_up() {
    one_tells(a_key_is_changed_for_somebody_who_hung_up);
}

fn a_key_is_changed_for_somebody_who_hung_up() -> bool {
    let node = Node::start();
    let key = node.post("/v1/keys", &json!({ "tenant": "acme" })).expect(201);
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let patch = |body| Ask::new("PATCH", &path).json(&body);
    let (first, second) =
        (patch(json!({ "expires_at": "2100-01-01T00:00:00Z" })), patch(json!({ "name": "ci" })));
    thread::scope(|scope| {
        let second = while_the_storage_is_held_up(&node, || {
            first.send_and_hang_up(node.address, Duration::from_secs(1));
            let second = scope.spawn(|| node.send(&second));
            // Long enough for it to be read by whoever does not wait for the first.
            thread::sleep(Duration::from_millis(300));
            second
        });
        second.join().unwrap().expect(200);
    });
    if done_to(&node, &key).len() < 2 {
        return false;
    }
    let told = node.get(&path).expect(200);
    assert_eq!(
        (&told["name"], &told["expires_at"]),
        (&json!("ci"), &json!("2100-01-01T00:00:00Z"))
    );
    true
}

/// Its terms would be stored and count for nothing.
#[test]
fn a_key_that_is_rotated_for_somebody_who_hung_up_is_not_changed_any_more() {
    one_tells(a_key_is_rotated_for_somebody_who_hung_up);
}

fn a_key_is_rotated_for_somebody_who_hung_up() -> bool {
    let node = Node::start();
    let key = node.post("/v1/keys", &json!({ "tenant": "acme" })).expect(201);
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let rotate = Ask::new("POST", &format!("{path}/rotate")).json(&json!({ "grace_seconds": 60 }));
    let limit = json!({ "rate_limit": { "sustained": { "rate": 1 } } });
    let change = Ask::new("PATCH", &path).json(&limit);
    let changed = thread::scope(|scope| {
        let change = while_the_storage_is_held_up(&node, || {
            rotate.send_and_hang_up(node.address, Duration::from_secs(1));
            let change = scope.spawn(|| node.send(&change));
            // Long enough for it to be read by whoever does not wait for the rotation.
            thread::sleep(Duration::from_millis(300));
            change
        });
        change.join().unwrap()
    });
    if done_to(&node, &key).first().is_none_or(|first| first != "key.rotate") {
        return false;
    }
    changed.expect(409);
    assert!(node.get(&path).expect(200)["rate_limit"].is_null());
    true
}

/// Waits until so many policies have begun to be put into force, or for a second.
fn have_begun(node: &Node, policies: usize) -> bool {
    (0..100).any(|_| {
        thread::sleep(Duration::from_millis(10));
        node.plane.begun.load(Relaxed) >= policies
    })
}

/// The next change is made from what a reload puts into force, and not from what it is about to replace.
#[test]
fn whoever_hangs_up_keeps_its_turn_until_a_reload_is_in_force() {
    let node = Node::start();
    std::fs::write(&node.plane.file, format!("{FILE}  - {{ id: ajax }}\n")).unwrap();
    thread::scope(|scope| {
        let held = node.plane.hold.lock();
        let reload = Ask::new("POST", "/v1/config/reload");
        let connection = reload.write(node.address);
        assert!((0..60).any(|_| have_begun(&node, 1)), "it reloads");
        drop(connection);
        let made = scope.spawn(|| node.post("/v1/tenants", &json!({ "id": "made" })).expect(201));
        // With the turn it would begin at once; without, it waits for as long as it has to.
        assert!(!have_begun(&node, 2), "a reload that is under way lost its turn");
        drop(held);
        made.join().unwrap();
    });
    let in_force = node.in_force();
    let has = |id: &str| in_force.policy().tenants().number(id).is_some();
    assert!(has("ajax") && has("made"));
    assert!(node.get("/v1/config").text.contains("ajax"));
}
