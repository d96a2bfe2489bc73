//! `tollgate serve`: from a configuration to a running gateway, and back.

mod access_log;
mod echo;
mod metrics;
mod reload;
mod running;
mod signals;
mod source;
mod watch;

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::Arc;

use tollgate_gate::Gate;
use tollgate_gateway::law::{FileKeys, Law, Metrics, Plane, Shared};
use tollgate_gateway::{Certificates, Gateway, Settings};
use tollgate_policy::shapes::Server;
use tracing::Level;

use crate::args::Serve;
use crate::exit::Failure;
use crate::output::print;
use access_log::AccessLog;
use running::{InUse, Running, bind_admin, not_bound};
use source::Source;
use watch::Watch;

pub(crate) fn run(args: &Serve) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(Level::INFO)
        .init();
    let running = start(Source::choose(args)?)?;
    print(&running.greeting())?;
    running.until_told()
}

/// Everything bound and started.
fn start(source: Source) -> Result<Running, Failure> {
    // Looked at before it is read: what changes from here on is a change.
    let watch = Watch::new(source.file());
    let policy = source.policy()?;
    let server = policy.settings().server.clone();
    let settings = settings(&server)?;
    let access_log = AccessLog::new(&server.access_log)?;
    let gate =
        Gate::new(usize::try_from(policy.settings().counters.max_keys).unwrap_or(usize::MAX));
    let (keys, metrics) = (FileKeys::of(&policy), Metrics::default());
    let plane = Plane::new(policy, (&gate, &metrics), None).map_err(failed)?;
    let shared = Shared::new((gate, metrics), keys, plane);
    let admin = bind_admin(&server)?;
    let gateway = Gateway::bind(settings).map_err(|error| not_bound(&server.listen, &error))?;
    let of_workers = Arc::clone(&shared);
    let log = Arc::clone(&access_log);
    let data = gateway.start(move || Law::new(&of_workers, Arc::clone(&log))).map_err(failed)?;
    let in_use = InUse { shared, data, access_log };
    Ok(Running { source, in_use, admin, watch })
}

/// What the data plane is started with, and changed to.
fn settings(server: &Server) -> Result<Settings, Failure> {
    let settings = Settings::new(server);
    match &server.tls {
        Some(tls) => Ok(settings.certificates(Certificates::read(tls).map_err(failed)?)),
        None => Ok(settings),
    }
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}
