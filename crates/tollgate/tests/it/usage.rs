//! What was used, and what a crash leaves of it.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::integrity::integrity;
use crate::support::{Tollgate, Upstream, curl, eventually, get, stay_clear_of_midnight};

fn file(upstream: &Upstream) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /dear, upstream: api, rate_limit: {{ cost: 5 }} }}
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1000, window: day }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: p }} ]
",
        upstream.address
    )
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// One caller's requests over one connection; how many had each status.
fn load(gateway: &Tollgate, path: &str, key: &str, requests: usize) -> HashMap<u16, u64> {
    let output = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}\n"])
        .arg(gateway.url(&format!("{path}?[1-{requests}]")))
        .args(["-H", &format!("x-api-key: {key}")])
        .output()
        .unwrap();
    let mut counts = HashMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        *counts.entry(line.parse().unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn totals_are_exactly_what_the_load_counted_also_after_a_clean_stop_under_it() {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let users = ["ada", "bob", "eve"];
    let keys: Vec<Value> = users
        .iter()
        .map(|user| gateway.create("/v1/keys", &json!({ "tenant": "acme", "user": user })))
        .collect();
    // Each has 1000 tokens: of 150 requests at 5 none is refused, of 400 at 1 some are.
    let counted: Vec<[HashMap<u16, u64>; 2]> = std::thread::scope(|scope| {
        let loads: Vec<_> = keys
            .iter()
            .map(|key| {
                let gateway = &gateway;
                scope.spawn(move || {
                    let key = text(key, "key");
                    [load(gateway, "/dear", key, 150), load(gateway, "/cheap", key, 400)]
                })
            })
            .collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    // Stopped at once: what was counted last has been with its worker for a moment only.
    let gateway = Tollgate::again(gateway.stop());
    let usage = gateway.api("/v1/usage?group_by=key,route,plan", &[]).json();
    let rows = usage["items"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * users.len(), "{usage}");
    for (key, counted) in keys.iter().zip(&counted) {
        for ((route, cost), counted) in [("/dear", 5), ("/*", 1)].iter().zip(counted) {
            let row = rows
                .iter()
                .find(|row| row["key"] == key["id"] && row["route"] == *route)
                .unwrap_or_else(|| panic!("{usage}"));
            let of = |status: u16| counted.get(&status).copied().unwrap_or(0);
            let (passed, refused) = (of(200), of(429));
            assert_eq!(passed + refused, counted.values().sum::<u64>());
            assert_eq!(row["requests"], passed + refused, "{row}");
            assert_eq!(row["refusals"], refused, "{row}");
            assert_eq!(row["tokens"], passed * cost, "{row}");
            assert_eq!((&row["tenant"], &row["plan"]), (&json!("acme"), &json!("p")));
        }
        assert!(counted[1].get(&429).is_some_and(|refused| *refused > 0), "{counted:?}");
    }
}

#[test]
fn a_request_whose_caller_hangs_up_is_counted_and_one_that_nobody_made_is_not() {
    stay_clear_of_midnight();
    let upstream = Upstream::serving(|_| {
        std::thread::sleep(crate::support::PATIENCE);
        Ok(())
    });
    let gateway = Tollgate::with(&file(&upstream));
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let url = gateway.url("/x");
    let mut caller = Command::new("curl")
        .args(["-s", &url, "-H", &format!("x-api-key: {}", text(&issued, "key"))])
        .spawn()
        .unwrap();
    eventually("the request is in flight", || upstream.heads().len() == 1);
    caller.kill().unwrap();
    caller.wait().unwrap();
    // Turned away: nobody's.
    assert_eq!(curl(&[&url]).status, 401);
    let total = || gateway.api("/v1/usage?group_by=tenant", &[]).json()["items"].clone();
    eventually("it is counted", || total().as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(total(), json!([{ "tenant": "acme", "requests": 1, "refusals": 0, "tokens": 1 }]));
}

/// Under load, with a client that issues keys one after another.
#[test]
fn kills_lose_no_key_that_was_answered_and_leave_the_database_whole() {
    const KILLS: u64 = 5;
    let upstream = Upstream::new("", "ok");
    let mut gateway = Tollgate::with(&file(&upstream));
    let busy = text(&gateway.create("/v1/keys", &json!({ "tenant": "acme" })), "key").to_owned();
    let mut answered: Vec<Value> = Vec::new();
    for kill in 0..KILLS {
        let is_over = AtomicBool::new(false);
        let wanted = 1 + kill * 17 % 60;
        let issued = std::thread::scope(|scope| {
            let (url, of_load) = (gateway.url("/x?[1-1000000]"), format!("x-api-key: {busy}"));
            let mut load = Command::new("curl")
                .args(["-s", "-o", "/dev/null", &url, "-H", &of_load])
                .spawn()
                .unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            for issuer in 0..4 {
                let (gateway, is_over, tell) = (&gateway, &is_over, tell.clone());
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        if let Some(key) = issue(gateway, issuer) {
                            tell.send(key).unwrap();
                        }
                    }
                });
            }
            drop(tell);
            let mut issued: Vec<Value> = told.iter().take(wanted as usize).collect();
            gateway.signal("-KILL");
            is_over.store(true, Relaxed);
            issued.extend(told.iter());
            load.kill().unwrap();
            load.wait().unwrap();
            issued
        });
        answered.extend(issued);
        let folder = gateway.kill();
        assert_eq!(integrity(&folder.path().join("tollgate-data")), "ok", "after kill {kill}");
        gateway = Tollgate::again(folder);
    }
    assert!(answered.len() as u64 >= KILLS);
    for key in &answered {
        assert_eq!(get(&gateway.url("/x"), text(key, "key")).status, 200, "{key}");
    }
}

/// One more key, if it was answered.
fn issue(gateway: &Tollgate, issuer: usize) -> Option<Value> {
    let body = json!({ "tenant": "acme", "user": format!("user-{issuer}") }).to_string();
    let output = Command::new("curl")
        .args(["-s", "-w", "\n%{http_code}", &gateway.admin_url("/v1/keys"), "-d", &body])
        .args(["-H", &format!("authorization: Bearer {}", gateway.token())])
        .args(["-H", "content-type: application/json"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n')?;
    (status == "201").then(|| serde_json::from_str(body).unwrap())
}
