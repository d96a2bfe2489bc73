//! Keys: issued once, in force at once, ended at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::node::FILE;
use crate::{Ask, Node};

fn issue(node: &Node, body: &Value) -> (String, String) {
    let answer = node.post("/v1/keys", body);
    let told = answer.expect(201);
    let (id, key) = (told["id"].as_str().unwrap(), told["key"].as_str().unwrap());
    assert_eq!(answer.header("location"), Some(format!("/v1/keys/{id}").as_str()));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    (id.to_owned(), key.to_owned())
}

#[test]
fn an_issued_key_is_in_force_before_the_answer_and_told_once() {
    let node = Node::start();
    let (id, key) = issue(
        &node,
        &json!({ "tenant": "acme", "user": "ann@example.com", "plan": "pro", "name": "Ann's" }),
    );
    assert!(node.lets_in(&key));
    let read = node.get(&format!("/v1/keys/{id}"));
    let told = read.expect(200);
    assert_eq!(told["user"], "ann@example.com");
    assert_eq!(told["plan"], "pro");
    assert_eq!(told["state"], "active");
    assert_eq!(told["display_prefix"], key[..12]);
    let everything = [
        read.text,
        node.get("/v1/keys").text,
        node.get("/v1/audit").text,
        node.get("/v1/config").text,
    ];
    assert!(everything.iter().all(|text| !text.contains(&key[12..])), "{everything:?}");
}

#[test]
fn keys_survive_a_restart() {
    let node = Node::start();
    let (id, key) = issue(&node, &json!({ "tenant": "acme" }));
    let node = Node::in_folder(FILE, node.stop());
    assert!(node.lets_in(&key));
    node.get(&format!("/v1/keys/{id}")).expect(200);
}

#[test]
fn a_revoked_key_is_out_before_the_answer() {
    let node = Node::start();
    let (id, key) = issue(&node, &json!({ "tenant": "acme" }));
    assert_eq!(node.delete(&format!("/v1/keys/{id}")).status, 204);
    assert!(!node.lets_in(&key));
    assert_eq!(node.get(&format!("/v1/keys/{id}")).expect(200)["state"], "revoked");
    assert_eq!(node.delete(&format!("/v1/keys/{id}")).status, 204);
    node.delete("/v1/keys/key_unknown").expect(404);
}

#[test]
fn after_a_rotation_both_keys_work_until_the_grace_ends() {
    let node = Node::start();
    let (id, old) = issue(&node, &json!({ "tenant": "acme", "user": "ci", "plan": "pro" }));
    let rotate = format!("/v1/keys/{id}/rotate");
    node.post(&rotate, &json!({})).expect(422);
    let told = node.post(&rotate, &json!({ "grace_seconds": 60 })).expect(201);
    let new = told["key"].as_str().unwrap();
    assert_eq!(told["origin"], id.as_str());
    assert_eq!((&told["user"], &told["plan"]), (&json!("ci"), &json!("pro")));
    assert!(node.lets_in(&old) && node.lets_in(new));
    assert_eq!(node.get(&format!("/v1/keys/{id}")).expect(200)["state"], "replaced");
    let again = node.post(&rotate, &json!({ "grace_seconds": 60 })).expect(409);
    assert!(again["detail"].as_str().unwrap().contains(told["id"].as_str().unwrap()));
    node.plane.clock.advance(Duration::from_secs(60));
    assert!(!node.lets_in(&old) && node.lets_in(new));
    assert_eq!(node.get(&format!("/v1/keys/{id}")).expect(200)["state"], "expired");
}

#[test]
fn a_key_ends_when_it_expires() {
    let node = Node::start();
    // NOW is 2027-01-15T08:00:00Z.
    let (id, key) =
        issue(&node, &json!({ "tenant": "acme", "expires_at": "2027-01-15T10:00:00+01:00" }));
    assert!(node.lets_in(&key));
    node.plane.clock.advance(Duration::from_secs(3600));
    assert!(!node.lets_in(&key));
    node.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace_seconds": 0 })).expect(409);
    let past = json!({ "tenant": "acme", "expires_at": "2020-01-01T00:00:00Z" });
    node.post("/v1/keys", &past).expect(422);
}

