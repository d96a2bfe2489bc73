//! docs/cli.md, command by command: what it shows is what is printed.

use std::path::PathBuf;

use tollgate_admin::{Moment, RefusalReason, RefusedRequest};
use tollgate_storage::{Caller, UsageRecorder, Use};

use super::Node;
use super::node::wait;

/// A node that has seen what the document tells of.
fn node() -> Node {
    let node = Node::start();
    let mut recorder = UsageRecorder::new();
    for (route, times) in [("GET /*", 40), ("POST /v1/chat", 12)] {
        let caller = Caller { tenant: "acme", key: "key_1", route, plan: "free" };
        for at in 0..times {
            recorder.count(caller, Use { refused: at == 0, tokens: 5 }, node.now);
        }
    }
    wait(node.store.add_usage(recorder.drain())).unwrap();
    node.chat("ann", 4);
    let some = |text: &str| Some(text.to_owned());
    node.plane.refusals.remember(RefusedRequest {
        request_id: "01JZ".to_owned(),
        at: Moment(node.now),
        status: 429,
        reason: RefusalReason::Limit,
        tenant: some("acme"),
        user: some("ann"),
        key: None,
        plan: some("free"),
        route: some("POST /v1/chat"),
        policy: some("user-second"),
        source: some("plan:free"),
        cost: 5,
    });
    node
}

/// Words as a shell divides them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// Without what differs from run to run: ids, keys, versions of keys, moments, sizes, and the width of columns.
fn lasting(text: &str) -> Vec<String> {
    let last = |word: &str| {
        let is_moment = word.len() >= 20 && word.starts_with("20") && word.contains('T');
        match word {
            _ if is_moment => "MOMENT".to_owned(),
            word if word.starts_with("key_") => "ID".to_owned(),
            word if word.starts_with("\"k") => "ETAG".to_owned(),
            word if word.starts_with("tg_live_") => "KEY".to_owned(),
            word if word.starts_with('(') && word[1..].parse::<u64>().is_ok() => "(N".to_owned(),
            word => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(last).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_document_shows_what_is_printed() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = std::fs::read_to_string(path).unwrap();
    let node = node();
    let mut id = String::new();
    let mut commands = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in block.split("$ tollgate ").skip(1) {
            let (line, shown) = step.split_once('\n').unwrap();
            let args: Vec<String> = words(line)
                .into_iter()
                .map(|word| if word.starts_with("key_") { id.clone() } else { word })
                .collect();
            let told = node.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            let issued = told.good().lines().find_map(|line| line.strip_prefix("id "));
            if id.is_empty() {
                id = issued.unwrap().trim().to_owned();
            }
            assert_eq!(lasting(shown), lasting(&told.out), "$ tollgate {line}\n{}", told.out);
            commands += 1;
        }
    }
    assert!(commands > 15, "{commands}");
}
