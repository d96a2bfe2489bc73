//! What of a request is looked at: its head, borrowed.

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The head of a request, for whoever says who is calling.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'r> {
    /// Its method.
    pub method: &'r Method,
    /// What it asks for.
    pub uri: &'r Uri,
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// What layers further out know of it: axum's `ConnectInfo`, a login.
    pub extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    pub(crate) fn of<B>(request: &'r Request<B>) -> Head<'r> {
        Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The host it is for, without its port, and without a name and password: they would make another host of it, which no route is for.
    pub(crate) fn host(&self) -> &'r str {
        let named = match self.uri.authority() {
            Some(authority) => authority.as_str(),
            None => {
                let header = self.headers.get(http::header::HOST);
                header.and_then(|value| value.to_str().ok()).unwrap_or_default()
            }
        };
        let named = named.rsplit_once('@').map_or(named, |(_, host)| host);
        // `[::1]:80` ends its host with the bracket. Elsewhere a service that splits off a port does so at the first colon: `a:80:90`, though
        // it is none, is a's.
        let end = match named.starts_with('[') {
            true => named.find(']').map(|bracket| bracket + 1),
            false => named.find(':'),
        };
        end.map_or(named, |end| &named[..end])
    }
}
