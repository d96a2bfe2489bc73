//! Live counters, and why a request was refused.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_admin::{Moment, RefusalReason, RefusedRequest};
use tollgate_gate::Holder;
use tollgate_policy::compile::Work;
use tollgate_storage::{Change, KeyDraft, KeyTerms};

use crate::node::FILE;
use crate::{Ask, NOW, Node};

/// Sends so many requests of a user through the gate, and answers how many passed.
fn spend(node: &Node, user: &str, requests: usize) -> usize {
    let in_force = node.in_force();
    let policy = in_force.policy();
    let acme = policy.tenants().number("acme").unwrap();
    let address: IpAddr = "203.0.113.7".parse().unwrap();
    let caller = node.plane.gate.caller(&in_force, acme, Holder::User(user), address);
    let work = Work::on(policy.route("x", "POST", "/v1/chat").unwrap());
    (0..requests).filter(|_| node.plane.gate.decide(&in_force, &caller, work).is_admitted()).count()
}

fn limits(node: &Node, query: &str) -> Vec<Value> {
    node.get(&format!("/v1/limits?{query}")).expect(200)["items"].as_array().unwrap().clone()
}

#[test]
fn counters_are_told_with_what_is_left_and_where_they_are_from() {
    let node = Node::start();
    assert_eq!(spend(&node, "ann", 4), 4);
    let told = limits(&node, "tenant=acme&user=ann&route=POST%20/v1/chat");
    let of_plan = &told[0];
    assert_eq!(of_plan["source"], "plan:free");
    assert_eq!(of_plan["policy"], "user-second");
    assert_eq!((&of_plan["capacity"], &of_plan["tokens"]), (&json!(100), &json!(80)));
    assert_eq!((&of_plan["rate"], &of_plan["window"]), (&json!(10), &json!("second")));
    assert_eq!(of_plan["file"], "tollgate.yaml:6");
    assert_eq!(of_plan["counter"], "tollgate:ratelimit:user:plan:free/acme/ann:second");
    assert_eq!(of_plan["last_refill"], "2027-01-15T08:00:00Z");
    assert_eq!(of_plan["reset_at"], "2027-01-15T08:00:02Z");
    assert_eq!((&told[1]["source"], &told[1]["tokens"]), (&json!("tenant:acme"), &json!(30)));
    // Looking costs nothing, and a counter refills while nobody looks.
    node.plane.clock.advance(Duration::from_secs(1));
    assert_eq!(limits(&node, "tenant=acme&user=ann")[0]["tokens"], 90);
    assert_eq!(limits(&node, "tenant=acme&user=ann")[0]["tokens"], 90);
    // Without a user only what all share.
    let shared = limits(&node, "tenant=acme");
    assert_eq!(shared.len(), 1);
    assert_eq!(shared[0]["source"], "tenant:acme");
}

#[test]
fn the_plan_of_a_users_only_key_counts() {
    let node = Node::start();
    node.post("/v1/keys", &json!({ "tenant": "acme", "user": "bob", "plan": "pro" })).expect(201);
    let told = node.get("/v1/limits?tenant=acme&user=bob").expect(200);
    assert_eq!(told["whose"]["plan"], "pro");
    assert_eq!(told["items"][0]["source"], "plan:pro");
    let key = node.post("/v1/keys", &json!({ "tenant": "acme", "plan": "pro" })).expect(201);
    let id = key["id"].as_str().unwrap();
    let told = limits(&node, &format!("tenant=acme&key={id}"));
    assert!(told[0]["counter"].as_str().unwrap().contains(&format!("acme:key:{id}")), "{told:?}");
    node.get(&format!("/v1/limits?tenant=part&key={id}")).expect(404);
}

#[test]
fn a_key_is_found_behind_a_thousand_others_of_its_tenant() {
    let node = Node::start();
    let acme = || "acme".parse().unwrap();
    let keys = (0..1001).map(|_| {
        let draft = KeyDraft { tenant: acme(), user: None, terms: KeyTerms::default() };
        Change::IssueKey(Box::new(draft.mint(NOW).unwrap().1))
    });
    node.runtime.block_on(node.store.commit(keys.collect())).unwrap();
    node.post("/v1/keys", &json!({ "tenant": "acme", "user": "bob", "plan": "pro" })).expect(201);
    let told = node.get("/v1/limits?tenant=acme&user=bob").expect(200);
    assert_eq!(told["whose"]["plan"], "pro");
    assert_eq!(told["items"][0]["source"], "plan:pro");
}

#[test]
fn a_key_that_is_nowhere_has_no_counters() {
    let keys = format!("keys: [ {{ id: ops, tenant: acme, sha256: {} }} ]\n", "a".repeat(64));
    let node = Node::of(&format!("{FILE}{keys}"));
    assert!(limits(&node, "tenant=acme&key=ops").len() > 1);
    for key in ["key_nowhere", "no%20name"] {
        let told = node.get(&format!("/v1/limits?tenant=acme&key={key}")).expect(404);
        assert!(told["detail"].as_str().unwrap().contains("tenant acme"), "{told}");
    }
    node.get("/v1/limits?tenant=part&key=ops").expect(404);
    let reset = json!({ "tenant": "acme", "key": "key_nowhere", "counter": "any" });
    node.post("/v1/limits/reset", &reset).expect(404);
}

