//! Opening what outlives the process, and keeping it tidy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate_admin::AdminToken;
use tollgate_engine::{Clock, Time};
use tollgate_gate::Gate;
use tollgate_policy::shapes;
use tollgate_storage::{Day, Embedded, InRedis, Store, StoredKey, Tidy};

use super::control::Served;
use super::failed;
use super::keys::Watched;
use crate::exit::Failure;
use crate::reach;

/// How often old things are deleted and keys that have ended are forgotten.
const EVERY: Duration = Duration::from_secs(600);
const DAY: u64 = 86_400;
/// How long the audit is kept, whatever becomes of usage: who did what is asked long after the figures are of no use.
const AUDIT_DAYS: u64 = 400;

/// The folder of the embedded database.
pub(crate) fn folder(storage: &shapes::Storage) -> PathBuf {
    let named = storage.path.as_ref().map(tollgate_policy::FilePath::as_path);
    named.unwrap_or(Path::new(shapes::Storage::DEFAULT_PATH)).to_owned()
}

/// Opens the database, or finds the one in Redis. Its keys are told to `watched` from then on.
pub(crate) fn open(file: &shapes::File, watched: &Watched) -> Result<Store, Failure> {
    let (watched, told) = (watched.clone(), Arc::clone(&watched.objects));
    let watch = move |key: &StoredKey| watched.changed(key);
    let opened = if file.storage.redis {
        let place = InRedis::at(reach::settings(&file.redis)?, file.redis.prefix.as_str());
        place.watch_keys(watch).watch_objects(move || told.notify_one()).open()
    } else {
        Embedded::at(folder(&file.storage)).watch_keys(watch).open()
    };
    opened.map_err(failed)
}

/// The admin token, and where people find it.
pub(crate) fn token(folder: &Path) -> Result<(AdminToken, String), Failure> {
    let given = std::env::var(AdminToken::VARIABLE).ok().filter(|text| !text.is_empty());
    if given.is_none() {
        // With a storage elsewhere, all that is here is this node's token.
        make_private(folder).map_err(failed)?;
    }
    let token = AdminToken::find(given.as_deref(), folder).map_err(failed)?;
    let place = match given {
        Some(_) => format!("${}", AdminToken::VARIABLE),
        None => folder.join(AdminToken::FILE).display().to_string(),
    };
    Ok((token, place))
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Deletes what is too old, for ever.
pub(crate) async fn keep_tidy(store: Store, served: Served) {
    loop {
        let now = served.gate().limiter().clock().now();
        served.forget_ended_keys(now);
        let what = too_old(now, served.retention_days());
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
        // Memory of counters and rules that are gone, a shard at a time between what else there is to do.
        while served.gate().limiter().sweep_next() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What is to be deleted where usage is kept for so many days.
fn too_old(now: Time, usage_days: u64) -> Tidy {
    let ago = |days: u64| {
        Time::from_secs((now.as_nanos() / 1_000_000_000).saturating_sub(days.saturating_mul(DAY)))
    };
    Tidy { now, usage_from: Day::of(ago(usage_days)), audit_from: ago(AUDIT_DAYS) }
}

/// The time by a gate's clock.
pub(crate) fn now(gate: &Gate) -> Time {
    gate.limiter().clock().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_is_kept_however_short_usage_is() {
        let day = |days: u64| Time::from_secs(days * DAY);
        let what = too_old(day(20_000), 1);
        assert_eq!((what.usage_from, what.audit_from), (Day::of(day(19_999)), day(19_600)));
        assert_eq!(too_old(day(20_000), 36_500).usage_from, Day::of(day(0)));
    }
}
