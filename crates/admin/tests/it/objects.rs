//! Tenants and plans: checked as the file's, stored, in force at once.

use serde_json::json;

use crate::node::FILE;
use crate::{Ask, Node};

#[test]
fn a_tenant_is_in_chains_at_once_and_after_a_restart() {
    let node = Node::start();
    let body = json!({ "id": "child", "parent": "part", "plan": "pro", "rate_limit": { "sustained": { "rate": 20 } } });
    let made = node.post("/v1/tenants", &body);
    let told = made.expect(201);
    assert_eq!(told["declared_in"], "api");
    assert_eq!(told.get("warnings"), None);
    assert_eq!(made.header("location"), Some("/v1/tenants/child"));
    let sources = |node: &Node| {
        let limits = node.get("/v1/limits?tenant=child&user=ann").expect(200);
        let items = limits["items"].as_array().unwrap();
        items.iter().map(|one| one["source"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = ["plan:pro", "tenant:child", "pool:part"];
    assert_eq!(sources(&node), expected);
    node.post("/v1/keys", &json!({ "tenant": "child" })).expect(201);
    let node = Node::in_folder(FILE, node.stop());
    assert_eq!(sources(&node), expected);
}

#[test]
fn a_list_has_the_files_and_the_apis_in_pages() {
    let node = Node::start();
    node.post("/v1/tenants", &json!({ "id": "made" })).expect(201);
    let list = node.get("/v1/tenants").expect(200);
    let told: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["declared_in"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("acme", "file"), ("made", "api"), ("part", "file")]);
    let first = node.get("/v1/plans?limit=1").expect(200);
    assert_eq!(first["items"][0]["name"], "free");
    let second = node
        .get(&format!("/v1/plans?limit=1&cursor={}", first["next"].as_str().unwrap()))
        .expect(200);
    assert_eq!(second["items"][0]["name"], "pro");
    assert_eq!(second.get("next"), None);
}

#[test]
fn what_the_file_declares_is_read_only_here() {
    let node = Node::start();
    assert_eq!(node.get("/v1/tenants/acme").expect(200)["declared_in"], "file");
    for answer in [
        node.post("/v1/tenants", &json!({ "id": "acme" })),
        node.put("/v1/tenants/acme", "*", &json!({ "id": "acme" })),
        node.delete("/v1/tenants/acme"),
        node.post("/v1/plans", &json!({ "name": "free" })),
        node.put("/v1/plans/free", "*", &json!({ "name": "free" })),
        node.delete("/v1/plans/free"),
    ] {
        let told = answer.expect(409);
        assert_eq!(told["type"], "urn:tollgate:declared-in-file");
        assert!(told["detail"].as_str().unwrap().contains("PUT /v1/config"));
    }
}

#[test]
fn a_budget_is_kept_and_the_refusal_has_its_figures() {
    let node = Node::start();
    let child = |id: &str, rate: u64| json!({ "id": id, "parent": "part", "rate_limit": { "sustained": { "rate": rate } } });
    node.post("/v1/tenants", &child("one", 80)).expect(201);
    let over = node.post("/v1/tenants", &child("two", 60)).expect(201);
    let warnings = over["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0]["message"].as_str().unwrap().contains("contend"));
    let refused = node.post("/v1/tenants", &child("three", 11)).expect(409);
    assert_eq!(refused["type"], "urn:tollgate:budget-exceeded");
    let figures = &refused["budgets"][0];
    assert_eq!(figures["parent"], "part");
    assert_eq!(figures["child"], "three");
    assert_eq!((&figures["total"], &figures["overcommit_ratio"]), (&json!(100), &json!(1.5)));
    assert_eq!((&figures["allocated"], &figures["asked"]), (&json!(140.0), &json!(11.0)));
    assert_eq!(figures["available"], json!(10.0));
    node.get("/v1/tenants/three").expect(404);
    assert!(node.in_force().policy().tenants().number("three").is_none());
    // The same holds for a later change of a child.
    let told = node.put("/v1/tenants/one", "*", &child("one", 91)).expect(409);
    let figures = &told["budgets"][0];
    // It is about whoever asks for more, and not about another for whom too little would be left.
    assert_eq!(figures["child"], "one");
    assert_eq!((&figures["asked"], &figures["available"]), (&json!(91.0), &json!(90.0)));
    assert_eq!(told["budgets"].as_array().unwrap().len(), 1, "{told}");
    node.put("/v1/tenants/one", "*", &child("one", 90)).expect(200);
    node.post("/v1/tenants", &child("three", 1)).expect(409);
}

#[test]
fn a_replacement_must_say_what_it_replaces() {
    let node = Node::start();
    let body =
        |rate: u64| json!({ "name": "gold", "rate_limit": { "sustained": { "rate": rate } } });
    let made = node.post("/v1/plans", &body(1));
    made.expect(201);
    let first = made.header("etag").unwrap().to_owned();
    assert_eq!(node.get("/v1/plans/gold").header("etag"), Some(first.as_str()));
    node.send(&Ask::new("PUT", "/v1/plans/gold").json(&body(2))).expect(428);
    let made_at = made.expect(201)["updated_at"].clone();
    assert!(made_at.is_string(), "{made_at}");
    assert_eq!(node.get("/v1/plans/gold").expect(200)["updated_at"], made_at);
    let replaced = node.put("/v1/plans/gold", &first, &body(2));
    // What is told is what is stored.
    let stored = node.get("/v1/plans/gold").expect(200);
    assert_eq!(replaced.expect(200)["updated_at"], stored["updated_at"]);
    let second = replaced.header("etag").unwrap().to_owned();
    assert_ne!(first, second);
    let stale = node.put("/v1/plans/gold", &first, &body(3)).expect(412);
    assert_eq!(stale["etag"], second.as_str());
    node.put("/v1/plans/gold", "\"nonsense\"", &body(3)).expect(412);
    node.put("/v1/plans/gold", &format!("W/{second}"), &body(3)).expect(412);
    let list = node.put("/v1/plans/gold", &format!("{first}, {second}"), &body(2));
    list.expect(200);
    let second = list.header("etag").unwrap().to_owned();
    assert_eq!(node.get("/v1/plans/gold").expect(200)["rate_limit"]["sustained"]["rate"], 2);
    node.put("/v1/plans/gold", "*", &json!({ "name": "other" })).expect(422);
    node.put("/v1/plans/none", "*", &json!({ "name": "none" })).expect(404);
    let stale = Ask::new("DELETE", "/v1/plans/gold").header("if-match", &first);
    node.send(&stale).expect(412);
    let right = Ask::new("DELETE", "/v1/plans/gold").header("if-match", &second);
    assert_eq!(node.send(&right).status, 204);
    node.get("/v1/plans/gold").expect(404);
}

#[test]
fn what_is_in_use_stays() {
    let node = Node::start();
    node.post("/v1/plans", &json!({ "name": "gold" })).expect(201);
    node.post("/v1/tenants", &json!({ "id": "top", "plan": "gold" })).expect(201);
    node.post("/v1/tenants", &json!({ "id": "below", "parent": "top" })).expect(201);
    let told = node.delete("/v1/plans/gold").expect(409);
    assert_eq!(told["dependents"], json!(["tenant top"]));
    assert_eq!(node.delete("/v1/tenants/top").expect(409)["dependents"], json!(["tenant below"]));
    let key = node.post("/v1/keys", &json!({ "tenant": "below", "plan": "gold" })).expect(201);
    assert_eq!(node.delete("/v1/tenants/below").expect(409)["keys"], 1);
    assert!(node.in_force().policy().tenants().number("below").is_some());
    assert_eq!(node.delete(&format!("/v1/keys/{}", key["id"].as_str().unwrap())).status, 204);
    assert_eq!(node.delete("/v1/tenants/below").status, 204);
    assert_eq!(node.delete("/v1/tenants/top").status, 204);
    assert_eq!(node.delete("/v1/plans/gold").status, 204);
    assert!(node.in_force().policy().plan("gold").is_none());
}

#[test]
fn a_key_that_has_expired_keeps_no_tenant() {
    let node = Node::start();
    node.post("/v1/tenants", &json!({ "id": "made" })).expect(201);
    // NOW is 2027-01-15T08:00:00Z.
    let key = json!({ "tenant": "made", "expires_at": "2027-01-15T09:00:00Z" });
    let key = node.post("/v1/keys", &key).expect(201);
    assert_eq!(node.delete("/v1/tenants/made").expect(409)["keys"], 1);
    node.plane.clock.advance(std::time::Duration::from_secs(3600));
    assert_eq!(node.delete("/v1/tenants/made").status, 204);
    // It would be nobody's.
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    node.send(&Ask::new("PATCH", &path).json(&json!({ "expires_at": null }))).expect(422);
    node.send(&Ask::new("PATCH", &path).json(&json!({ "name": "old" }))).expect(200);
}

#[test]
fn a_bad_tenant_changes_nothing_and_is_told_every_fault() {
    let node = Node::start();
    let body = json!({ "id": "x y", "plan": 7, "rate_limit": { "sustained": { "rate": 0 } } });
    let told = node.post("/v1/tenants", &body).expect(422);
    assert_eq!(told["faults"].as_array().unwrap().len(), 3, "{told}");
    node.post("/v1/tenants", &json!({ "id": "fine", "plan": "gold" })).expect(422);
    let told = node.post("/v1/tenants", &json!({ "id": "fine", "parent": "nobody" })).expect(422);
    // It stands in no file, so no line is named.
    assert_eq!(told["faults"][0].get("line"), None);
    node.get("/v1/tenants/fine").expect(404);
    node.post("/v1/tenants", &json!({ "id": "fine" })).expect(201);
    node.post("/v1/tenants", &json!({ "id": "fine" })).expect(409);
}

#[test]
fn a_repeated_creation_is_answered_again_also_after_a_restart() {
    let mut node = Node::start();
    let child = |id: &str, rate: u64| json!({ "id": id, "parent": "part", "rate_limit": { "sustained": { "rate": rate } } });
    node.post("/v1/tenants", &child("one", 80)).expect(201);
    // More than there is, which is warned of.
    let asks = [
        ("/v1/tenants", child("two", 60)),
        ("/v1/plans", json!({ "name": "gold" })),
        ("/v1/keys", json!({ "tenant": "acme" })),
    ];
    for (path, body) in asks {
        let ask = Ask::new("POST", path).header("idempotency-key", path).json(&body);
        let first = node.send(&ask);
        let mut told = first.expect(201);
        assert_eq!(path == "/v1/tenants", told.get("warnings").is_some(), "{told}");
        told.as_object_mut().unwrap().remove("key");
        for _ in 0..2 {
            let again = node.send(&ask);
            assert_eq!(again.expect(201), told);
            assert_eq!(again.header("idempotency-replayed"), Some("true"));
            for header in ["location", "etag"] {
                assert!(again.header(header).is_some(), "{path}: {header}");
                assert_eq!(again.header(header), first.header(header), "{path}");
            }
            node = Node::in_folder(FILE, node.stop());
        }
    }
}

/// A file with something to look at, which nothing that the API is asked for has to do with.
const WARNED: &str = "
upstreams: { api: { url: \"http://127.0.0.1:3000\" } }
routes: [ { path: \"/*\", upstream: api } ]
plans: { free: { operations: { chat: { sustained: { rate: 5 } } } } }
tenants: [ { id: part, rate_limit: { sustained: { rate: 100 }, budget: { mode: allocated } } } ]
";

/// Broken before: the file's warning was told as one of two things that are wrong with the body.
#[test]
fn a_refused_change_is_not_told_what_deserves_a_look_in_the_file() {
    let node = Node::of(WARNED);
    assert_eq!(node.in_force().policy().warnings().len(), 1);
    let limit = json!({ "sustained": { "rate": 5 }, "cost": 6 });
    for (path, body, message) in [
        ("/v1/tenants", json!({ "id": "t", "plan": "nope" }), "there is no plan `nope`"),
        ("/v1/tenants", json!({ "id": "t", "rate_limit": limit }), "a cost of 6 can never pass"),
        ("/v1/plans", json!({ "name": "p", "rate_limit": limit }), "a cost of 6 can never pass"),
        (
            "/v1/keys",
            json!({ "tenant": "part", "rate_limit": limit }),
            "a cost of 6 can never pass",
        ),
    ] {
        let told = node.post(path, &body).expect(422);
        let faults = told["faults"].as_array().unwrap();
        assert_eq!(faults.len(), 1, "{told}");
        assert_eq!(faults[0]["severity"], "error");
        assert!(faults[0]["message"].as_str().unwrap().contains(message), "{told}");
        assert_eq!(told["detail"], faults[0]["message"]);
    }
    let child =
        json!({ "id": "t", "parent": "part", "rate_limit": { "sustained": { "rate": 101 } } });
    let told = node.post("/v1/tenants", &child).expect(409);
    assert_eq!(told["faults"].as_array().unwrap().len(), 1, "{told}");
}

/// Broken before: the help was for somebody who writes a file.
#[test]
fn what_is_wrong_with_a_body_is_told_to_whoever_writes_a_body() {
    let node = Node::start();
    let help = |path: &str, body: &str| {
        let ask = Ask::new("POST", path).header("content-type", "application/json").body(body);
        node.send(&ask).expect(422)["faults"][0]["help"].as_str().unwrap().to_owned()
    };
    for (path, needed) in [
        ("/v1/keys", "with `tenant`;"),
        ("/v1/tenants", "with `id`;"),
        ("/v1/plans", "with `name`;"),
        ("/v1/keys/key_0/rotate", "with `grace_seconds`;"),
    ] {
        for nothing in ["", "null"] {
            let help = help(path, nothing);
            assert!(help.contains(needed), "{path} {nothing}: {help}");
        }
    }
    let unsaid = help("/v1/keys", r#"{ "tenant": "acme", "plan": null }"#);
    assert_eq!(unsaid, "write a value, or leave the field out");
    assert_eq!(help("/v1/tenants", r#"{ "id": "t", "parent": "nope" }"#), "create `nope` first");
    assert_eq!(help("/v1/tenants", r#"{ "id": "t", "plan": "nope" }"#), "create `nope` first");
}

/// Broken before: the words were a library's, and did not say what would be right.
#[test]
fn a_query_that_is_not_understood_is_told_which_parameter_is_wrong() {
    let node = Node::start();
    let detail = |path: &str| {
        let told = node.get(path).expect(400);
        told["detail"].as_str().unwrap().to_owned()
    };
    for path in ["/v1/keys", "/v1/tenants", "/v1/plans", "/v1/audit", "/v1/usage"] {
        for limit in ["abc", "", "-1", "1.5", "0"] {
            let told = detail(&format!("{path}?limit={limit}"));
            assert!(told.starts_with("`limit` is a whole number from 1 to "), "{path}: {told}");
        }
    }
    assert_eq!(
        detail("/v1/audit?lmit=5"),
        "There is no parameter `lmit`: there is `cursor` or `limit`."
    );
    assert_eq!(detail("/v1/audit?limit=5&limit=6"), "The parameter `limit` is written twice.");
}
