//! The data plane as the control plane sees it: another configuration, while requests are under way.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_admin::live::{self, LiveLimit, NoSuch, Whose};
use tollgate_admin::{ConfigInForce, ConfigText, DataPlane, NotReady, Ready, RefusedRequest};
use tollgate_engine::{Clock, Time};
use tollgate_gate::{Gate, InForce};
use tollgate_gateway::law::{Plane, Shared};
use tollgate_gateway::{Certificates, TlsError, Tuning};
use tollgate_policy::compile::{Made, Policy};
use tollgate_policy::shapes;

use super::access_log::AccessLog;
use super::declared;
use super::keys::AllKeys;
use super::lost_upstreams::LostUpstreams;
use super::opened::Opened;
use super::refused::Refusals;
use super::rewrite::write_anew;
use super::source::Source;
use crate::output::tell;

/// What is served, for whoever changes it. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Served(Arc<Parts>);

/// What another configuration changes.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) source: Source,
    pub(crate) shared: Arc<Shared<AllKeys>>,
    pub(crate) tuning: Tuning,
    pub(crate) admin_certificates: Option<Arc<Certificates>>,
    pub(crate) access_log: Arc<AccessLog>,
    pub(crate) refusals: Arc<Refusals>,
    /// The configuration in force, as it is written.
    pub(crate) text: ArcSwap<Arc<str>>,
}

impl Served {
    pub(crate) fn new(parts: Parts) -> Served {
        Served(Arc::new(parts))
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<AllKeys>> {
        &self.0.shared
    }

    pub(crate) fn gate(&self) -> &Gate {
        self.0.shared.gate()
    }

    /// Whether the file says what is in force: what the API has just written is no change.
    pub(crate) fn is_in_force(&self) -> bool {
        self.0.source.read().is_ok_and(|text| *text == *self.0.text.load().as_bytes())
    }

    /// The `server` section in force.
    pub(crate) fn server(&self) -> shapes::Server {
        self.0.shared.plane().in_force().policy().settings().server.clone()
    }

    /// New connections are shown what the files of the certificates hold now; if they are faulty, what they held before.
    pub(crate) fn renew_certificates(&self) {
        if self.server().tls.is_some() {
            tell_of_certificates(self.0.tuning.renew_certificates());
        }
        self.renew_admin_certificates();
    }

    /// The same for operators alone: callers' are read with every configuration.
    pub(crate) fn renew_admin_certificates(&self) {
        if let Some(certificates) = self.admin_certificates() {
            tell_of_certificates(certificates.reload());
        }
    }

    /// What operators are shown, if the admin API has TLS.
    pub(crate) fn admin_certificates(&self) -> Option<&Arc<Certificates>> {
        self.0.admin_certificates.as_ref()
    }

    pub(crate) fn retention_days(&self) -> u64 {
        self.0.shared.plane().in_force().policy().settings().usage.retention_days
    }

    pub(crate) fn forget_ended_keys(&self, now: Time) {
        self.0.shared.keys().sweep(now);
    }

    /// Writes what is left of the access log.
    pub(crate) async fn close_log(&self) {
        self.0.access_log.close().await;
    }

    /// Opens what a text of the configuration names beside its policy.
    fn open(&self, policy: &Policy, text: &[u8]) -> Result<Opened, NotReady> {
        let opened = Opened::of(&policy.settings().server, &self.0.access_log);
        opened.map_err(|why| why.told(&self.0.source, text))
    }

    /// Puts everything into force that was made ready; nothing of it can fail.
    fn enforce(&self, ready: tollgate_gateway::law::ReadyPlane, opened: Option<Opened>) {
        let Parts { shared, tuning, access_log, .. } = &*self.0;
        let max_keys = ready.policy().settings().counters.max_keys;
        let plane = ready.bind(shared.gate(), shared.metrics());
        shared.enforce(plane);
        shared.gate().set_max_keys(usize::try_from(max_keys).unwrap_or(usize::MAX));
        if let Some(Opened { settings, sink }) = opened {
            tuning.change(settings);
            access_log.turn_to(sink);
        }
    }

    /// What the API has made may be declared by what is in force since the start, and stay so, and by nothing new.
    fn compile(&self, text: &[u8], (made, is_same): (Made, bool)) -> Result<Policy, NotReady> {
        let loaded = self.0.source.load(text)?;
        let stored = (self.0.shared.keys().snapshot(), self.now());
        let before = self.0.shared.plane();
        let before = before.in_force().policy();
        let twice = (!is_same).then(|| declared::faults(&loaded, before, stored)).flatten();
        let policy = match (Policy::compile(loaded, made), twice) {
            (Ok(policy), None) => policy,
            (Ok(_), Some(keys)) => return Err(keys.into()),
            (Err(others), keys) => return Err(declared::with(keys.as_deref(), others)),
        };
        let fields = needs_restart(before.settings(), policy.settings());
        if fields.is_empty() { Ok(policy) } else { Err(NotReady::NeedsRestart(fields)) }
    }
}

impl DataPlane for Served {
    fn now(&self) -> Time {
        self.gate().limiter().clock().now()
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(self.0.shared.plane().in_force())
    }

    fn config(&self) -> ConfigInForce {
        let text = Arc::clone(&**self.0.text.load());
        ConfigInForce { name: self.0.source.name().into(), text }
    }