#[test]
fn what_is_wrong_with_a_keys_own_limit_is_said_of_that_limit() {
    let node = Node::start();
    let limit = json!({ "sustained": { "rate": 5 }, "cost": 9 });
    let told = node.post("/v1/keys", &json!({ "tenant": "acme", "rate_limit": limit })).expect(422);
    let fault = &told["faults"][0];
    let said = "a cost of 9 can never pass: the key's own `rate_limit` has a capacity of 5";
    assert_eq!((&told["detail"], &fault["message"]), (&json!(said), &json!(said)));
    assert_eq!(fault["help"], "lower the cost, or raise the capacity");
    assert!(!told.to_string().contains("plan"), "{told}");
}

#[test]
fn a_change_of_plan_keeps_the_rest() {
    let node = Node::start();
    let (id, key) = issue(&node, &json!({ "tenant": "acme", "plan": "free", "name": "ci" }));
    let path = format!("/v1/keys/{id}");
    let told = node.send(&Ask::new("PATCH", &path).json(&json!({ "plan": "pro" }))).expect(200);
    assert_eq!((&told["plan"], &told["name"]), (&json!("pro"), &json!("ci")));
    let sha256 = tollgate_policy::ApiKey::read(key.as_bytes()).unwrap().sha256();
    let found = node.keys.find(&sha256, crate::NOW).unwrap();
    assert_eq!(found.plan().unwrap().as_str(), "pro");
    let told = node.put(&path, "*", &json!({ "plan": "free" })).expect(200);
    assert_eq!((&told["plan"], &told["name"]), (&json!("free"), &Value::Null));
    let unknown = node.send(&Ask::new("PATCH", &path).json(&json!({ "plan": "gold" })));
    assert!(unknown.expect(422)["detail"].as_str().unwrap().contains("gold"));
}

#[test]
fn a_replaced_key_is_the_one_that_was_read() {
    let node = Node::start();
    let issued = node.post("/v1/keys", &json!({ "tenant": "acme", "plan": "free" }));
    let path = format!("/v1/keys/{}", issued.expect(201)["id"].as_str().unwrap());
    let first = node.get(&path).header("etag").unwrap().to_owned();
    assert_eq!(issued.header("etag"), Some(first.as_str()));
    node.send(&Ask::new("PUT", &path).json(&json!({ "plan": "pro" }))).expect(428);
    let replaced = node.put(&path, &first, &json!({ "plan": "pro" }));
    assert_eq!(replaced.expect(200)["plan"], "pro");
    let second = replaced.header("etag").unwrap().to_owned();
    assert_eq!(node.get(&path).header("etag"), Some(second.as_str()));
    // Somebody who saw the key before that would take the plan away again.
    let late = node.put(&path, &first, &json!({ "name": "ci" })).expect(412);
    assert_eq!(late["etag"], second.as_str());
    let patch = |tag: &str| Ask::new("PATCH", &path).header("if-match", tag);
    node.send(&patch(&first).json(&json!({ "name": "ci" }))).expect(412);
    let delete = |tag: &str| Ask::new("DELETE", &path).header("if-match", tag);
    node.send(&delete(&first)).expect(412);
    assert_eq!(node.get(&path).expect(200)["plan"], "pro");
    let list = format!("{first}, {second}");
    node.put(&path, &list, &json!({ "plan": "free" })).expect(200);
    assert_eq!(node.send(&delete("*")).status, 204);
}

