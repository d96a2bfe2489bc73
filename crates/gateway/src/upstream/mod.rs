//! Where requests go: a service at one or several addresses, shared by all workers.

mod resolve;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::ClientConfig;
use rustls::pki_types::ServerName;
use tollgate_engine::Backpressure;
use tollgate_policy::HttpUrl;
use tollgate_policy::shapes;

use crate::tls::{TlsError, Trust, http1_only};
pub(crate) use resolve::Asking;
use resolve::Resolved;
pub(crate) use target::Target;

/// A service that requests are forwarded to.
#[derive(Debug)]
pub struct Upstream {
    origins: Vec<Arc<Origin>>,
    resolved: Resolved,
    backpressure: Backpressure,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

impl Upstream {
    /// An upstream as the file describes it. `trust` says whose certificates an `https` one may show.
    pub fn new(
        shape: &shapes::Upstream,
        trust: impl FnOnce() -> Result<Trust, TlsError>,
    ) -> Result<Arc<Upstream>, TlsError> {
        let is_https = shape.urls().iter().any(HttpUrl::is_https);
        let tls = if is_https { Some(ClientTls::new(&trust()?)?) } else { None };
        let origin = |url| Origin::new(url, tls.as_ref()).map(Arc::new);
        let origins: Vec<_> = shape.urls().iter().map(origin).collect::<Result<_, _>>()?;
        Ok(Arc::new(Upstream {
            resolved: Resolved::new(&origins),
            origins,
            backpressure: Backpressure::new(shape.backpressure.threshold),
            connect_timeout: Duration::from_millis(shape.connect_timeout_ms),
            response_timeout: Duration::from_millis(shape.response_timeout_ms),
        }))
    }

    /// Requests sent that it has not begun to answer, and whether those are too many.
    pub fn backpressure(&self) -> &Backpressure {
        &self.backpressure
    }

    pub(crate) fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Asks for its names aside, unless somebody does.
    pub(crate) fn resolve(self: &Arc<Upstream>) {
        if let Some(asking) = Asking::begin(self) {
            tokio::task::spawn_local(asking.ask());
        }
    }

    pub(crate) fn origins(&self) -> &[Arc<Origin>] {
        &self.origins
    }
}

/// How to speak TLS to an upstream.
#[derive(Clone)]
struct ClientTls {
    either: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

impl ClientTls {
    fn new(trust: &Trust) -> Result<ClientTls, TlsError> {
        let either = trust.client()?;
        Ok(ClientTls { http1: http1_only(&either), either })
    }
}

/// One of an upstream's URLs.
pub(crate) struct Origin {
    /// The host, as resolvers and certificates want it: no brackets.
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// The host and port as written, for `Host` where a request has none.
    pub(crate) authority: Box<str>,
    /// What stands before every request's own path.
    pub(crate) path: Box<str>,
    tls: Option<(ClientTls, ServerName<'static>)>,
}

impl Origin {
    fn new(url: &HttpUrl, tls: Option<&ClientTls>) -> Result<Origin, TlsError> {
        let authority = url.authority();
        let (host, port) = split(authority, if url.is_https() { 443 } else { 80 });
        let tls = match tls {
            Some(tls) if url.is_https() => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| TlsError::Name(host.to_owned()))?;
                Some((tls.clone(), name))
            }
            _ => None,
        };
        Ok(Origin {
            host: host.into(),
            port,
            authority: authority.into(),
            path: url.path().into(),
            tls,
        })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// How to speak TLS to it, if that is spoken: HTTP/1.1 alone, or what the server likes better.
    pub(crate) fn tls(&self, http1_only: bool) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
        let (tls, name) = self.tls.as_ref()?;
        Some((Arc::clone(if http1_only { &tls.http1 } else { &tls.either }), name.clone()))
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Host and port of an authority that the file's validator has seen.
fn split(authority: &str, usual: u16) -> (&str, u16) {
    let address_end = authority.find(']').map_or(0, |at| at + 1);
    let (host, port) = match authority[address_end..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(address_end + colon);
            (host, port[1..].parse().unwrap_or(usual))
        }
        None => (authority, usual),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}
