//! A gateway that runs, until it is told to stop.

use std::fmt::Write;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tollgate_admin::{Health, Open};
use tollgate_gateway::law::{FileKeys, Shared};
use tollgate_policy::ListenAddress;
use tollgate_policy::shapes::Server;

use super::access_log::AccessLog;
use super::failed;
use super::metrics::Scraped;
use super::reload::reload;
use super::signals::{Signal, Signals};
use super::source::Source;
use super::watch::Watch;
use crate::exit::Failure;

/// A gateway that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) source: Source,
    pub(crate) in_use: InUse,
    pub(crate) admin: TcpListener,
    pub(crate) watch: Watch,
}

/// What another configuration changes while it runs.
#[derive(Debug)]
pub(crate) struct InUse {
    pub(crate) shared: Arc<Shared<FileKeys>>,
    pub(crate) data: tollgate_gateway::Running,
    pub(crate) access_log: Arc<AccessLog>,
}

impl Running {
    /// What is said when it has started.
    pub(crate) fn greeting(&self) -> String {
        let scheme = if self.plane_has_tls() { "https" } else { "http" };
        let gateway = format!("{scheme}://{}", reachable(self.in_use.data.address()));
        let admin =
            self.admin.local_addr().map_or_else(|_| "-".to_owned(), |at| format!("http://{at}"));
        let mut text = format!("Tollgate {} is ready.\n\n", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "  gateway  {gateway}");
        let _ = writeln!(text, "  admin    {admin}/readyz, {admin}/metrics");
        if let Source::BuiltIn { upstream, key, echo, .. } = &self.source {
            let what = if echo.is_some() { "  (built in: it tells what it was sent)" } else { "" };
            let _ = writeln!(text, "  upstream {upstream}{what}");
            let _ = writeln!(text, "\nTry it:\n");
            let _ = writeln!(text, "curl -i {gateway}/hello -H \"x-api-key: {}\"", key.as_str());
            text.push_str(
                "\nThe key is good until this process ends. A client may make 50 requests a second, 100 at once; the\n\
                 headers of every answer tell how many are left, and a refusal when to come back. See one:\n\n",
            );
            let _ = writeln!(
                text,
                "curl -s -o /dev/null -w '%{{http_code}} ' \"{gateway}/?[1-150]\" -H \"x-api-key: {}\"",
                key.as_str()
            );
            text.push_str(
                "\nNext: write a file (examples/quickstart.yaml) and start with --config.\n",
            );
        }
        text
    }

    fn plane_has_tls(&self) -> bool {
        self.in_use.shared.plane().in_force().policy().settings().server.tls.is_some()
    }

    /// Serves until SIGTERM or SIGINT, reloading on SIGHUP and when the file changes.
    pub(crate) fn until_told(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.run())
    }

    async fn run(self) -> Result<(), Failure> {
        let Running { source, in_use, admin, mut watch } = self;
        let health = Health::default();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scraped::new(&in_use.shared, in_use.data.counts())));
        let open = Open { health: health.clone(), registry };
        let (end_admin, ended) = oneshot::channel::<()>();
        let stop = async { drop(ended.await) };
        let admin = tokio::spawn(tollgate_admin::serve(admin, open, stop));
        let mut signals = Signals::new()?;
        health.set_ready(true);
        loop {
            let told = tokio::select! {
                signal = signals.next() => signal,
                () = watch.changed() => Signal::Reload,
            };
            match told {
                Signal::Reload => reload(&source, &in_use),
                Signal::Stop => break,
            }
        }
        tracing::info!("stopping: finishing what is in flight");
        health.set_ready(false);
        let InUse { data, access_log, .. } = in_use;
        data.stop().stop();
        let drained = tokio::task::spawn_blocking(move || data.wait());
        tokio::select! {
            drained = drained => drained.map_err(failed)??,
            () = signals.stop() => tracing::warn!("told again: stopping at once"),
        }
        access_log.close();
        drop(end_admin);
        admin.await.map_err(failed)??;
        if let Source::BuiltIn { echo: Some(echo), .. } = &source {
            echo.stop().stop();
        }
        Ok(())
    }
}

/// Binds the admin listener before anything is served.
pub(crate) fn bind_admin(server: &Server) -> Result<TcpListener, Failure> {
    let address = server.admin_listen.socket();
    TcpListener::bind(address).map_err(|error| not_bound(&server.admin_listen, &error))
}

/// Why an address was not to be had, and what would be right.
pub(crate) fn not_bound(address: &ListenAddress, error: &io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is taken by another program: stop that, or write another address into the file"
        ),
        _ => format!("cannot listen on {address}: {error}"),
    })
}

/// An address that a caller on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, v6.port()).into()
        }
        other => other,
    }
}
