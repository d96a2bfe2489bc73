//! Tenants and plans from a shell.

use serde_json::json;

use super::Node;

#[test]
fn a_tenant_is_made_changed_replaced_and_deleted() {
    let node = Node::start();
    let create = ["tenants", "create", "shop", "--plan", "free", "--rate", "60/minute"];
    node.run(&[&create[..], &["--burst", "80", "--quota", "1000/month"]].concat()).good();
    let shown = node.run(&["tenants", "show", "shop", "--json"]).json();
    let limit = &shown["rate_limit"];
    assert_eq!(limit["sustained"], json!({ "rate": 60, "window": "minute" }));
    assert_eq!(limit["burst"]["capacity"], 80);
    assert_eq!(shown["declared_in"], "api");

    // What is not said stays.
    node.run(&["tenants", "change", "shop", "--rate", "90", "--plan", "pro"]).good();
    let shown = node.run(&["tenants", "show", "shop", "--json"]).json();
    assert_eq!(shown["rate_limit"]["sustained"], json!({ "rate": 90, "window": "minute" }));
    assert_eq!(shown["rate_limit"]["burst"]["capacity"], 80);
    assert_eq!((&shown["plan"], &shown["quota"]["limit"]), (&json!("pro"), &json!(1000)));

    // A replacement leaves nothing, and only of the version that was seen.
    let shown = node.run(&["tenants", "show", "shop"]);
    let tag = shown.good().lines().find_map(|line| line.strip_prefix("etag ")).unwrap().trim();
    node.run(&["tenants", "replace", "shop", "--plan", "free", "--if-match", tag, "-q"]).good();
    let stale = node.run(&["tenants", "replace", "shop", "--plan", "pro", "--if-match", tag]);
    assert!(stale.failed(1).contains("read it again"), "{stale:?}");
    let shown = node.run(&["tenants", "show", "shop", "--json"]).json();
    assert_eq!(shown.get("rate_limit"), None);
    assert_eq!(shown["plan"], "free");

    let deleted = node.run(&["tenants", "delete", "shop"]);
    assert_eq!(deleted.good(), "tenant shop is deleted.\n");
    assert!(node.run(&["tenants", "show", "shop"]).failed(1).contains("no tenant shop"));
}

#[test]
fn a_list_tells_limits_in_a_few_words() {
    let node = Node::start();
    node.run(&[
        "plans",
        "create",
        "team",
        "--rate",
        "30/minute",
        "--scope",
        "user",
        "--quota",
        "500/day",
        "--time-zone",
        "Europe/Vienna",
    ])
    .good();
    let plans = node.run(&["plans", "list"]);
    assert_eq!(
        plans.good(),
        "\
NAME  LIMIT                             QUOTA    DECLARED IN
free  10/second, burst 100, per user             file
pro   100/second, burst 1000, per user           file
team  30/minute, per user               500/day  api
"
    );
    let tenants = node.run(&["tenants", "list"]);
    assert_eq!(tenants.rows()[0][..3], ["acme", "free", "50/second, per tenant"]);
    assert!(tenants.out.contains("allocated 100"), "{}", tenants.out);
    let zone = node.run(&["plans", "show", "team", "--json"]).json();
    assert_eq!(zone["quota"]["time_zone"], "Europe/Vienna");
}

#[test]
fn a_body_may_come_from_a_file() {
    let node = Node::start();
    let body = "name: big\nrate_limit: { sustained: { rate: 7 } }\noperations:\n  chat: { sustained: { rate: 1, window: minute } }\n";
    std::fs::write(node.folder.path().join("big.yaml"), body).unwrap();
    node.run(&["plans", "create", "--file", "big.yaml"]).good();
    let shown = node.run(&["plans", "show", "big", "--json"]).json();
    assert_eq!(shown["operations"]["chat"]["sustained"]["rate"], 1);
    // A change keeps what flags cannot say.
    node.run(&["plans", "change", "big", "--rate", "8"]).good();
    let shown = node.run(&["plans", "show", "big", "--json"]).json();
    assert_eq!(shown["operations"]["chat"]["sustained"]["rate"], 1);
    assert_eq!(shown["rate_limit"]["sustained"]["rate"], 8);
    let replace = ["plans", "replace", "big", "--file", "-"];
    node.command(&replace)
        .input("{\"name\": \"big\", \"quota\": {\"limit\": 5, \"window\": \"day\"}}")
        .told()
        .good();
    let shown = node.run(&["plans", "show", "big", "--json"]).json();
    assert_eq!((shown.get("rate_limit"), &shown["quota"]["limit"]), (None, &json!(5)));
    let other = node.command(&replace).input("{\"name\": \"small\"}").told();
    assert!(other.failed(1).contains("small"), "{other:?}");
}

