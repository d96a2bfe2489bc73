//! What a gateway is started with, as numbers it can use.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_policy::Cidr;
use tollgate_policy::shapes::{Caps, Server, Workers};

use crate::tls::Certificates;

/// What a gateway is started with: the file's `server` section, its certificates read.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) workers: usize,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) trusted_proxies: Vec<Cidr>,
    pub(crate) drain_delay: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) limits: Limits,
}

/// Bounds on what callers can take; zero is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) header_bytes: usize,
    pub(crate) headers: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) body_bytes: u64,
    pub(crate) body_timeout: Duration,
}

impl Settings {
    /// The settings of a `server` section, without TLS.
    pub fn new(server: &Server) -> Settings {
        Settings {
            listen: server.listen.socket(),
            workers: workers(server.workers),
            certificates: None,
            trusted_proxies: server.trusted_proxies.clone(),
            drain_delay: Duration::from_millis(server.drain_delay_ms),
            drain_timeout: Duration::from_millis(server.drain_timeout_ms),
            limits: Limits::new(&server.caps),
        }
    }

    /// Callers speak TLS and are shown these certificates.
    #[must_use]
    pub fn certificates(mut self, certificates: Arc<Certificates>) -> Settings {
        self.certificates = Some(certificates);
        self
    }
}

impl Limits {
    /// Bytes of the largest head. Without a limit there is one too: what is read has to be kept.
    pub(crate) fn largest_head(&self) -> usize {
        if self.header_bytes > 0 { self.header_bytes } else { 1024 * 1024 }
    }

    fn new(caps: &Caps) -> Limits {
        Limits {
            connections: size(caps.connections),
            header_bytes: size(caps.header_bytes),
            headers: size(caps.headers),
            header_timeout: Duration::from_millis(caps.header_timeout_ms),
            idle_timeout: Duration::from_millis(caps.idle_timeout_ms),
            body_bytes: caps.body_bytes,
            body_timeout: Duration::from_millis(caps.body_timeout_ms),
        }
    }
}

fn size(figure: u64) -> usize {
    usize::try_from(figure).unwrap_or(usize::MAX)
}

fn workers(workers: Workers) -> usize {
    match workers {
        Workers::Auto(_) => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        Workers::Fixed(count) => size(count.max(1)),
    }
}
