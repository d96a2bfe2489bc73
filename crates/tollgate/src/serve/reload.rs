//! Another configuration while requests are under way.

use tollgate_gateway::law::{FileKeys, Plane};
use tollgate_policy::shapes;

use super::running::InUse;
use super::source::Source;
use crate::exit::Failure;

/// Reads the file again and puts it into force; a bad one changes nothing and says why.
pub(crate) fn reload(source: &Source, in_use: &InUse) {
    match try_reload(source, in_use) {
        Ok(()) => tracing::info!("a new configuration is in force"),
        Err(Failure::BadConfiguration) => {
            tracing::error!("the new configuration is not usable: the old one stays in force");
        }
        Err(Failure::Failed(why) | Failure::Usage(why)) => {
            tracing::error!("the new configuration is not used, the old one stays in force: {why}");
        }
    }
}

/// Everything that can fail comes first; what follows is swapped at once.
fn try_reload(source: &Source, InUse { shared, data, access_log }: &InUse) -> Result<(), Failure> {
    let policy = source.policy()?;
    let before = shared.plane();
    let fixed = needs_restart(before.in_force().policy().settings(), policy.settings());
    if !fixed.is_empty() {
        let fields = fixed.join("`, `");
        return Err(Failure::Failed(format!("a change of `{fields}` needs a restart")));
    }
    let (server, counters) = (policy.settings().server.clone(), policy.settings().counters.clone());
    let settings = super::settings(&server)?;
    let sink = access_log.open(&server.access_log)?;
    let keys = FileKeys::of(&policy);
    let plane = Plane::new(policy, (shared.gate(), shared.metrics()), Some(&before))
        .map_err(super::failed)?;
    shared.keys().adopt(&keys);
    shared.enforce(plane);
    shared.gate().limiter().set_max_keys(usize::try_from(counters.max_keys).unwrap_or(usize::MAX));
    data.change(settings);
    access_log.turn_to(sink);
    Ok(())
}

/// What differs of that which is set up once.
fn needs_restart(old: &shapes::File, new: &shapes::File) -> Vec<&'static str> {
    let (before, after) = (&old.server, &new.server);
    let checks = [
        ("server.listen", before.listen != after.listen),
        ("server.admin_listen", before.admin_listen != after.admin_listen),
        ("server.workers", before.workers != after.workers),
        ("storage", old.storage != new.storage),
        ("redis.url", old.redis.url != new.redis.url),
    ];
    checks.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