#[test]
fn a_null_takes_away_what_a_key_had() {
    let node = Node::start();
    let limit = json!({ "sustained": { "rate": 5 } });
    let all = json!({
        "tenant": "acme", "plan": "pro", "name": "ci", "expires_at": "2028-01-01T00:00:00Z", "rate_limit": limit,
    });
    let (id, _) = issue(&node, &all);
    let path = format!("/v1/keys/{id}");
    for field in ["plan", "name", "expires_at", "rate_limit"] {
        assert!(node.get(&path).expect(200).get(field).is_some(), "{field}");
        let told = node.send(&Ask::new("PATCH", &path).json(&json!({ field: null }))).expect(200);
        assert_eq!(told.get(field), None);
        assert_eq!(node.get(&path).expect(200).get(field), None);
    }
}

#[test]
fn a_bad_key_is_told_every_fault_and_where() {
    let node = Node::start();
    let body = "{\n \"tenant\": \"a b\",\n \"rate_limit\": { \"sustaned\": { \"rate\": 1 } }\n}";
    let ask = Ask::new("POST", "/v1/keys").header("content-type", "application/json").body(body);
    let told = node.send(&ask).expect(422);
    let faults = told["faults"].as_array().unwrap();
    assert!(faults.len() >= 3, "{faults:?}");
    assert_eq!((&faults[0]["file"], &faults[0]["line"]), (&json!("body"), &json!(2)));
    assert!(told.to_string().contains("did you mean `sustained`"));
    node.post("/v1/keys", &json!({ "tenant": "nobody" })).expect(422);
    node.post("/v1/keys", &json!({ "tenant": "acme", "plan": "gold" })).expect(422);
    // Right in shape, and wrong all the same: a window has no burst of its own.
    let limit = json!({ "algorithm": "fixed_window", "sustained": { "rate": 5 }, "burst": { "capacity": 9 } });
    node.post("/v1/keys", &json!({ "tenant": "acme", "rate_limit": limit })).expect(422);
    assert!(node.keys.is_empty());
    issue(&node, &json!({ "tenant": "acme", "rate_limit": { "sustained": { "rate": 5 } } }));
}

#[test]
fn a_repeated_issue_is_done_once_and_tells_no_secret() {
    let node = Node::start();
    let ask =
        |body: &Value| Ask::new("POST", "/v1/keys").header("idempotency-key", "once").json(body);
    let first = node.send(&ask(&json!({ "tenant": "acme" })));
    let told = first.expect(201);
    let again = node.send(&ask(&json!({ "tenant": "acme" })));
    let replayed = again.expect(201);
    assert_eq!(replayed["id"], told["id"]);
    assert_eq!(replayed.get("key"), None);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(node.keys.len(), 1);
    node.send(&ask(&json!({ "tenant": "part" }))).expect(422);
    assert_eq!(node.keys.len(), 1);
}

