//! Usage, by whatever it is asked.

use serde_json::{Value, json};
use tollgate_storage::{Caller, UsageRecorder, Use};

use crate::{Ask, NOW, Node};

fn node() -> Node {
    let node = Node::start();
    let mut recorder = UsageRecorder::new();
    let mut count = |tenant: &str, route: &str, times: u64, days_ago: u64| {
        let caller = Caller { tenant, key: "key_1", route, plan: "free" };
        let then = tollgate_core::Time::from_nanos(NOW.as_nanos() - days_ago * 86_400_000_000_000);
        for at in 0..times {
            recorder.count(caller, Use { refused: at == 0, tokens: 2 }, then);
        }
    };
    count("acme", "GET /a,b", 3, 0);
    count("acme", "GET /c", 4, 1);
    count("acme", "GET /c", 9, 40);
    count("part", "GET /c", 5, 0);
    node.runtime.block_on(node.store.add_usage(recorder.drain())).unwrap();
    node
}

#[test]
fn each_row_names_its_tenant_and_sums_what_it_was_not_grouped_by() {
    let node = node();
    let told = node.get("/v1/usage").expect(200);
    assert_eq!((&told["from"], &told["to"]), (&json!("2026-12-17"), &json!("2027-01-15")));
    let rows = |told: &Value| told["items"].as_array().unwrap().clone();
    assert_eq!(
        rows(&told),
        [
            json!({ "tenant": "acme", "requests": 7, "refusals": 2, "tokens": 14 }),
            json!({ "tenant": "part", "requests": 5, "refusals": 1, "tokens": 10 }),
        ]
    );
    let told = node.get("/v1/usage?tenant=acme&group_by=route,day&from=2026-01-01").expect(200);
    assert_eq!(rows(&told).len(), 3);
    assert_eq!(rows(&told)[0]["route"], "GET /a,b");
    assert_eq!(rows(&node.get("/v1/usage?key=key_2").expect(200)), [] as [Value; 0]);
    node.get("/v1/usage?group_by=colour").expect(400);
    node.get("/v1/usage?from=yesterday").expect(400);
    node.get("/v1/usage?from=2027-02-01&to=2027-01-01").expect(400);
}

#[test]
fn csv_is_for_whoever_accepts_it() {
    let node = node();
    let ask =
        Ask::new("GET", "/v1/usage?tenant=acme&group_by=route,plan").header("accept", "text/csv");
    let answer = node.send(&ask);
    assert!(answer.header("content-type").unwrap().starts_with("text/csv"));
    assert_eq!(
        answer.text,
        "tenant,route,plan,requests,refusals,tokens\r\n\
         acme,\"GET /a,b\",free,3,1,6\r\nacme,GET /c,free,4,1,8\r\n"
    );
}

#[test]
fn a_year_by_key_and_day_comes_in_pages() {
    let node = Node::start();
    let mut recorder = UsageRecorder::new();
    for key in 0..300 {
        let key = format!("key_{key}");
        let caller = Caller { tenant: "acme", key: &key, route: "GET /c", plan: "free" };
        for days_ago in 0..365 {
            let then = NOW.as_nanos() - days_ago * 86_400_000_000_000;
            let then = tollgate_core::Time::from_nanos(then);
            recorder.count(caller, Use { refused: false, tokens: 1 }, then);
        }
        node.runtime.block_on(node.store.add_usage(recorder.drain())).unwrap();
    }
    let path = "/v1/usage?from=2026-01-16&group_by=key,day";
    let first = node.get(path).expect(200);
    assert_eq!(first["items"].as_array().unwrap().len(), 100_000);
    let next = first["next"].as_str().unwrap();
    let last = node.get(&format!("{path}&cursor={next}")).expect(200);
    assert_eq!(last["items"].as_array().unwrap().len(), 9_500);
    assert_eq!(last.get("next"), None);
    // CSV says in a header what JSON says in its body.
    let csv = Ask::new("GET", &format!("{path}&limit=2")).header("accept", "text/csv");
    let csv = node.send(&csv);
    assert_eq!(csv.text.lines().count(), 3);
    let next = csv.header("next-cursor").unwrap();
    let third = node.get(&format!("{path}&limit=1&cursor={next}")).expect(200);
    assert_eq!(third["items"][0], first["items"][2]);
    node.get("/v1/usage?limit=0").expect(400);
    node.get("/v1/usage?limit=100001").expect(400);
    node.get("/v1/usage?cursor=nonsense").expect(400);
    node.get(&format!("/v1/usage?cursor={next}")).expect(400);
}
