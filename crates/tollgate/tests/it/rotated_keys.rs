//! Keys that were rotated, while the old one still works: all of a line are one key.

use serde_json::{Value, json};

use crate::control::{file, statuses, text};
use crate::servers::{Brand, Server};
use crate::sharing::nodes;
use crate::support::{Tollgate, Upstream, get, stay_clear_of_midnight};

fn daily(rate: u64) -> Value {
    json!({ "sustained": { "rate": rate, "window": "day" }, "scope": "user" })
}

fn key_path(key: &Value) -> String {
    format!("/v1/keys/{}", text(key, "id"))
}

#[track_caller]
fn limit_to(gateway: &Tollgate, key: &Value, rate: u64) {
    let body = json!({ "rate_limit": daily(rate) }).to_string();
    assert_eq!(gateway.api(&key_path(key), &["-X", "PATCH", "-d", &body]).status, 200);
}

/// A key of 2 a day, and its successor of 100, which also works for an hour.
fn rotated(gateway: &Tollgate) -> (Value, Value) {
    let body = json!({ "tenant": "acme", "user": "ci", "rate_limit": daily(2) });
    let old = gateway.create("/v1/keys", &body);
    let rotate = format!("{}/rotate", key_path(&old));
    let new = gateway.create(&rotate, &json!({ "grace_seconds": 3600 }));
    limit_to(gateway, &new, 100);
    (old, new)
}

