//! Opening what outlives the process, and keeping it tidy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_admin::AdminToken;
use tollgate_engine::{Clock, Time};
use tollgate_gate::Gate;
use tollgate_policy::shapes;
use tollgate_storage::{Day, Embedded, Store, Tidy};

use super::control::Served;
use super::failed;
use super::keys::Watched;
use crate::exit::Failure;

/// How often old things are deleted and keys that have ended are forgotten.
const EVERY: Duration = Duration::from_secs(600);
const DAY: u64 = 86_400;

/// The folder of the embedded database.
pub(crate) fn folder(storage: &shapes::Storage) -> PathBuf {
    let named = storage.path.as_ref().map(|path| path.as_path());
    named.unwrap_or(Path::new(shapes::Storage::DEFAULT_PATH)).to_owned()
}

/// Opens the database. Its keys are told to `watched` from then on.
pub(crate) fn open(folder: &Path, watched: &Watched) -> Result<Store, Failure> {
    let watched = watched.clone();
    let opened = Embedded::at(folder).watch_keys(move |key| watched.changed(key)).open();
    opened.map_err(failed)
}

/// The admin token, and where people find it.
pub(crate) fn token(folder: &Path) -> Result<(AdminToken, String), Failure> {
    let given = std::env::var(AdminToken::VARIABLE).ok().filter(|text| !text.is_empty());
    let token = AdminToken::find(given.as_deref(), folder).map_err(failed)?;
    let place = match given {
        Some(_) => format!("${}", AdminToken::VARIABLE),
        None => folder.join(AdminToken::FILE).display().to_string(),
    };
    Ok((token, place))
}

/// Deletes what is too old, for ever.
pub(crate) async fn keep_tidy(store: Store, served: Served) {
    loop {
        let (now, days) = (served.gate().limiter().clock().now(), served.retention_days());
        served.forget_ended_keys(now);
        let from = Time::from_secs((now.as_nanos() / 1_000_000_000).saturating_sub(days * DAY));
        let what = Tidy { now, usage_from: Day::of(from), audit_from: from };
        loop {
            match store.tidy(what).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break,
                Err(why) => {
                    tracing::warn!("what is too old could not be deleted: {why}");
                    break;
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The time by a gate's clock.
pub(crate) fn now(gate: &Gate) -> Time {
    gate.limiter().clock().now()
}
