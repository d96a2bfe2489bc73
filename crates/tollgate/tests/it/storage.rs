//! The database of a gateway: what is kept for how long, and when it cannot be used.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::keys::{KEY, digest};
use crate::support::{SERVER, Tollgate, Upstream, eventually, get};

fn file(upstream: &Upstream, rest: &str) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
tenants: [ {{ id: acme }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
{rest}
",
        upstream.address,
        digest()
    )
}

/// SQLite's own program, with the database in a gateway's folder. Like whoever shares a database it waits for its turn: a
/// gateway that has just begun deletes what is old. And it ends by the first statement that fails.
fn sqlite(folder: &Path) -> Command {
    let mut sqlite = Command::new("sqlite3");
    sqlite.args(["-bail", "-cmd", ".timeout 60000"]).arg(folder.join("tollgate-data/tollgate.db"));
    sqlite
}

/// What it says to a statement.
fn sql(folder: &Path, statement: &str) -> String {
    let output = sqlite(folder).arg(statement).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn serve(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--config", "tollgate.yaml"])
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn old_usage_is_deleted_as_the_file_says_and_the_audit_stays() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, "usage: { retention_days: 2 }"));
    gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    assert_eq!(get(&gateway.url("/x"), KEY).status, 200);
    let folder = gateway.stop();
    let count = |table: &str| sql(folder.path(), &format!("SELECT count(*) FROM {table}"));
    assert_eq!((count("usage"), count("audit")), ("1".to_owned(), "1".to_owned()));
    // As if all of it were ten days old.
    sql(folder.path(), "UPDATE usage SET day = day - 10");
    sql(folder.path(), "UPDATE audit SET at = at - 10 * 86400 * 1000000000");
    let gateway = Tollgate::again(folder);
    eventually("old usage is deleted", || {
        sql(gateway.folder(), "SELECT count(*) FROM usage") == "0"
    });
    let folder = gateway.stop();
    assert_eq!(sql(folder.path(), "SELECT count(*) FROM audit"), "1");
}

#[test]
fn a_file_that_changes_while_the_storage_is_taken_is_put_into_force_when_it_is_free() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, "usage: { retention_days: 2 }"));
    let mut taken =
        sqlite(gateway.folder()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ask = taken.stdin.take().unwrap();
    writeln!(ask, "BEGIN IMMEDIATE;\nSELECT 'taken';").unwrap();
    let mut told = String::new();
    BufReader::new(taken.stdout.as_mut().unwrap()).read_line(&mut told).unwrap();
    assert_eq!(told, "taken\n");
    gateway.replace(&format!("{SERVER}{}", file(&upstream, "usage: { retention_days: 3 }")));
    gateway.wait_for("will be tried again");
    let in_force = || gateway.api("/v1/config", &[]).body.contains("retention_days: 3");
    assert!(!in_force());
    drop(ask);
    taken.wait().unwrap();
    gateway.wait_for("a new configuration is in force");
    assert!(in_force());
    gateway.stop();
}

#[test]
fn usage_that_was_told_is_not_lost_in_a_crash() {
    let upstream = Upstream::new("", "ok");
    let mut gateway = Tollgate::with(&file(&upstream, ""));
    for round in 1..=3 {
        assert_eq!(get(&gateway.url("/x"), KEY).status, 200);
        let told = |gateway: &Tollgate| {
            let items = gateway.api("/v1/usage?tenant=acme", &[]).json()["items"].clone();
            items[0]["requests"].as_u64().unwrap_or(0)
        };
        eventually("it is told", || told(&gateway) == round);
        gateway.signal("-KILL");
        gateway = Tollgate::again(gateway.kill());
        assert_eq!(told(&gateway), round);
    }
    gateway.stop();
}

#[test]
fn a_newer_schema_is_refused_with_1_and_left_alone() {
    let upstream = Upstream::new("", "ok");
    let folder = Tollgate::with(&file(&upstream, "")).stop();
    sql(folder.path(), "PRAGMA user_version = 4711");
    let refused = serve(folder.path());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("schema version 4711") && told.contains("newer Tollgate"), "{told}");
    assert_eq!(sql(folder.path(), "PRAGMA user_version"), "4711");
}

/// Where nothing can be written a gateway does not start, and says what it needs; root may write anywhere, so that the folder is
/// a file here.
#[test]
fn a_folder_that_cannot_be_written_is_refused_with_1_whatever_is_to_happen_on_errors() {
    let upstream = Upstream::new("", "ok");
    let folder = tempfile::tempdir().unwrap();
    let text = file(&upstream, "storage: { path: ./occupied/data, on_error: fail_open }");
    std::fs::write(folder.path().join("tollgate.yaml"), format!("{SERVER}{text}")).unwrap();
    std::fs::write(folder.path().join("occupied"), "").unwrap();
    let refused = serve(folder.path());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("occupied") && told.contains("storage.on_error"), "{told}");
}

/// A full disk has no room for the number of the process; that alone keeps nobody from starting.
#[test]
fn a_gateway_starts_where_its_lock_cannot_say_whose_it_is() {
    let upstream = Upstream::new("", "ok");
    let folder = Tollgate::with(&file(&upstream, "")).stop();
    let lock = folder.path().join("tollgate-data/tollgate.lock");
    std::fs::remove_file(&lock).unwrap();
    // Whatever is written there: there is no room for it.
    std::os::unix::fs::symlink("/dev/full", &lock).unwrap();
    let gateway = Tollgate::again(folder);
    assert_eq!(get(&gateway.url("/x"), KEY).status, 200);
    gateway.stop();
}