/// The limit that a response tells.
#[track_caller]
fn shown(gateway: &Tollgate, key: &Value) -> String {
    let answer = get(&gateway.url("/x"), text(key, "key"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("x-ratelimit-limit").to_owned()
}

/// Also where figures that differ may be in force at once, as windows' may, and where Redis counts by those that it is sent.
#[test]
fn a_key_in_its_grace_goes_by_what_its_successor_is_changed_to_whatever_counts() {
    let (redis, upstream) = (Server::start(Brand::Redis), Upstream::new("", "ok"));
    let sync = format!(
        "redis: {{ url: \"{}\", timeout_ms: 5000 }}\nrate_limit_sync: {{ enabled: true }}\n",
        redis.url()
    );
    stay_clear_of_midnight();
    let gateway = &nodes(1, &(file(&upstream) + &sync))[0];
    for (algorithm, consistency) in [
        ("token_bucket", "local"),
        ("fixed_window", "local"),
        ("token_bucket", "strict"),
        ("token_bucket", "lease"),
        ("sliding_window_log", "strict"),
    ] {
        let limit = |rate: u64| {
            let mut limit = daily(rate);
            limit["algorithm"] = json!(algorithm);
            limit["consistency"] = json!(consistency);
            json!({ "tenant": "acme", "rate_limit": limit })
        };
        let what = format!("{algorithm}, {consistency}");
        let old = gateway.create("/v1/keys", &limit(2));
        let rotate = format!("{}/rotate", key_path(&old));
        let new = gateway.create(&rotate, &json!({ "grace_seconds": 3600 }));
        let mut change = limit(4);
        change.as_object_mut().unwrap().remove("tenant");
        let changed = gateway.api(&key_path(&new), &["-X", "PATCH", "-d", &change.to_string()]);
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_eq!(statuses(gateway, text(&old, "key"), 2), [200; 2], "{what}");
        assert_eq!([shown(gateway, &old), shown(gateway, &new)], ["4"; 2], "{what}");
        let refused = [&old, &new].map(|key| statuses(gateway, text(key, "key"), 1));
        assert_eq!(refused, [[429]; 2], "{what}");
    }
}

/// All keys of a line count together, by what the newest says: what becomes of an older one changes nothing of that.
#[test]
fn a_keys_successor_keeps_its_limit_when_its_predecessor_changes_or_ends() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let (old, new) = rotated(&gateway);
    assert_eq!([shown(&gateway, &new), shown(&gateway, &old)], ["100"; 2]);
    for _ in 0..2 {
        assert_eq!(gateway.api(&key_path(&old), &["-X", "DELETE"]).status, 204);
        assert_eq!(shown(&gateway, &new), "100");
    }
    let (old, new) = rotated(&gateway);
    // Its own limit counts no more, so it cannot be changed; everything else of it can.
    let hourly = json!({ "sustained": { "rate": 3, "window": "hour" } });
    for limit in [daily(3), hourly, Value::Null] {
        let body = json!({ "rate_limit": limit }).to_string();
        let answer = gateway.api(&key_path(&old), &["-X", "PATCH", "-d", &body]);
        assert_eq!(answer.status, 409, "{answer:?}");
        let why = answer.json()["detail"].to_string();
        assert!(why.contains(&format!("was replaced by {}", text(&new, "id"))), "{why}");
    }
    let named = gateway.api(&key_path(&old), &["-X", "PATCH", "-d", r#"{ "name": "old" }"#]);
    assert_eq!(named.status, 200, "{named:?}");
    assert_eq!([shown(&gateway, &new), shown(&gateway, &old)], ["100"; 2]);
    limit_to(&gateway, &new, 50);
    assert_eq!([shown(&gateway, &new), shown(&gateway, &old)], ["50"; 2]);
}

/// Whoever is throttled by another window, or for the first time, could else go on with the key it had before.
#[test]
fn a_key_in_its_grace_has_the_limit_of_its_successor_whatever_it_had_itself() {
    let upstream = Upstream::new("", "ok");
    let mut gateway = Tollgate::with(&file(&upstream));
    let of = |limit: &Value| {
        let mut body = json!({ "tenant": "acme", "plan": "large" });
        if !limit.is_null() {
            body["rate_limit"] = limit.clone();
        }
        body
    };
    let hourly = json!({ "sustained": { "rate": 30, "window": "hour" } });
    let sliding = json!({ "sustained": { "rate": 40 }, "algorithm": "sliding_window" });
    let mut lines = Vec::new();
    for (had, has, shows) in [
        (&daily(20), &hourly, "30"),
        (&daily(20), &sliding, "40"),
        (&Value::Null, &hourly, "30"),
        (&daily(20), &Value::Null, "1000"),
    ] {
        let old = gateway.create("/v1/keys", &of(had));
        let rotate = format!("{}/rotate", key_path(&old));
        let new = gateway.create(&rotate, &json!({ "grace_seconds": 3600 }));
        let body = json!({ "rate_limit": has }).to_string();
        assert_eq!(gateway.api(&key_path(&new), &["-X", "PATCH", "-d", &body]).status, 200);
        let both = [shown(&gateway, &old), shown(&gateway, &new)];
        assert_eq!(both, [shows; 2], "{had} became {has}");
        let path = format!("/v1/limits?tenant=acme&key={}", text(&old, "id"));
        let looked = gateway.api(&path, &[]);
        assert!(looked.body.contains(&format!("\"capacity\":{shows},")), "{looked:?}");
        lines.push((old, new, shows));
    }
    gateway = Tollgate::again(gateway.kill());
    for (old, new, shows) in &lines {
        assert_eq!([shown(&gateway, old), shown(&gateway, new)], [*shows; 2]);
    }
}

/// Whoever is moved to a smaller plan could else go on with the key it had before, and so could whoever is throttled and then revoked.
#[test]
fn a_key_in_its_grace_goes_by_its_successors_plan_and_by_terms_of_one_that_has_ended() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let rotated = |body: Value| {
        let old = gateway.create("/v1/keys", &body);
        let rotate = format!("{}/rotate", key_path(&old));
        (old, gateway.create(&rotate, &json!({ "grace_seconds": 3600 })))
    };
    let change = |key: &Value, body: Value| {
        gateway.api(&key_path(key), &["-X", "PATCH", "-d", &body.to_string()]).status
    };
    let told = |query: &str| {
        let told = gateway.api(&format!("/v1/limits?tenant=acme&{query}"), &[]).json();
        told["items"][0]["capacity"].clone()
    };

    let (moved, to) = rotated(json!({ "tenant": "acme", "user": "moved", "plan": "large" }));
    assert_eq!(change(&to, json!({ "plan": "small" })), 200);
    assert_eq!([shown(&gateway, &moved), shown(&gateway, &to)], ["3"; 2]);
    assert_eq!(change(&moved, json!({ "plan": "small" })), 409);
    let of_key = format!("key={}", text(&moved, "id"));
    assert_eq!(["user=moved", &of_key].map(told), [json!(3), json!(3)]);

    let large =
        json!({ "tenant": "acme", "user": "ended", "plan": "large", "rate_limit": daily(500) });
    let (ended, by) = rotated(large);
    limit_to(&gateway, &by, 60);
    assert_eq!(gateway.api(&key_path(&by), &["-X", "DELETE"]).status, 204);
    assert_eq!(shown(&gateway, &ended), "60");
    limit_to(&gateway, &by, 50);
    assert_eq!(shown(&gateway, &ended), "50");
    let of_key = format!("key={}", text(&ended, "id"));
    assert_eq!(["user=ended", &of_key].map(told), [json!(50), json!(50)]);

    let gateway = Tollgate::again(gateway.kill());
    assert_eq!([shown(&gateway, &moved), shown(&gateway, &ended)], ["3", "50"]);
}

#[test]
fn a_keys_successor_keeps_its_limit_when_somebody_looks_at_its_predecessors() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let (old, new) = rotated(&gateway);
    for query in ["user=ci".to_owned(), format!("key={}", text(&old, "id"))] {
        let told = gateway.api(&format!("/v1/limits?tenant=acme&{query}"), &[]).json();
        assert_eq!(shown(&gateway, &new), "100", "{query}");
        let first = &told["items"][0];
        assert_eq!((&first["capacity"], &first["rate"]), (&json!(100), &json!(100)), "{told}");
        let mut body = json!({ "tenant": "acme", "counter": first["counter"] });
        let (name, value) = query.split_once('=').unwrap();
        body[name] = json!(value);
        let reset = gateway.api("/v1/limits/reset", &["-d", &body.to_string()]);
        assert_eq!(reset.status, 204, "{reset:?}");
        assert_eq!(shown(&gateway, &new), "100", "{query}");
    }
}

#[test]
fn a_key_in_its_grace_goes_by_its_successors_limit_also_after_a_restart() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let (old, new) = rotated(&gateway);
    limit_to(&gateway, &new, 4);
    let gateway = Tollgate::again(gateway.stop());
    assert_eq!(statuses(&gateway, text(&old, "key"), 3), [200; 3]);
    assert_eq!(statuses(&gateway, text(&new, "key"), 2), [200, 429]);
    let told = gateway.api("/v1/limits?tenant=acme&user=ci", &[]).json();
    assert_eq!(told["items"][0]["source"], format!("key:{}", text(&new, "id")));
}

