//! A backup of the database, from a shell.

use std::path::Path;

use tollgate_storage::Embedded;

use super::node::wait;
use super::{Node, Run};

fn keys_in(folder: &Path) -> usize {
    let store = Embedded::at(folder).open().unwrap();
    let mut keys = 0;
    wait(async {
        store.for_each_key(tollgate_core::Time::EPOCH, |_| keys += 1).await.unwrap();
        store.close().await.unwrap();
    });
    keys
}

#[test]
fn a_database_is_copied_while_its_gateway_runs_and_while_it_does_not() {
    let mut node = Node::start();
    let folder = node.folder.path().to_owned();
    for name in ["running", "stopped"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    node.run(&["keys", "create", "--tenant", "acme", "-q"]).good();
    // It needs neither address nor token.
    let told = Run::new(&folder, &["backup", "running/tollgate.db"]).told();
    assert!(told.good().starts_with("./tollgate-data is backed up to running/tollgate.db ("));
    node.run(&["keys", "create", "--tenant", "acme", "-q"]).good();
    node.stop();
    let data = folder.join("tollgate-data");
    let args = ["backup", "stopped/tollgate.db", "--json", "--data", data.to_str().unwrap()];
    let told = Run::new(&folder, &args).told();
    assert!(told.json()["bytes"].as_u64().unwrap() > 4096);
    assert_eq!((keys_in(&folder.join("running")), keys_in(&folder.join("stopped"))), (1, 2));
}

#[test]
fn nothing_is_overwritten_and_nothing_is_made_up() {
    let node = Node::start();
    let folder = node.folder.path();
    std::fs::write(folder.join("there"), "precious").unwrap();
    let told = Run::new(folder, &["backup", "there"]).told();
    assert!(told.failed(1).contains("already"), "{told:?}");
    assert_eq!(std::fs::read_to_string(folder.join("there")).unwrap(), "precious");
    let told = Run::new(folder, &["backup", "copy", "--data", "elsewhere"]).told();
    let err = told.failed(1);
    assert!(err.contains("no database elsewhere/tollgate.db") && err.contains("--data"), "{err}");
    assert!(!folder.join("elsewhere").exists());
    std::fs::write(folder.join("r.yaml"), "storage: { redis: true }\n").unwrap();
    let told = Run::new(folder, &["backup", "copy", "--config", "r.yaml"]).told();
    assert!(told.failed(1).contains("Redis"), "{told:?}");
}