/// Requests with it are counted as its user, whichever of the two is asked about.
#[test]
fn a_key_of_the_file_that_names_a_user_has_that_users_counters() {
    let key =
        format!("{{ id: ops, tenant: acme, user: ci, plan: pro, sha256: {} }}", "a".repeat(64));
    let node = Node::of(&format!("{FILE}keys: [ {key} ]\n"));
    let asked = |query: &str| limits(&node, query)[0].clone();
    let in_force = node.in_force();
    let acme = in_force.policy().tenants().number("acme").unwrap();
    let home: IpAddr = "203.0.113.7".parse().unwrap();
    let caller = node.plane.gate.caller(&in_force, acme, Holder::User("ci"), home);
    let caller = caller.with_plan(in_force.policy().plan("pro"));
    assert!(node.plane.gate.decide(&in_force, &caller, Work::default()).is_admitted());
    let told = asked("tenant=acme&key=ops");
    assert_eq!((&told["source"], &told["tokens"]), (&json!("plan:pro"), &json!(999)), "{told}");
    assert_eq!(told, asked("tenant=acme&user=ci"));
    let body = json!({ "tenant": "acme", "key": "ops", "counter": told["counter"] });
    assert_eq!(node.post("/v1/limits/reset", &body).status, 204);
    assert_eq!(asked("tenant=acme&user=ci")["tokens"], 1000);
}

#[test]
fn a_reset_makes_one_counter_new_and_no_other() {
    let node = Node::start();
    assert_eq!(spend(&node, "ann", 30), 10);
    let told = limits(&node, "tenant=acme&user=ann");
    assert_eq!((&told[0]["tokens"], &told[1]["tokens"]), (&json!(50), &json!(0)));
    let counter = told[1]["counter"].clone();
    let body = json!({ "tenant": "acme", "user": "ann", "counter": counter });
    assert_eq!(node.post("/v1/limits/reset", &body).status, 204);
    let told = limits(&node, "tenant=acme&user=ann");
    assert_eq!((&told[0]["tokens"], &told[1]["tokens"]), (&json!(50), &json!(50)));
    assert_eq!(spend(&node, "ann", 30), 10);
    let audit = node.get("/v1/audit").expect(200);
    assert_eq!(audit["items"][0]["action"], "limit.reset");
    let wrong = json!({ "tenant": "acme", "user": "ann", "counter": "tollgate:ratelimit:nothing" });
    node.post("/v1/limits/reset", &wrong).expect(404);
    node.post("/v1/limits/reset", &json!({ "tenant": "acme" })).expect(422);
}

#[test]
fn a_repeated_reset_gives_nothing_twice() {
    let node = Node::start();
    let left = || limits(&node, "tenant=acme&user=ann")[1].clone();
    let body = json!({ "tenant": "acme", "user": "ann", "counter": left()["counter"] });
    let ask = Ask::new("POST", "/v1/limits/reset").header("idempotency-key", "r-1").json(&body);
    assert_eq!(spend(&node, "ann", 10), 10);
    assert_eq!(node.send(&ask).status, 204);
    assert_eq!(left()["tokens"], 50);
    assert_eq!(spend(&node, "ann", 10), 10);
    let again = node.send(&ask);
    assert_eq!((again.status, again.header("idempotency-replayed")), (204, Some("true")));
    assert_eq!(left()["tokens"], 0);
    let other = json!({ "tenant": "acme", "counter": left()["counter"] });
    let other = Ask::new("POST", "/v1/limits/reset").header("idempotency-key", "r-1").json(&other);
    node.send(&other).expect(422);
}

#[test]
fn a_question_about_nothing_says_what_would_be_right() {
    let node = Node::start();
    node.get("/v1/limits").expect(400);
    let told = node.get("/v1/limits?tenant=acne").expect(404);
    assert!(told["detail"].as_str().unwrap().contains("did you mean `acme`"), "{told}");
    node.get("/v1/limits?tenant=acme&plan=gold").expect(404);
    node.get("/v1/limits?tenant=acme&route=nonsense").expect(404);
    node.get("/v1/limits?tenant=acme&ip=nonsense").expect(400);
}

#[test]
fn the_last_refusals_are_found_by_their_request_id() {
    let node = Node::start();
    let refused = |id: &str| RefusedRequest {
        request_id: id.to_owned(),
        at: Moment(NOW),
        status: 429,
        reason: RefusalReason::Limit,
        tenant: Some("acme".to_owned()),
        user: None,
        key: None,
        plan: Some("free".to_owned()),
        route: None,
        policy: Some("user-second".to_owned()),
        source: Some("plan:free".to_owned()),
        cost: 5,
    };
    for id in ["one", "two", "three"] {
        node.plane.refusals.remember(refused(id));
    }
    let told = node.get("/v1/refusals/three").expect(200);
    assert_eq!((&told["source"], &told["cost"]), (&json!("plan:free"), &json!(5)));
    node.get("/v1/refusals/two").expect(200);
    node.get("/v1/refusals/one").expect(404);
}
