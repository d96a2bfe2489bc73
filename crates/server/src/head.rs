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

    /// The host it is for, without its port.
    pub(crate) fn host(&self) -> &'r str {
        let named = match self.uri.authority() {
            Some(authority) => authority.as_str(),
            None => {
                let header = self.headers.get(http::header::HOST);
                header.and_then(|value| value.to_str().ok()).unwrap_or_default()
            }
        };
        // `[::1]:80` ends its host with the bracket.
        match named.rfind(':') {
            Some(at) if !named[at..].contains(']') => &named[..at],
            _ => named,
        }
    }
}
