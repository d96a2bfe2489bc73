//! The configuration, read and replaced.

use serde_json::json;

use crate::node::FILE;
use crate::{Ask, Node};

fn put(node: &Node, if_match: &str, text: &str) -> crate::Answer {
    let ask = Ask::new("PUT", "/v1/config").header("content-type", "application/yaml");
    node.send(&ask.header("if-match", if_match).body(text))
}

#[test]
fn a_configuration_is_replaced_whole_in_its_file_and_in_force() {
    let node = Node::start();
    let read = node.get("/v1/config");
    assert_eq!((read.status, read.text.as_str()), (200, FILE));
    assert_eq!(read.header("content-type"), Some("application/yaml"));
    let etag = read.header("etag").unwrap();
    let text = FILE.replace("id: acme", "id: ajax");
    let answer = put(&node, etag, &text);
    assert_eq!(answer.expect(200), json!({ "warnings": [] }));
    assert_eq!(node.get("/v1/config").header("etag"), answer.header("etag"));
    assert_eq!(std::fs::read_to_string(&node.plane.file).unwrap(), text);
    assert!(node.in_force().policy().tenants().number("ajax").is_some());
    node.get("/v1/tenants/acme").expect(404);
    node.get("/v1/tenants/ajax").expect(200);
    put(&node, etag, FILE).expect(412);
    let without = Ask::new("PUT", "/v1/config").header("content-type", "application/yaml");
    node.send(&without.body(FILE)).expect(428);
    put(&node, "*", FILE).expect(200);
    let audit = node.get("/v1/audit").expect(200);
    assert_eq!(audit["items"][0]["action"], "config.replace");
}

#[test]
fn a_bad_configuration_changes_nothing_and_says_where() {
    let node = Node::start();
    let told = put(&node, "*", "plans: { free: { rate_limit: { sustaned: 1 } } }\ntenants: 7\n")
        .expect(422);
    let faults = told["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 3, "{faults:?}");
    let first = (&faults[0]["file"], &faults[0]["line"]);
    assert_eq!(first, (&json!("tollgate.yaml"), &json!(1)));
    assert_eq!(std::fs::read_to_string(&node.plane.file).unwrap(), FILE);
    assert_eq!(node.get("/v1/config").text, FILE);
    let fixed = format!("server: {{ listen: 127.0.0.1:1 }}\n{FILE}");
    assert_eq!(put(&node, "*", &fixed).expect(409)["fields"], json!(["server.listen"]));
}

#[test]
fn a_configuration_is_checked_with_what_the_api_made() {
    let node = Node::start();
    let child =
        json!({ "id": "child", "parent": "part", "rate_limit": { "sustained": { "rate": 100 } } });
    node.post("/v1/tenants", &child).expect(201);
    put(&node, "*", &FILE.replace("id: part", "id: trap")).expect(422);
    let told = put(&node, "*", &FILE.replace("total: 100", "total: 10")).expect(409);
    assert_eq!(told["budgets"][0]["child"], "child");
    assert!(put(&node, "*", &format!("{FILE}  - {{ id: child }}\n")).status == 422);
    assert!(node.in_force().policy().tenants().number("child").is_some());
}

#[test]
fn a_reload_reads_the_file_again_and_keeps_what_the_api_made() {
    let node = Node::start();
    node.post("/v1/tenants", &json!({ "id": "made" })).expect(201);
    std::fs::write(&node.plane.file, format!("{FILE}  - {{ id: ajax }}\n")).unwrap();
    node.send(&Ask::new("POST", "/v1/config/reload")).expect(200);
    let in_force = node.in_force();
    let has = |id: &str| in_force.policy().tenants().number(id).is_some();
    assert!(has("ajax") && has("made"));
    std::fs::write(&node.plane.file, "tenants: 7\n").unwrap();
    node.send(&Ask::new("POST", "/v1/config/reload")).expect(422);
    assert!(node.in_force().policy().tenants().number("ajax").is_some());
}

#[test]
fn a_repeated_reload_is_done_once() {
    let node = Node::start();
    let ask = Ask::new("POST", "/v1/config/reload").header("idempotency-key", "r-1");
    let first = node.send(&ask).expect(200);
    std::fs::write(&node.plane.file, format!("{FILE}  - {{ id: ajax }}\n")).unwrap();
    let again = node.send(&ask);
    assert_eq!(again.expect(200), first);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert!(node.in_force().policy().tenants().number("ajax").is_none());
}

#[test]
fn a_configuration_does_not_strand_keys() {
    let node = Node::start();
    let of_plan = node.post("/v1/keys", &json!({ "tenant": "part", "plan": "pro" })).expect(201);
    let of_tenant = node.post("/v1/keys", &json!({ "tenant": "acme" })).expect(201);
    let without_plan = FILE.replace("  pro:", "  gold:");
    let told = put(&node, "*", &without_plan).expect(409);
    assert!(told["detail"].as_str().unwrap().starts_with("plan pro"), "{told}");
    let without_tenant = FILE.replace("id: acme", "id: ajax");
    assert_eq!(put(&node, "*", &without_tenant).expect(409)["keys"], 1);
    assert_eq!(node.get("/v1/config").text, FILE);
    for key in [of_plan, of_tenant] {
        assert_eq!(node.delete(&format!("/v1/keys/{}", key["id"].as_str().unwrap())).status, 204);
    }
    put(&node, "*", &without_plan).expect(200);
    put(&node, "*", &without_tenant).expect(200);
}

/// Broken before: a warning counted as a thing that is wrong, and stood before what is.
#[test]
fn a_refused_configuration_has_its_errors_first_and_counts_no_warnings() {
    let node = Node::start();
    let text = "plans: { free: { operations: { chat: { sustained: { rate: 5 } } } } }
upstreams: { api: { url: \"http://127.0.0.1:3000\" } }
routes: [ { path: \"/*\", upstream: api } ]
tenants: [ { id: acme, plan: nope } ]
";
    let told = put(&node, "*", text).expect(422);
    let severities: Vec<_> =
        told["faults"].as_array().unwrap().iter().map(|one| &one["severity"]).collect();
    assert_eq!(severities, ["error", "warning"], "{told}");
    assert_eq!(told["detail"], "there is no plan `nope`");
}

/// Broken before: whatever was wrong beyond the shape was told when the shape was mended.
#[test]
fn a_configuration_of_a_wrong_shape_has_its_other_faults_told() {
    let node = Node::start();
    let text = format!("{FILE}  - {{ id: acme }}\nzzz: 1\n");
    let told = put(&node, "*", &text).expect(422);
    let faults = told["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 2, "{told}");
    assert!(faults[0]["message"].as_str().unwrap().contains("declared twice"), "{told}");
}