#[test]
fn a_list_has_every_key_once_page_by_page() {
    let node = Node::start();
    let mut ids: Vec<String> = Vec::new();
    for at in 0..7 {
        let tenant = if at % 2 == 0 { "acme" } else { "part" };
        ids.push(issue(&node, &json!({ "tenant": tenant })).0);
    }
    let pages = |filter: &str| {
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = node.get(&format!("/v1/keys?limit=2{filter}{next}")).expect(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            seen.extend(items.iter().map(|key| key["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(cursor) => next = format!("&cursor={cursor}"),
                None => return seen,
            }
        }
    };
    assert_eq!(pages(""), ids);
    let of_acme: Vec<_> = ids.iter().step_by(2).cloned().collect();
    assert_eq!(pages("&tenant=acme"), of_acme);
    assert!(pages("&tenant=no%20name").is_empty());
    node.get("/v1/keys?cursor=nonsense").expect(400);
    node.get("/v1/keys?limit=0").expect(400);
    node.get("/v1/keys?colour=red").expect(400);
}

#[test]
fn every_change_is_in_the_audit_with_who_and_what() {
    let node = Node::start();
    let (id, key) = issue(&node, &json!({ "tenant": "acme", "plan": "free" }));
    node.send(&Ask::new("PATCH", &format!("/v1/keys/{id}")).json(&json!({ "plan": "pro" })));
    node.delete(&format!("/v1/keys/{id}"));
    let audit = node.get("/v1/audit");
    let told = audit.expect(200);
    let rows = told["items"].as_array().unwrap();
    let actions: Vec<_> = rows.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["key.revoke", "key.change", "key.issue"]);
    assert!(
        rows.iter()
            .all(|row| row["subject"] == format!("key {id}") && row["actor"] == "admin@127.0.0.1")
    );
    assert_eq!(
        (&rows[1]["before"]["plan"], &rows[1]["after"]["plan"]),
        (&json!("free"), &json!("pro"))
    );
    assert!(!audit.text.contains(&key[12..]) && !audit.text.contains("sha256"));
}

#[test]
fn keys_of_the_file_are_listed_first_and_read_only() {
    let digits = |digit: &str| digit.repeat(64);
    let keys = format!(
        "{FILE}keys:\n  - {{ id: ops, tenant: acme, user: ops, sha256: {} }}\n  - {{ tenant: part, sha256: {} }}\n",
        digits("a"),
        digits("b")
    );
    let node = Node::of(&keys);
    let (id, _) = issue(&node, &json!({ "tenant": "acme" }));
    for limit in 1..=4 {
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = node.get(&format!("/v1/keys?limit={limit}{next}")).expect(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            seen.extend(items.iter().map(|key| key["id"].as_str().unwrap().to_owned()));
            let Some(cursor) = page["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        assert_eq!(seen, ["ops", "file-bbbbbbbbbbbb", &id], "{limit} a page");
    }
    let of_part = node.get("/v1/keys?tenant=part").expect(200);
    assert_eq!(of_part["items"].as_array().unwrap().len(), 1);
    let told = node.get("/v1/keys/ops").expect(200);
    assert_eq!((&told["declared_in"], &told["user"]), (&json!("file"), &json!("ops")));
    assert!(!node.get("/v1/keys").text.contains(&digits("a")));
    node.delete("/v1/keys/ops").expect(409);
    node.post("/v1/keys/ops/rotate", &json!({ "grace_seconds": 0 })).expect(409);
    node.send(&Ask::new("PATCH", "/v1/keys/ops").json(&json!({ "plan": "pro" }))).expect(409);
}

#[test]
fn used_quota_carries_over_to_another_plan_of_its_time_zone() {
    let file = "\
plans:
  free: { quota: { limit: 10, window: month } }
  pro: { quota: { limit: 1000, window: month } }
  tokyo: { quota: { limit: 1000, window: month, time_zone: Asia/Tokyo } }
tenants: [ { id: acme } ]
";
    let node = Node::of(file);
    let (id, _) = issue(&node, &json!({ "tenant": "acme", "user": "ann", "plan": "free" }));
    let quota = || {
        let told = node.get("/v1/limits?tenant=acme&user=ann").expect(200);
        let quota = told["items"].as_array().unwrap().last().unwrap().clone();
        (quota["source"].as_str().unwrap().to_owned(), quota["tokens"].as_u64().unwrap())
    };
    let in_force = node.in_force();
    let policy = in_force.policy();
    let acme = policy.tenants().number("acme").unwrap();
    let holder = tollgate_policy::Holder::User("ann");
    let caller = node.plane.gate.caller(&in_force, acme, holder, [203, 0, 113, 7].into());
    let caller = caller.with_plan(policy.plan("free"));
    for _ in 0..4 {
        let work = tollgate_policy::compile::Work::default();
        assert!(node.plane.gate.decide(&in_force, &caller, work).is_admitted());
    }
    assert_eq!(quota(), ("plan:free".to_owned(), 6));
    // In another zone days begin at other moments, so that is another balance; the first one stays as it is.
    for (plan, left) in [("pro", 996), ("tokyo", 1000), ("pro", 996)] {
        let change = Ask::new("PATCH", &format!("/v1/keys/{id}")).json(&json!({ "plan": plan }));
        node.send(&change).expect(200);
        assert_eq!(quota(), (format!("plan:{plan}"), left));
    }
}
