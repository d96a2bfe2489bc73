//! `check`, `explain` and `schema`: what they print and how they end.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn tollgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate")).args(args).output().unwrap()
}

fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_good_file_is_called_good() {
    let output = tollgate(&["check", &example("hierarchy.yaml")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("good. 9 tenants"), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn every_fault_of_a_bad_file_is_shown_with_its_line_and_what_would_be_right() {
    let bad = b"tenants:\n  - { id: acme, rate_limit: { sustaned: { rate: 5 } } }\nroutes: 7\n";
    let output = with_input(&["check", "-"], bad);
    assert_eq!(output.status.code(), Some(78));
    let told = text(&output.stderr);
    for part in [
        "unknown field `sustaned`, did you mean `sustained`?",
        "-:2:31",
        "  - { id: acme, rate_limit: { sustaned: { rate: 5 } } }",
        "-:3:9",
    ] {
        assert!(told.contains(part), "{part} is missing of:\n{told}");
    }
}

/// `serve` would refuse to start by it, unless it is told on its command line that it is meant.
#[test]
fn an_admin_api_that_is_open_to_the_network_is_warned_of() {
    let open = "server:\n  admin_listen: 0.0.0.0:9090\n";
    let output = with_input(&["check", "-"], open.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("1 warning"), "{}", text(&output.stdout));
    let told = text(&output.stderr);
    for part in ["-:2:17", "open to the network", "`admin_exposed: true`", "serve --admin-exposed"]
    {
        assert!(told.contains(part), "{part} is missing of:\n{told}");
    }
    let output = with_input(&["check", "-", "--json"], open.as_bytes());
    let line: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!((&line["line"], &line["severity"]), (&json!(2), &json!("warning")));
    for meant in ["admin_exposed: true", "admin_tls: { cert: a, key: b }"] {
        let output = with_input(&["check", "-"], format!("{open}  {meant}\n").as_bytes());
        assert_eq!(text(&output.stderr), "", "{meant}");
    }
}

/// Broken before: both were called faults.
#[test]
fn errors_and_warnings_of_a_bad_file_are_counted_apart() {
    let bad = b"upstreams: { a: { url: \"http://a\" } }\ntenants: [{ id: t, plan: nope }]\n";
    let output = with_input(&["check", "-"], bad);
    assert_eq!(text(&output.stdout), "-: not usable, 1 error, 1 warning\n");
    let output = with_input(&["check", "-"], b"zzz: 1\ntenants: [{ id: t, plan: nope }]\n");
    assert_eq!(text(&output.stdout), "-: not usable, 2 errors\n");
}

#[test]
fn faults_are_json_lines_for_programs() {
    let output = with_input(&["check", "-", "--json"], b"routes: 7\nplans: 8\n");
    assert_eq!(output.status.code(), Some(78));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["line"], &lines[1]["severity"]), (&json!(2), &json!("error")));
}

/// Whatever a file contains, the answer is one of the two codes, with words.
#[test]
fn files_that_are_none_end_with_78() {
    let deep = "[".repeat(100_000);
    let bomb = (1..40).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
        text + &format!("a{n}: &a{n} [*a{0},*a{0},*a{0}]\n", n - 1)
    });
    let large = vec![b'#'; tollgate_policy::MAX_BYTES + 1];
    for input in
        [&b""[..], b"\xff\xfe\x00", b"\x00", deep.as_bytes(), bomb.as_bytes(), b"a: [", &large]
    {
        let output = with_input(&["check", "-"], input);
        assert_eq!(output.status.code(), Some(78), "{:?}", &input[..input.len().min(40)]);
        assert!(!output.stderr.is_empty());
    }
    let missing = tollgate(&["check", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot read /nowhere/at/all"));
}

#[test]
fn explain_has_the_promised_shape() {
    let output = tollgate(&[
        "explain",
        "--config",
        &example("quickstart.yaml"),
        "--tenant",
        "acme",
        "--user",
        "ci",
        "--route",
        "GET /v1/models",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["cost"], 1);
    assert_eq!(value["effective"], Value::Null);
    let first = &value["chain"][0];
    for (field, expected) in [
        ("policy", json!("user-second")),
        ("source", json!("plan:free")),
        ("scope", json!("user")),
        ("key", json!("tollgate:ratelimit:user:plan:free/acme/ci:second")),
        ("rate", json!(10)),
        ("window", json!("second")),
        ("capacity", json!(100)),
        ("algorithm", json!("token_bucket")),
        ("strategy", json!("reject")),
        ("consistency", json!("local")),
    ] {
        assert_eq!(first[field], expected, "{field}");
    }
    assert_eq!(value["chain"][1]["policy"], "user-month");
}

#[test]
fn explain_tells_people_where_each_limit_stands() {
    let config = example("hierarchy.yaml");
    let args =
        ["explain", "--config", &config, "--tenant", "customer-1", "--route", "GET /v1/models"];
    let output = tollgate(&args);
    let told = text(&output.stdout);
    for part in [
        "tenant tree: at most 1000 a minute (set by customer-1), burst 100 (set by customer-1)",
        "a request costs 1",
        "tenant-minute-2  tenant:partner",
        "hierarchy.yaml:29",
    ] {
        assert!(told.contains(part), "{part} is missing of:\n{told}");
    }
    let output = tollgate(&["explain", "--config", &config, "--tenant", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "tollgate: there is no tenant `nobody`\n");
}

#[test]
fn the_schema_is_json_schema() {
    let output = tollgate(&["schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn usage_is_2() {
    assert_eq!(tollgate(&["chekc"]).status.code(), Some(2));
    assert_eq!(tollgate(&[]).status.code(), Some(2));
    assert_eq!(tollgate(&["--version"]).status.code(), Some(0));
}
