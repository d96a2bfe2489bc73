//! Live counters, and why a request was refused, from a shell.

use tollgate_admin::{Moment, RefusalReason, RefusedRequest};

use super::Node;

const ANN: [&str; 6] = ["--tenant", "acme", "--user", "ann", "--route", "POST /v1/chat"];

#[test]
fn counters_are_legible() {
    let node = Node::start();
    assert_eq!(node.chat("ann", 4), 4);
    let told = node.run(&[&["limits", "show"], &ANN[..]].concat());
    let rows = told.rows();
    assert_eq!(rows[0][..6], ["user-second", "plan:free", "80", "100", "10/second", "reject"]);
    assert_eq!(
        rows[0][8..],
        ["tollgate.yaml:6", "tollgate:ratelimit:user:plan:free/acme/ann:second"]
    );
    assert_eq!(rows[1][..4], ["tenant-second", "tenant:acme", "30", "50"]);
    let json = node.run(&[&["limits", "show", "--json"], &ANN[..]].concat()).json();
    assert_eq!(json["items"][0]["tokens"], 80);
    let nobody = node.run(&["limits", "show", "--tenant", "nobody"]);
    assert!(nobody.failed(1).contains("there is no tenant `nobody`"), "{nobody:?}");
}

#[test]
fn one_counter_is_made_new_by_any_of_its_names() {
    let node = Node::start();
    let tokens = || {
        let told = node.run(&[&["limits", "show", "--json"], &ANN[..]].concat()).json();
        [0, 1].map(|at| told["items"][at]["tokens"].as_u64().unwrap())
    };
    let reset = |name: &str| node.run(&[&["limits", "reset"], &ANN[..], &[name]].concat());
    assert_eq!(node.chat("ann", 10), 10);
    assert_eq!(tokens(), [50, 0]);
    assert!(reset("user-second").good().contains("is new again"));
    assert_eq!(tokens(), [100, 0]);
    reset("tenant:acme").good();
    assert_eq!(tokens(), [100, 50]);
    assert_eq!(node.chat("ann", 10), 10);
    reset("tollgate:ratelimit:user:plan:free/acme/ann:second").good();
    assert_eq!(tokens(), [100, 0]);
    let unknown = reset("user-month");
    assert!(unknown.failed(1).contains("limits show"), "{unknown:?}");
    let all = node.run(&[&["limits", "reset", "--all"], &ANN[..]].concat());
    assert_eq!(all.good().lines().count(), 2);
    assert_eq!(tokens(), [100, 50]);
}

#[test]
fn a_refused_request_is_explained_by_its_id() {
    let node = Node::start();
    node.plane.refusals.remember(RefusedRequest {
        request_id: "req-7".to_owned(),
        at: Moment(node.now),
        status: 429,
        reason: RefusalReason::Limit,
        tenant: Some("acme".to_owned()),
        user: Some("evil\u{1b}[31m".to_owned()),
        key: None,
        plan: Some("free".to_owned()),
        route: Some("POST /v1/chat".to_owned()),
        policy: Some("user-second".to_owned()),
        source: Some("plan:free".to_owned()),
        cost: 5,
    });
    let told = node.run(&["explain", "--request-id", "req-7"]);
    for part in ["status      429", "source      plan:free", "cost        5", "evil\\u{1b}[31m"] {
        assert!(told.good().contains(part), "{part}: {}", told.out);
    }
    let json = node.run(&["explain", "--request-id", "req-7", "--json"]);
    assert_eq!(json.good(), node.raw("/v1/refusals/req-7", "") + "\n");
    let unknown = node.run(&["explain", "--request-id", "req-8"]);
    assert!(unknown.failed(1).contains("req-8"), "{unknown:?}");
}
