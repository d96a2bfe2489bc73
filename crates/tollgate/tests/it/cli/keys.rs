//! Keys from a shell.

use serde_json::{Value, json};

use super::{Node, Told};

/// The line that is a key and nothing else.
#[track_caller]
fn key_of(told: &Told) -> &str {
    let mut keys = told.good().lines().filter(|line| line.starts_with("tg_live_"));
    let key = keys.next().unwrap_or_else(|| panic!("no key: {told:?}"));
    assert!(keys.next().is_none() && !key.contains(' '), "{told:?}");
    key
}

/// A key and its id.
fn issue(node: &Node, args: &[&str]) -> (String, String) {
    let told = node.run(&[&["keys", "create", "--json"], args].concat()).json();
    (told["key"].as_str().unwrap().to_owned(), told["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_key_stands_alone_on_its_line_and_works_at_once() {
    let node = Node::start();
    let told = node.run(&["keys", "create", "--tenant", "acme", "--plan", "pro", "--user", "ci"]);
    assert!(node.lets_in(key_of(&told)));
    for part in ["tenant", "acme", "plan", "pro", "user", "ci", "shown only now"] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    assert_eq!(told.err, "");
}

#[test]
fn a_quiet_key_is_all_there_is() {
    let node = Node::start();
    let told = node.run(&["keys", "create", "--tenant", "acme", "-q"]);
    let key = told.good().strip_suffix('\n').unwrap();
    assert_eq!(key.len(), "tg_live_".len() + 30);
    assert!(node.lets_in(key));
}

#[test]
fn a_key_is_listed_and_shown_without_itself() {
    let node = Node::start();
    let (key, id) =
        issue(&node, &["--tenant", "acme", "--name", "build server", "--rate", "5/minute"]);
    issue(&node, &["--tenant", "part"]);
    let listed = node.run(&["keys", "list", "--tenant", "acme"]);
    let rows = listed.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0][..4], [&*id, "acme", "build server", "active"]);
    assert!(rows[0][4].starts_with("tg_live_") && rows[0][4].ends_with('…'), "{rows:?}");
    assert!(listed.out.lines().next().unwrap().starts_with("ID "), "{}", listed.out);
    assert!(!listed.out.contains("USER"), "a column that is empty: {}", listed.out);
    let shown = node.run(&["keys", "show", &id]);
    assert!(shown.good().contains("build server"));
    for told in [&listed, &shown] {
        assert!(!told.out.contains(&key));
    }
    assert_eq!(node.run(&["keys", "list", "--tenant", "acme", "-q"]).good(), format!("{id}\n"));
}

#[test]
fn json_is_the_apis_to_the_byte() {
    let node = Node::start();
    let (_, id) = issue(&node, &["--tenant", "acme"]);
    for (args, path) in [
        (vec!["keys", "show", &*id], format!("/v1/keys/{id}")),
        (vec!["keys", "list"], "/v1/keys?limit=100".to_owned()),
        (vec!["plans", "show", "free"], "/v1/plans/free".to_owned()),
        (vec!["tenants", "list"], "/v1/tenants?limit=100".to_owned()),
        (vec!["audit"], "/v1/audit?limit=100".to_owned()),
    ] {
        let told = node.run(&[&args[..], &["--json"]].concat());
        assert_eq!(told.good(), node.raw(&path, "") + "\n", "{args:?}");
    }
}

#[test]
fn a_rotated_key_works_beside_its_successor_for_the_grace() {
    let node = Node::start();
    let (old, id) = issue(&node, &["--tenant", "acme"]);
    let told = node.run(&["keys", "rotate", &id, "--grace", "24h"]);
    assert!(node.lets_in(key_of(&told)) && node.lets_in(&old));
    let shown = node.run(&["keys", "show", &id, "--json"]).json();
    assert_eq!(shown["state"], "replaced");
    // Without a grace the old one ends at once.
    let next = shown["replaced_by"].as_str().unwrap();
    let newest = node.run(&["keys", "rotate", next, "-q"]);
    assert!(node.lets_in(newest.good().trim()) && !node.lets_in(key_of(&told)));
    let refused = node.run(&["keys", "rotate", next]);
    assert!(refused.failed(1).contains("was replaced by"), "{refused:?}");
}

#[test]
fn a_revoked_key_is_let_in_no_more() {
    let node = Node::start();
    let (key, id) = issue(&node, &["--tenant", "acme"]);
    assert_eq!(node.run(&["keys", "revoke", &id]).good(), format!("{id} is revoked.\n"));
    assert!(!node.lets_in(&key));
    assert_eq!(node.run(&["keys", "revoke", &id, "-q"]).good(), "");
    let unknown = node.run(&["keys", "revoke", "key_0"]);
    assert!(unknown.failed(1).contains("no key"), "{unknown:?}");
}

#[test]
fn a_key_ends_when_it_is_told_to() {
    let node = Node::start();
    let told = node.run(&["keys", "create", "--tenant", "acme", "--expires-in", "30d", "--json"]);
    let end: jiff::Timestamp = told.json()["expires_at"].as_str().unwrap().parse().unwrap();
    let now = i64::try_from(node.now.as_nanos() / 1_000_000_000).unwrap();
    let days = (end.as_second() - now) / 86_400;
    assert!((29..=30).contains(&days), "{end}");
    let moment = "2099-01-31T00:00:00Z";
    let told = node.run(&["keys", "create", "--tenant", "acme", "--expires-at", moment, "--json"]);
    assert_eq!(told.json()["expires_at"], moment);
    let both = ["keys", "create", "--tenant", "acme", "--expires-at", moment, "--expires-in", "1d"];
    node.run(&both).failed(2);
    node.run(&["keys", "create", "--tenant", "acme", "--expires-in", "soon"]).failed(2);
}

