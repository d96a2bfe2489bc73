//! One binary for all tests of the storage.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod backup;
mod concurrency;
mod control;
mod failing;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/groups.rs"]
mod groups;
mod homes;
mod integrity;
mod keys;
mod kills;
mod late_usage;
mod opening;
#[allow(dead_code, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/ports.rs"]
mod ports;
mod quota_gate;
mod quota_model;
mod quotas;
#[allow(dead_code, unused, reason = "it has what the counters' tests need as well")]
#[path = "../../../redis/tests/it/servers.rs"]
mod servers;
mod shared;
mod shared_quotas;
mod snapshot;
mod troubled;
mod usage;

use std::convert::Infallible;
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::Time;
use tollgate_policy::ApiKey;
use tollgate_storage::{Change, KeyDraft, KeyTerms, StoredKey};

pub use integrity::integrity;

/// The present moment of all tests.
pub const NOW: Time = Time::from_secs(1_800_000_000);

/// A runtime of this thread's own.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A key of which everything follows from `seed`.
pub fn key(tenant: &str, seed: u64) -> (ApiKey, StoredKey) {
    let mut step = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (step >> 56) as u8;
        }
        Ok::<(), Infallible>(())
    };
    let draft =
        KeyDraft { tenant: tenant.parse().unwrap(), user: None, terms: KeyTerms::default() };
    draft.mint_from(NOW, fill).unwrap()
}

/// The change that issues `key`.
pub fn issue(key: &StoredKey) -> Vec<Change> {
    vec![Change::IssueKey(Box::new(key.clone()))]
}

/// This very program as another process, running only the test `name`, which finds its folder by [`folder_of_child`].
pub fn child(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env("TOLLGATE_TEST_FOLDER", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Where a child works; nothing if the test was not started as one.
pub fn folder_of_child() -> Option<std::path::PathBuf> {
    std::env::var_os("TOLLGATE_TEST_FOLDER").map(Into::into)
}
