//! Where a request enters: checked, decided, answered.

use std::rc::Rc;

use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::body::{Answer, Body};
use crate::connection::Connection;
use crate::fault::{self, Fault};
use crate::handler::Handler;
use crate::received::Received;
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

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// What a request over HTTP/2 is answered with.
    pub(crate) async fn answer_http2(&self, request: Request<Incoming>) -> Answer {
        let in_flight = self.connection.begin();
        let (parts, incoming) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let (body, patience) = RequestBody::http2(incoming, &parts.headers, &self.worker);
        let mut request = Received::new(Request::from_parts(parts, body));
        let (mut response, _) = self.answer(&mut request).await;
        if let Some(patience) = patience {
            patience.answered();
        }
        let lines = response.body_mut().take_lines();
        lines.put(response.headers_mut());
        if is_head {
            response = without_content(response);
        }
        Ok(response.map(|body| body.watched(in_flight)))
    }

    /// What a request is answered with, and whether it is the last on its connection: said while it is still answered, that
    /// keeps a caller from sending its next request to nobody.
    pub(crate) async fn answer(&self, request: &mut Received) -> (Response<Body>, bool) {
        // What is noted of a head was found to be right.
        if !request.is_noted()
            && let Err(fault) = fault::of_head(request, &self.worker.limits())
        {
            return (self.turn_away(request, fault), true);
        }
        self.connection.renew(&self.worker);
        let forwarder = self.worker.forwarder();
        let response = self.handler.handle(request, &self.connection, forwarder).await;
        (response, self.worker.phase() >= Phase::Draining)
    }

    /// What is answered to a request that is no proper HTTP, or breaks a cap.
    pub(crate) fn turn_away(&self, request: &Received, fault: Fault) -> Response<Body> {
        self.handler.turn_away(request, &self.connection, fault)
    }

    /// What is answered to what is no request.
    pub(crate) fn refuse(&self, fault: Fault) -> Response<Body> {
        self.handler.refuse(fault)
    }
}

/// The answer to HEAD: it tells the length of what it leaves out. Hyper would send that too, and callers break such a stream off.
fn without_content(mut response: Response<Body>) -> Response<Body> {
    if !response.body().is_end_stream() {
        let length = response.body().size_hint().exact();
        if let Some(length) = length {
            response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        *response.body_mut() = Body::empty();
    }
    response
}