/// Another time zone or unit is another balance: whoever had used the old one up began anew.
#[test]
fn a_change_of_a_quota_keeps_its_zone_scope_and_unit_and_every_other_quota() {
    let node = Node::start();
    let quotas = json!([
        { "limit": 90, "window": "month", "time_zone": "Europe/Vienna", "scope": "tenant", "unit": "tokens" },
        { "limit": 10, "window": "day", "time_zone": "Asia/Tokyo", "scope": "user", "unit": "requests" },
    ]);
    for (what, name) in [("plans", "name"), ("tenants", "id")] {
        let body = json!({ name: "big", "quota": quotas }).to_string();
        node.command(&[what, "create", "--file", "-"]).input(&body).told().good();
        node.run(&[what, "change", "big", "--quota", "80/month"]).good();
        let shown = node.run(&[what, "show", "big", "--json"]).json();
        let mut changed = quotas.clone();
        changed[0]["limit"] = json!(80);
        assert_eq!(shown["quota"], changed);
        let none = node.run(&[what, "change", "big", "--quota", "5/week"]);
        assert!(none.failed(2).contains("80/month, 10/day"), "{none:?}");
        assert_eq!(node.run(&[what, "show", "big", "--json"]).json()["quota"], changed);

        let one = json!({ name: "big", "quota": quotas[0] }).to_string();
        node.command(&[what, "replace", "big", "--file", "-"]).input(&one).told().good();
        node.run(&[what, "change", "big", "--quota", "70/month"]).good();
        let shown = node.run(&[what, "show", "big", "--json"]).json();
        changed[0]["limit"] = json!(70);
        assert_eq!(shown["quota"], changed[0]);
    }
}

#[test]
fn what_the_file_declares_is_read_only_and_budgets_are_told_with_their_figures() {
    let node = Node::start();
    let declared = node.run(&["plans", "change", "free", "--rate", "5"]);
    assert!(declared.failed(1).contains("declared in the configuration file"), "{declared:?}");
    let used = node.run(&["plans", "delete", "free"]);
    assert!(used.failed(1).contains("declared in the configuration file"), "{used:?}");
    // 100 in all, and half as much again may be promised.
    let first = node.run(&["tenants", "create", "one", "--parent", "part", "--rate", "120"]);
    first.good();
    assert!(first.err.starts_with("warning: "), "{first:?}");
    let second = node.run(&["tenants", "create", "two", "--parent", "part", "--rate", "31"]);
    let err = second.failed(1);
    for figure in ["part", "150", "120", "31"] {
        assert!(err.contains(figure), "{figure}: {err}");
    }
    let keys = node.run(&["keys", "create", "--tenant", "one", "-q"]);
    keys.good();
    let held = node.run(&["tenants", "delete", "one"]);
    assert!(held.failed(1).contains("1 keys in force"), "{held:?}");
}

#[test]
fn what_cannot_be_meant_is_usage() {
    let node = Node::start();
    for args in [
        &["tenants", "create"][..],
        &["tenants", "create", "x", "--file", "y"],
        &["tenants", "change", "acme"],
        &["plans", "create", "x", "--rate", "fast"],
        &["plans", "create", "x", "--time-zone", "UTC"],
        &["plans", "replace", "x", "--file", "y", "--rate", "5"],
        &["tenants"],
        &["keys", "list", "--json", "--quiet"],
        &["usage", "--csv", "--json"],
        &["limits", "show"],
        &["limits", "reset", "--tenant", "acme"],
        &["explain"],
        &["explain", "--tenant", "acme"],
        &["explain", "--request-id", "x", "--tenant", "acme"],
        &["backup"],
        &["completions", "tcsh"],
        &["keys", "list", "--admin", "somewhere"],
    ] {
        node.run(args).failed(2);
    }
}
