//! What SQLite's own program says about a database after a crash: another program than the one that wrote it.

use std::path::Path;
use std::process::Command;

/// `ok` of a database in this folder that nobody has open and that is whole.
pub fn integrity(folder: &Path) -> String {
    let file = folder.join("tollgate.db");
    // The program makes what is not there, and calls that whole.
    assert!(file.exists(), "{} is not there", file.display());
    let check = Command::new("sqlite3").arg(file).arg("PRAGMA integrity_check").output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout).trim().to_owned();
    if said.is_empty() { format!("{check:?}") } else { said }
}
