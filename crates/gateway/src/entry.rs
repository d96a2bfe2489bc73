//! Where a request enters: checked, decided, answered.

use std::rc::Rc;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, StatusCode, Version};
use hyper::body::Incoming;

use crate::body::Answer;
use crate::connection::Connection;
use crate::fault;
use crate::handler::Handler;
use crate::request_body::RequestBody;
use crate::worker::{Phase, Worker};

/// The requests of one connection come in here.
pub(crate) struct Entry<H> {
    handler: Rc<H>,
    worker: Rc<Worker>,
    connection: Connection,
}

impl<H: Handler> Entry<H> {
    pub(crate) fn new(handler: Rc<H>, worker: Rc<Worker>, connection: Connection) -> Entry<H> {
        Entry { handler, worker, connection }
    }

    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let in_flight = self.connection.begin();
        let is_http2 = request.version() == Version::HTTP_2;
        let (mut response, is_last) = match fault::of_head(&request, &self.worker.limits()) {
            Ok(()) => {
                let request = request.map(|incoming| RequestBody::new(incoming, &self.worker));
                let forwarder = self.worker.forwarder();
                (self.handler.handle(request, &self.connection, forwarder).await, false)
            }
            Err(fault) => (self.handler.refuse(fault), true),
        };
        // Said while it is still answered, this keeps a caller from sending its next request to nobody.
        let is_last = is_last || self.worker.phase() >= Phase::Draining;
        if is_last && !is_http2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.body_mut().keep(in_flight);
        Ok(response)
    }
}