#[test]
fn a_key_moves_to_another_plan_and_keeps_the_rest() {
    let node = Node::start();
    let (_, id) = issue(&node, &["--tenant", "acme", "--name", "n", "--plan", "free"]);
    let told = node.run(&["keys", "change", &id, "--plan", "pro", "--json"]).json();
    assert_eq!((&told["plan"], &told["name"]), (&json!("pro"), &json!("n")));
    let nothing = node.run(&["keys", "change", &id]);
    assert!(nothing.failed(2).contains("--plan"), "{nothing:?}");
}

#[test]
fn a_keys_limit_keeps_what_is_not_said_of_it() {
    let node = Node::start();
    let limit = ["--rate", "10/minute", "--burst", "50", "--scope", "user"];
    let (_, id) = issue(&node, &[&["--tenant", "acme", "--name", "n"][..], &limit].concat());
    let change = |flags: &[&str]| {
        let told = node.run(&[&["keys", "change", &id, "--json"], flags].concat()).json();
        assert_eq!(told["name"], "n");
        told["rate_limit"].clone()
    };
    let figures = |limit: &Value| {
        let sustained = &limit["sustained"];
        json!([sustained["rate"], sustained["window"], limit["burst"]["capacity"], limit["scope"]])
    };
    assert_eq!(figures(&change(&["--rate", "20"])), json!([20, "minute", 50, "user"]));
    assert_eq!(figures(&change(&["--burst", "80"])), json!([20, "minute", 80, "user"]));
    assert_eq!(figures(&change(&["--scope", "ip"])), json!([20, "minute", 80, "ip"]));
    let both = change(&["--plan", "pro", "--rate", "7/day"]);
    assert_eq!(figures(&both), json!([7, "day", 80, "ip"]));
    // A key without one gets what is said, which must be enough for one.
    let (_, bare) = issue(&node, &["--tenant", "acme"]);
    let burst = node.run(&["keys", "change", &bare, "--burst", "80"]);
    assert!(burst.failed(1).contains("sustained"), "{burst:?}");
    let told = node.run(&["keys", "change", &bare, "--rate", "3", "--json"]).json();
    assert_eq!(told["rate_limit"]["sustained"], json!({ "rate": 3, "window": "second" }));
    let unknown = node.run(&["keys", "change", "key_0", "--rate", "3"]);
    assert!(unknown.failed(1).contains("no key"), "{unknown:?}");
}

#[test]
fn every_fault_of_a_body_is_told_with_its_place_in_the_file() {
    let node = Node::start();
    let file = node.folder.path().join("key.yaml");
    std::fs::write(&file, "tenant: acme\nusr: ci\nplan: 7\n").unwrap();
    let told = node.run(&["keys", "create", "--file", "key.yaml"]);
    let err = told.failed(1);
    for part in ["2 things are wrong", "key.yaml:2:", "`usr`", "`user`", "key.yaml:3:"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let unknown = node.run(&["keys", "create", "--tenant", "acme", "--plan", "gold"]);
    let err = unknown.failed(1);
    assert!(err.contains("there is no plan `gold`") && err.contains("help: "), "{err}");
    let both = node.run(&["keys", "create", "--file", "key.yaml", "--plan", "pro"]);
    assert!(both.failed(2).contains("not both"), "{both:?}");
}

#[test]
fn a_body_may_come_from_standard_input_as_json() {
    let node = Node::start();
    let args = ["keys", "create", "--file", "-", "--json"];
    let told = node.command(&args).input("{\"tenant\": \"acme\", \"user\": \"ci\"}").told();
    assert_eq!(told.json()["user"], "ci");
    let told = node.command(&args).input("{").told();
    assert!(told.failed(1).contains("stdin:1:"), "{told:?}");
}

#[test]
fn what_is_repeated_is_done_once_and_shown_once() {
    let node = Node::start();
    let args = ["keys", "create", "--tenant", "acme", "--idempotency-key", "deploy-7"];
    let first = node.run(&args);
    key_of(&first);
    let second = node.run(&args);
    assert!(second.failed(1).contains("shown only once"), "{second:?}");
    assert_eq!(node.run(&["keys", "list"]).rows().len(), 1);
}

#[test]
fn lists_go_on_page_by_page() {
    let node = Node::start();
    let ids: Vec<String> = (0..5).map(|_| issue(&node, &["--tenant", "acme"]).1).collect();
    let first = node.run(&["keys", "list", "--limit", "2"]);
    assert_eq!(first.rows().len(), 2);
    let cursor = first.err.split("--cursor ").nth(1).unwrap().trim();
    let second = node.run(&["keys", "list", "--limit", "2", "--cursor", cursor, "-q"]);
    assert_eq!(second.good(), format!("{}\n{}\n", ids[2], ids[3]));
    let all = node.run(&["keys", "list", "--limit", "2", "--all", "-q"]);
    assert_eq!(all.good().lines().collect::<Vec<_>>(), ids);
    let pages = node.run(&["keys", "list", "--limit", "2", "--all", "--json"]);
    let pages: Vec<Value> =
        pages.good().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pages.len(), 3);
    let too_many = node.run(&["keys", "list", "--limit", "100000"]);
    assert!(too_many.failed(1).contains("`limit`"), "{too_many:?}");
}

#[test]
fn nobody_has_keys_in_words() {
    let node = Node::start();
    let told = node.run(&["keys", "list"]);
    assert_eq!(told.good(), "");
    assert!(told.err.contains("tollgate keys create"), "{told:?}");
}
