//! The description of the API, and a check by a program that knows nothing else about it.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{Ask, Node, TOKEN};

#[test]
fn the_description_refers_to_nothing_it_lacks() {
    let node = Node::start();
    let document = node.get("/openapi.json").expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    let mut seen = 0;
    for part in text.split("\"$ref\":\"").skip(1) {
        let pointer = part.split('"').next().unwrap();
        assert!(document.pointer(pointer.trim_start_matches('#')).is_some(), "{pointer}");
        seen += 1;
    }
    assert!(seen > 20);
}

/// A router does not tell its routes, so they are read where they are written.
#[test]
fn every_route_is_described() {
    let node = Node::start();
    let document = node.get("/openapi.json").expect(200);
    let is_described = |path: &str| document["paths"].get(path).is_some();
    let source = include_str!("../../src/api/mod.rs");
    let routes: Vec<&str> =
        source.split("\"/v1/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(routes.len() > 10, "{routes:?}");
    for route in routes {
        assert!(is_described(&format!("/v1/{route}")), "/v1/{route} is not described");
    }
    // Whoever asks for what a path does not do is told what it does.
    for (path, operations) in document["paths"].as_object().unwrap() {
        let answer = node.send(&Ask::new("TRACE", &path.replace("{id}", "x")));
        assert_eq!(answer.status, 405, "{path}");
        let allowed = answer.header("allow").unwrap_or_default().to_ascii_lowercase();
        let mut allowed: Vec<&str> = allowed.split(',').filter(|name| *name != "head").collect();
        let mut described: Vec<&str> =
            operations.as_object().unwrap().keys().map(String::as_str).collect();
        allowed.sort_unstable();
        described.sort_unstable();
        assert_eq!(allowed, described, "{path}");
    }
}

/// No 5xx, no status and no body that the description does not have.
#[test]
fn schemathesis_finds_nothing_undocumented() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/schemathesis");
    assert!(python.exists(), "`cargo xtask test` installs schemathesis into target/python");
    let node = Node::start();
    node.post("/v1/tenants", &json!({ "id": "0" })).expect(201);
    let output = Command::new(python)
        .args(["run", &format!("http://{}/openapi.json", node.address)])
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method,ignored_auth"])
        .args(["--max-examples", "10", "--seed", "1", "--workers", "1"])
        .args(["--phases", "examples,coverage,fuzzing"])
        .current_dir(node.folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
}
