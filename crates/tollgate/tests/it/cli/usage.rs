//! What was used, and who changed what, from a shell.

use tollgate_storage::{Caller, UsageRecorder, Use};

use super::Node;
use super::node::wait;

fn node() -> Node {
    let node = Node::start();
    let mut recorder = UsageRecorder::new();
    let mut count = |tenant: &str, route: &str, times: u64| {
        let caller = Caller { tenant, key: "key_1", route, plan: "free" };
        for at in 0..times {
            recorder.count(caller, Use { refused: at == 0, tokens: 2 }, node.now);
        }
    };
    count("acme", "GET /a,b", 3);
    count("acme", "GET /c", 4);
    count("part", "GET /c", 5);
    wait(node.store.add_usage(recorder.drain())).unwrap();
    node
}

#[test]
fn usage_is_a_table_with_its_sum() {
    let node = node();
    let told = node.run(&["usage", "--group-by", "route,key"]);
    assert_eq!(
        told.good(),
        "\
TENANT  KEY    ROUTE     REQUESTS  REFUSALS  TOKENS
acme    key_1  GET /a,b         3         1       6
acme    key_1  GET /c           4         1       8
part    key_1  GET /c           5         1      10
total                          12         3      24
"
    );
    assert!(told.err.starts_with("From "), "{told:?}");
    let one = node.run(&["usage", "--tenant", "acme", "--key", "key_1"]);
    assert_eq!(one.rows(), [["acme", "7", "2", "14"]]);
}

#[test]
fn csv_and_json_are_the_apis_to_the_byte() {
    let node = node();
    let path = "/v1/usage?tenant=acme&from=2020-01-01&to=2099-01-01&group_by=route%2Cday";
    let days = ["--from", "2020-01-01", "--to", "2099-01-01"];
    let asked = [&["usage", "--tenant", "acme", "--group-by", "route,day"], &days[..]].concat();
    let csv = node.run(&[&asked[..], &["--csv"]].concat());
    assert!(csv.good().starts_with("tenant,route,day,requests,refusals,tokens\r\n"), "{csv:?}");
    assert_eq!(csv.out, node.raw(path, "accept: text/csv\r\n"));
    let json = node.run(&[&asked[..], &["--json"]].concat());
    assert_eq!(json.good(), node.raw(path, "") + "\n");
}

#[test]
fn an_answer_in_several_parts_is_told_whole() {
    let node = Node::start();
    let mut recorder = UsageRecorder::new();
    for key in 0..1001 {
        let key = format!("key_{key:04}");
        for route in 0..100 {
            let route = format!("GET /{route:02}");
            let caller = Caller { tenant: "acme", key: &key, route: &route, plan: "free" };
            recorder.count(caller, Use { refused: false, tokens: 1 }, node.now);
        }
        wait(node.store.add_usage(recorder.drain())).unwrap();
    }
    let asked = ["usage", "--group-by", "key,route"];
    let csv = node.run(&[&asked[..], &["--csv"]].concat());
    let lines: Vec<&str> = csv.good().lines().collect();
    assert_eq!(lines.len(), 100_100 + 1);
    assert_eq!(lines.iter().filter(|line| line.starts_with("tenant,")).count(), 1);
    assert_eq!(lines.last(), Some(&"acme,key_1000,GET /99,1,0,1"));
    let table = node.run(&asked);
    let rows = table.rows();
    assert_eq!(rows.len(), 100_100 + 1);
    assert_eq!(rows.last().unwrap()[1], "100100");
    let json = node.run(&[&asked[..], &["--json"]].concat());
    assert_eq!(json.good().lines().count(), 2);
}

#[test]
fn days_without_usage_and_days_that_are_none_are_told() {
    let node = node();
    let before = node.run(&["usage", "--from", "2020-01-01", "--to", "2020-01-31"]);
    assert_eq!(before.good(), "");
    assert_eq!(before.err, "Nothing was used from 2020-01-01 to 2020-01-31.\n");
    let wrong = node.run(&["usage", "--from", "yesterday"]);
    assert!(wrong.failed(1).contains("`from`"), "{wrong:?}");
}

#[test]
fn the_audit_tells_who_did_what() {
    let node = Node::start();
    node.run(&["plans", "create", "team", "--rate", "5"]).good();
    node.run(&["plans", "delete", "team"]).good();
    let told = node.run(&["audit"]);
    let rows = told.rows();
    assert_eq!(rows[0][1..], ["admin@127.0.0.1", "plan.delete", "plan team"]);
    assert_eq!(rows[1][1..], ["admin@127.0.0.1", "plan.create", "plan team"]);
}
