//! Who decides a request.

use std::future::Future;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use crate::body::Body;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::forward::Forwarder;
use crate::received::Received;

/// Decides every request of one worker: answers it, or hands it to the forwarder.
///
/// A handler stays in its worker's thread, so it may hold what cannot be shared. Nothing it awaits may block.
pub trait Handler: 'static {
    /// Answers one request, of which nobody needs what is left. The future is dropped where the caller hangs up.
    fn handle(
        &self,
        request: &mut Received,
        connection: &Connection,
        forwarder: &Forwarder,
    ) -> impl Future<Output = Response<Body>>;

    /// Called some twenty times a second, for what must not wait for the next request.
    fn tick(&self) {}

    /// Answers a request that is no proper HTTP, or breaks a cap, and that [`handle`](Handler::handle) never sees. What it asks
    /// for is known, of a target that is too long the beginning; its headers may not be.
    fn turn_away(&self, _: &Received, _: &Connection, fault: Fault) -> Response<Body> {
        self.refuse(fault)
    }

    /// The same to one of which nothing can be read.
    fn refuse(&self, fault: Fault) -> Response<Body> {
        let mut response = Response::new(Body::from(fault.detail()));
        *response.status_mut() = fault.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        response
    }
}