/// A key in its grace that goes by another plan than its own, as its successor did, which is revoked.
fn moved(gateway: &Tollgate, (from, to): (&str, &str)) -> Value {
    let old = gateway.create("/v1/keys", &json!({ "tenant": "acme", "plan": from }));
    let new =
        gateway.create(&format!("{}/rotate", key_path(&old)), &json!({ "grace_seconds": 3600 }));
    let body = json!({ "plan": to }).to_string();
    assert_eq!(gateway.api(&key_path(&new), &["-X", "PATCH", "-d", &body]).status, 200);
    assert_eq!(gateway.api(&key_path(&new), &["-X", "DELETE"]).status, 204);
    old
}

/// It was deleted, and whoever had been moved to it had their tenant's; the one that nobody went by any more could not be deleted.
#[test]
fn a_plan_stays_as_long_as_a_key_in_its_grace_goes_by_it_and_no_longer() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    for (name, rate) in [("wide", 500), ("narrow", 2)] {
        gateway.create("/v1/plans", &json!({ "name": name, "rate_limit": daily(rate) }));
    }
    let old = moved(&gateway, ("wide", "narrow"));
    let delete = |plan: &str| gateway.api(&format!("/v1/plans/{plan}"), &["-X", "DELETE"]);
    let refused = delete("narrow");
    assert_eq!((refused.status, &refused.json()["keys"]), (409, &json!(1)), "{refused:?}");
    assert_eq!(delete("wide").status, 204);
    assert_eq!(shown(&gateway, &old), "2");
    // Nobody needs the one that it had.
    let body = json!({ "name": "old" }).to_string();
    let named = gateway.api(&key_path(&old), &["-X", "PATCH", "-d", &body]);
    assert_eq!(named.status, 200, "{named:?}");
    let mut gateway = Tollgate::again(gateway.stop());
    assert_eq!(shown(&gateway, &old), "2");
    let said = gateway.said();
    assert!(!said.contains("are gone"), "{said}");
}

#[test]
fn a_file_cannot_drop_the_plan_that_a_key_in_its_grace_goes_by() {
    let upstream = Upstream::new("", "ok");
    let plan = |name: &str| format!("  {name}: {{ rate_limit: {} }}\n", daily(2));
    let with = |plans: &[&str]| {
        let all: String = plans.iter().map(|name| plan(name)).collect();
        file(&upstream).replace("tenants:", &format!("{all}tenants:"))
    };
    let gateway = Tollgate::with(&with(&["wide", "narrow"]));
    let old = moved(&gateway, ("wide", "narrow"));
    let put = |plans: &[&str]| {
        let text = crate::support::SERVER.to_owned() + &with(plans);
        gateway.api("/v1/config", &["-X", "PUT", "-H", "if-match: *", "--data-binary", &text])
    };
    let refused = put(&["wide"]);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("plan narrow"), "{refused:?}");
    let answer = put(&["narrow"]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(shown(&gateway, &old), "2");
}
