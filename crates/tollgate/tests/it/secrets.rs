//! What the process says of a bad file, which goes to logs that many read.

use std::process::Command;

use crate::keys::KEY;
use crate::support::{SERVER, Tollgate, Upstream};

/// Bad files, each with a secret that is where it does not belong, or beside what is wrong.
fn bad_files() -> [String; 3] {
    [
        format!("keys: [ {{ tenant: acme, sha256: {KEY} }} ]\n"),
        format!("keys: [ {{ tenant: acme, sha256: {KEY}, pln: p }} ]\n"),
        "redis: { url: \"redis://:hunter2@127.0.0.1\", mode: singel }\n".to_owned(),
    ]
}

fn has_secret(said: &str) -> bool {
    said.contains(&KEY[8..]) || said.contains("hunter2")
}

#[test]
fn a_bad_file_at_the_start_is_told_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    for text in bad_files() {
        std::fs::write(folder.path().join("bad.yaml"), format!("{SERVER}{text}")).unwrap();
        for command in ["serve", "check"] {
            let mut tollgate = Command::new(env!("CARGO_BIN_EXE_tollgate"));
            let args: &[&str] =
                if command == "serve" { &["serve", "--config"] } else { &["check"] };
            let output =
                tollgate.args(args).arg("bad.yaml").current_dir(folder.path()).output().unwrap();
            assert_eq!(output.status.code(), Some(78), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("bad.yaml:2:") && said.contains('^'), "{said}");
            assert!(!has_secret(&said), "{said}");
        }
    }
}

#[test]
fn a_bad_file_while_it_runs_is_told_without_its_secrets() {
    let upstream = Upstream::new("", "ok");
    let good = format!("upstreams: {{ api: {{ url: \"http://{}\" }} }}\n", upstream.address);
    let mut gateway = Tollgate::with(&good);
    let mut said = String::new();
    for text in bad_files() {
        gateway.rewrite(&text);
        said += &gateway.said_until("the old one stays in force");
        gateway.signal("-HUP");
        said += &gateway.said_until("the old one stays in force");
    }
    said += &gateway.said();
    assert!(said.matches('^').count() >= 6, "{said}");
    assert!(!has_secret(&said), "{said}");
}
