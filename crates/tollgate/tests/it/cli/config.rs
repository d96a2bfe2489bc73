//! The configuration of a running gateway, and completions.

use std::fs;
use std::process::Command;

use super::node::{FILE, Node};

#[test]
fn a_configuration_is_shown_as_it_is_written() {
    let node = Node::start();
    assert_eq!(node.run(&["config", "show"]).good(), FILE);
}

#[test]
fn a_good_configuration_is_applied_and_a_bad_one_changes_nothing() {
    let node = Node::start();
    let file = node.folder.path().join("tollgate.yaml");
    let good = FILE.replace("rate: 10 }", "rate: 11 }");
    fs::write(node.folder.path().join("new.yaml"), &good).unwrap();
    let told = node.run(&["config", "apply", "new.yaml"]);
    assert_eq!(told.good(), "The configuration is in force.\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), good);

    let bad = "tenants: 7\nrotes: []\n";
    let told = node.command(&["config", "apply", "-"]).input(bad).told();
    let err = told.failed(78);
    for part in ["2 things are wrong", ":1:10", ":2:1", "`rotes`", "`routes`"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), good);
    let stale = node.run(&["config", "apply", "new.yaml", "--if-match", "\"old\""]);
    assert!(stale.failed(1).contains("read it again"), "{stale:?}");
}

#[test]
fn a_file_is_read_again() {
    let node = Node::start();
    let file = node.folder.path().join("tollgate.yaml");
    let changed = format!("{FILE}  - {{ id: third }}\n");
    fs::write(&file, &changed).unwrap();
    assert!(node.run(&["config", "reload"]).good().contains("is in force"));
    assert_eq!(node.run(&["config", "show"]).good(), changed);
    assert!(node.run(&["tenants", "list", "-q"]).good().contains("third"));
    fs::write(&file, "routes: 7\n").unwrap();
    assert!(node.run(&["config", "reload"]).failed(78).contains("tollgate.yaml:1:9"));
    assert_eq!(node.run(&["config", "show"]).good(), changed);
}

#[test]
fn completions_are_scripts_that_shells_read() {
    let node = Node::start();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = node.run(&["completions", shell]);
        assert!(script.good().contains("idempotency-key"), "{shell}");
        if shell == "bash" {
            let file = node.folder.path().join("tollgate.bash");
            fs::write(&file, script.good()).unwrap();
            assert!(Command::new("bash").arg("-n").arg(&file).status().unwrap().success());
        }
    }
}
