//! Two gateways that keep nothing themselves: `storage: { redis: true }`.

use std::time::Instant;

use serde_json::{Value, json};

use crate::servers::{Brand, Server, on_both};
use crate::support::{PATIENCE, Tollgate, Upstream, curl};

fn gateway(server: &Server, upstream: &Upstream) -> Tollgate {
    Tollgate::with(&format!(
        "storage: {{ redis: true }}\n\
         redis: {{ url: \"{}\", timeout_ms: 5000 }}\n\
         upstreams: {{ api: {{ url: \"http://{}\" }} }}\n\
         routes: [ {{ path: \"/*\", upstream: api }} ]\n",
        server.url(),
        upstream.address
    ))
}

fn status(node: &Tollgate, key: &str) -> u16 {
    curl(&[&node.url("/"), "-H", &format!("x-api-key: {key}")]).status
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn what_one_gateway_is_told_all_do(brand: Brand) {
    let (server, upstream) = (Server::start(brand), Upstream::new("", "hello"));
    let (one, two) = (gateway(&server, &upstream), gateway(&server, &upstream));
    one.create("/v1/plans", &json!({ "name": "small", "rate_limit": { "sustained": { "rate": 1, "window": "day" }, "burst": { "capacity": 3 }, "scope": "user" } }));
    one.create("/v1/tenants", &json!({ "id": "acme", "plan": "small" }));
    let issued = one.create("/v1/keys", &json!({ "tenant": "acme" }));
    let key = issued["key"].as_str().unwrap();
    assert_eq!(status(&one, key), 200, "here before the answer");
    until("the other lets it in", || status(&two, key) == 200);
    // Its tenant and plan are in force there too: the fourth is refused by the plan.
    until("the other refuses by the plan", || status(&two, key) == 429);
    let shown: Value = two.api("/v1/tenants/acme", &[]).json();
    assert_eq!((&shown["id"], &shown["declared_in"]), (&json!("acme"), &json!("api")));

    let id = issued["id"].as_str().unwrap();
    assert_eq!(two.api(&format!("/v1/keys/{id}"), &["-X", "DELETE"]).status, 204);
    assert_eq!(status(&two, key), 401);
    until("the other keeps it out", || status(&one, key) == 401);
    // A third, started now, knows all of it, and a restart forgets nothing.
    let issued = one.create("/v1/keys", &json!({ "tenant": "acme" }));
    let key = issued["key"].as_str().unwrap();
    let three = gateway(&server, &upstream);
    assert_eq!(status(&three, key), 200);
    drop(one.kill());
    until("usage of all is in one place", || {
        let usage = two.api("/v1/usage?from=2020-01-01&to=2100-01-01&group_by=tenant", &[]);
        usage.status == 200 && usage.body.contains("acme")
    });
    let again = Tollgate::again(three.stop());
    assert_eq!(status(&again, key), 200);
}

/// Each child is within the budget by itself, and what each gateway knows; all together they are not.
fn gateways_together_never_exceed_a_budget(brand: Brand) {
    let (server, upstream) = (Server::start(brand), Upstream::new("", "hello"));
    let nodes = [gateway(&server, &upstream), gateway(&server, &upstream)];
    let parent = json!({
        "id": "part",
        "rate_limit": { "sustained": { "rate": 100 }, "budget": { "mode": "allocated" } }
    });
    nodes[0].create("/v1/tenants", &parent);
    until("the other knows", || nodes[1].api("/v1/tenants/part", &[]).status == 200);
    let made: usize = std::thread::scope(|scope| {
        let create = |who: usize| {
            let node = &nodes[who];
            move || {
                let mut made = 0;
                for n in 0..8 {
                    let child = json!({
                        "id": format!("child-{who}-{n}"), "parent": "part",
                        "rate_limit": { "sustained": { "rate": 30 } }
                    });
                    loop {
                        let answer = node.api("/v1/tenants", &["-d", &child.to_string()]);
                        match answer.status {
                            201 => break made += 1,
                            409 if answer.body.contains("meanwhile") => {}
                            409 => break,
                            other => panic!("{other}: {answer:?}"),
                        }
                    }
                }
                made
            }
        };
        let threads = [scope.spawn(create(0)), scope.spawn(create(1))];
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(made, 3, "three of 30 fit into 100");
}

on_both! {
    all_do => what_one_gateway_is_told_all_do;
    budget => gateways_together_never_exceed_a_budget;
}