    fn prepare(&self, text: ConfigText<'_>, made: Made) -> Result<Ready, NotReady> {
        let (bytes, is_file) = match text {
            ConfigText::InForce => (self.config().text.as_bytes().to_vec(), false),
            ConfigText::New(text) if self.0.source.file().is_some() => {
                (text.as_bytes().to_vec(), false)
            }
            ConfigText::New(_) => return Err(NotReady::NoFile),
            ConfigText::File => {
                let read = self.0.source.read();
                (read.map_err(|why| NotReady::Failed(why.to_string()))?, true)
            }
        };
        // Whoever has written a file looks at what the process says.
        let say = |why: &NotReady| {
            if let (NotReady::Faults(faults), true) = (why, is_file) {
                tell(&faults.diagnostics);
            }
        };
        // What the API makes changes nothing that is declared, or has to be opened.
        let is_same = matches!(text, ConfigText::InForce);
        let policy = self.compile(&bytes, (made, is_same)).inspect_err(say)?;
        if is_file {
            tell(policy.warnings());
        }
        let opened = (!is_same).then(|| self.open(&policy, &bytes));
        let opened = opened.transpose().inspect_err(say)?;
        let before = self.0.shared.plane();
        let stored = (self.0.shared.keys().snapshot(), self.now());
        let lost = LostUpstreams::between((before.in_force().policy(), &policy), stored);
        if is_file {
            lost.said().for_each(|what| tracing::warn!("{what}"));
            declared::warn(&policy, stored);
        }
        let plane = Plane::prepare(policy.clone(), Some(&before));
        let plane = plane.map_err(|why| NotReady::Failed(why.to_string()))?;
        // It was read as a configuration, so it is text.
        let text = (!is_same).then(|| Arc::<str>::from(String::from_utf8_lossy(&bytes)));
        let served = self.clone();
        let ready = Ready::new(&policy, move || {
            served.enforce(plane, opened);
            if let Some(text) = text {
                served.0.text.store(Arc::new(text));
            }
        });
        Ok(ready.warning(lost.said(), "declare it again, or change the keys' `rate_limit`"))
    }

    fn is_config_written(&self) -> bool {
        self.0.source.file().is_none() || self.is_in_force()
    }

    fn write_config(&self, text: &str) -> Result<(), NotReady> {
        let file = self.0.source.file().ok_or(NotReady::NoFile)?;
        write_anew(file, text)
            .map_err(|why| NotReady::Failed(format!("{} cannot be written: {why}", file.display())))
    }

    fn limits(&self, whose: &Whose) -> Result<Vec<LiveLimit>, NoSuch> {
        live::look(self.gate(), &self.in_force(), whose)
    }

    fn reset(&self, whose: &Whose, counter: &str) -> Result<bool, NoSuch> {
        live::reset(self.gate(), &self.in_force(), (whose, counter))
    }

    fn refusal(&self, request_id: &str) -> Option<RefusedRequest> {
        self.0.refusals.find(request_id)
    }
}

fn tell_of_certificates(renewed: Result<(), TlsError>) {
    match renewed {
        Ok(()) => tracing::info!("the certificates were read again"),
        Err(why) => {
            tracing::error!("the new certificates are not used, the old ones are shown: {why}");
        }
    }
}

/// What differs of that which is set up once.
fn needs_restart(old: &shapes::File, new: &shapes::File) -> Vec<String> {
    let (before, after) = (&old.server, &new.server);
    let checks = [
        ("server.listen", before.listen != after.listen),
        ("server.admin_listen", before.admin_listen != after.admin_listen),
        ("server.admin_exposed", before.admin_exposed != after.admin_exposed),
        ("server.admin_tls", before.admin_tls != after.admin_tls),
        ("server.workers", before.workers != after.workers),
        ("storage", old.storage != new.storage),
        ("redis.url", old.redis.url != new.redis.url),
        ("redis.urls", old.redis.urls != new.redis.urls),
        ("redis.mode", old.redis.mode != new.redis.mode),
        ("redis.master", old.redis.master != new.redis.master),
        ("redis.timeout_ms", old.redis.timeout_ms != new.redis.timeout_ms),
        ("redis.prefix", old.redis.prefix.as_str() != new.redis.prefix.as_str()),
        ("rate_limit_sync", old.rate_limit_sync != new.rate_limit_sync),
    ];
    checks.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_up_once_needs_a_restart_and_nothing_else_does() {
        let read =
            |text: &str| tollgate_policy::load("tollgate.yaml", text.as_bytes()).unwrap().value;
        for (text, field) in [
            ("server: { listen: 127.0.0.1:1 }", "server.listen"),
            ("server: { admin_listen: 127.0.0.1:1 }", "server.admin_listen"),
            ("server: { admin_exposed: true }", "server.admin_exposed"),
            ("server: { admin_tls: { cert: a, key: b } }", "server.admin_tls"),
            ("server: { workers: 3 }", "server.workers"),
            ("storage: { path: ./elsewhere }", "storage"),
            ("redis: { url: \"redis://127.0.0.1:1\" }", "redis.url"),
            ("redis: { urls: [\"redis://127.0.0.1:1\"] }", "redis.urls"),
            ("redis: { mode: sentinel }", "redis.mode"),
            ("redis: { master: other }", "redis.master"),
            ("redis: { timeout_ms: 51 }", "redis.timeout_ms"),
            ("redis: { prefix: other }", "redis.prefix"),
            ("rate_limit_sync: { enabled: true }", "rate_limit_sync"),
        ] {
            assert_eq!(needs_restart(&read("tenants: []"), &read(text)), [field], "{text}");
        }
        let live =
            read("server: { tls: { cert: a, key: b }, access_log: stdout, caps: { headers: 7 } }");
        assert_eq!(needs_restart(&read("tenants: []"), &live), Vec::<String>::new());
    }
}
