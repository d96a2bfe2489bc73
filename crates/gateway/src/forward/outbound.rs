//! A request on its way to an upstream.

use std::cell::Cell;

use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};
use http_body::Body as _;
use tollgate_wire::HeadLines;

use super::head::{self, Hops};
use crate::connection::Connection;
use crate::received::Received;
use crate::request_body::RequestBody;

/// What the caller sent, and what we say about it. It stays as it came, so that it can be sent again, and need not be parsed
/// if it comes again; what must be left out is left out in writing.
#[derive(Debug)]
pub(crate) struct Outbound<'r> {
    pub(crate) request: &'r mut Received,
    /// Lines that are added, and stand in the place of all that the caller sent under their names.
    pub(crate) told: HeadLines,
    /// What of the caller's headers nobody else may see.
    pub(crate) hidden: Option<&'r HeaderName>,
    pub(crate) hops: Hops,
    /// Set as long as nobody can have seen it.
    pub(crate) unseen: &'r Cell<bool>,
}

impl<'r> Outbound<'r> {
    pub(crate) fn new(
        request: &'r mut Received,
        (mut told, hidden): (HeadLines, Option<&'r HeaderName>),
        (connection, unseen): (&Connection, &'r Cell<bool>),
    ) -> Outbound<'r> {
        let mut hops = Hops::of(request.headers());
        if connection.is_from_proxy() {
            hops = hops.without_claims();
        }
        head::forwarded(request, &mut told, connection);
        Outbound { request, told, hidden, hops, unseen }
    }

    /// The protocol that the caller asks to switch to.
    pub(crate) fn wanted_upgrade(&self) -> Option<HeaderValue> {
        head::wanted_upgrade(self.request, self.hops)
    }

    /// Whether it may be sent twice: it has no body and means the same twice (RFC 9110, 9.2.2).
    pub(crate) fn is_repeatable(&self) -> bool {
        let is_idempotent = matches!(
            *self.request.method(),
            Method::GET
                | Method::HEAD
                | Method::OPTIONS
                | Method::TRACE
                | Method::PUT
                | Method::DELETE
        );
        is_idempotent && self.request.body().is_end_stream()
    }

    /// Takes the request out, its map made what the upstream shall see.
    pub(crate) fn take(&mut self) -> Request<RequestBody> {
        let empty = Request::new(RequestBody::empty());
        let mut request = std::mem::replace(&mut **self.request, empty);
        if let Some(hidden) = self.hidden {
            request.headers_mut().remove(hidden);
        }
        head::prepare(&mut request, self.hops);
        self.told.put(request.headers_mut());
        request
    }

    /// Takes the body out.
    pub(crate) fn take_body(&mut self) -> RequestBody {
        std::mem::replace(self.request.body_mut(), RequestBody::empty())
    }
}
