//! `tollgate serve`: from a configuration to a running gateway, and back.

mod echo;
mod metrics;
mod reload;
mod running;
mod signals;
mod source;
mod watch;

use std::fmt::Display;
use std::sync::Arc;

use tollgate_gate::Gate;
use tollgate_gateway::law::{FileKeys, Law, Metrics, Plane, Shared};
use tollgate_gateway::{Certificates, Gateway, Settings};
use tracing::Level;

use crate::args::Serve;
use crate::exit::Failure;
use crate::output::print;
use running::{Running, bind_admin, not_bound};
use source::Source;
use watch::Watch;

pub(crate) fn run(args: &Serve) -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(Level::INFO).init();
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
    let mut settings = Settings::new(&server);
    if let Some(tls) = &server.tls {
        settings = settings.certificates(Certificates::read(tls).map_err(failed)?);
    }
    let gate =
        Gate::new(usize::try_from(policy.settings().counters.max_keys).unwrap_or(usize::MAX));
    let (keys, metrics) = (FileKeys::of(&policy), Metrics::default());
    let plane = Plane::new(policy, (&gate, &metrics), None).map_err(failed)?;
    let shared = Shared::new((gate, metrics), keys, plane);
    let admin = bind_admin(&server)?;
    let gateway = Gateway::bind(settings).map_err(|error| not_bound(&server.listen, &error))?;
    let of_workers = Arc::clone(&shared);
    let data = gateway.start(move || Law::new(&of_workers, ())).map_err(failed)?;
    Ok(Running { source, shared, data, admin, watch })
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}
