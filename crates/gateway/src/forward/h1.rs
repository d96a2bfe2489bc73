//! One exchange with an HTTP/1.1 upstream, inside the request's own task.
//!
//! Hyper's connection is a future that somebody must poll. Usually that is a task of its own, and every request pays
//! for waking it and being woken by it. Here the request polls it: while it waits for the response's head, and then
//! from within the response's body ([`Answered`]).
//!
//! Whatever a connection hands over, it hands over while it is polled. So only the connection is given the task's
//! waker, and what it hands over is looked for afterwards with a waker that does nothing: the task would else be
//! woken once more for what it has already got. A connection is also polled without a waker before it goes back to
//! the pool, because the next to use it would wake this task.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::answered::Answered;
use super::error::{ForwardCause, ForwardError};
use super::pool::Pool;
use super::{Failed, head};
use crate::body::Body;
use crate::request_body::RequestBody;
use crate::stream::{Peer, Stream};
use crate::ticker::{Ticker, Watch};

/// For each connection: bodies are streamed in pieces of at most this size.
const BUFFER: usize = 64 * 1024;

/// A connection on which nothing is under way.
pub(crate) struct Idle {
    sender: http1::SendRequest<RequestBody>,
    driver: Driver,
    peer: Peer,
    watch: Watch,
}

impl Idle {
    /// A new connection.
    pub(crate) async fn new(
        stream: Stream,
        ticker: &Rc<Ticker>,
    ) -> Result<Box<Idle>, ForwardError> {
        let peer = stream.peer();
        let mut builder = http1::Builder::new();
        // Heads go out in one piece; of bodies, a copy costs less than a second slice does small requests.
        builder.max_buf_size(BUFFER).writev(false);
        let (sender, driver) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ForwardError::unsent(ForwardCause::Connect).with(error))?;
        Ok(Box::new(Idle {
            sender,
            driver: Driver { inner: Some(driver), is_silent: false },
            peer,
            watch: ticker.watch(),
        }))
    }

    /// Whether the other end has neither closed it nor sent what nobody asked for.
    pub(crate) fn is_open(&mut self) -> bool {
        self.driver.drive_silently().is_pending()
    }

    /// Whether the exchange is over at both ends and another may begin.
    fn is_free(&mut self) -> bool {
        (self.driver.is_silent || self.is_open()) && self.sender.is_ready()
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idle")
    }
}

/// Hyper's half of a connection. Once it is done it is dropped, and with it a request that it never looked at: only
/// so that one comes back.
struct Driver {
    inner: Option<http1::Connection<TokioIo<Stream>, RequestBody>>,
    /// It was last polled without a waker, and is open.
    is_silent: bool,
}

impl Driver {
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_silent = false;
        let Some(inner) = &mut self.inner else { return Poll::Ready(()) };
        let polled = Pin::new(inner).poll(cx).map(drop);
        if polled.is_ready() {
            self.inner = None;
        }
        polled
    }

    fn drive_silently(&mut self) -> Poll<()> {
        let polled = self.drive(&mut silent());
        self.is_silent = polled.is_pending();
        polled
    }
}

/// A context that wakes nobody.
fn silent() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A connection with an exchange under way.
pub(crate) struct Busy {
    idle: Box<Idle>,
    pool: Rc<Pool>,
    is_reused: bool,
}

impl Busy {
    pub(crate) fn new(idle: Box<Idle>, pool: &Rc<Pool>, is_reused: bool) -> Busy {
        Busy { idle, pool: Rc::clone(pool), is_reused }
    }

    /// Sends a request and waits for the response to begin.
    pub(crate) async fn exchange(
        mut self,
        mut request: Request<RequestBody>,
        timeout: Duration,
    ) -> Result<Response<Body>, Box<Failed>> {
        head::for_http1(&mut request, &self.pool.target.origin);
        let again = (self.is_reused && is_repeatable(&request)).then(|| copy(&request));
        self.idle.peer.forget();
        self.idle.watch.arm(timeout);
        let Idle { sender, driver, watch, .. } = &mut *self.idle;
        let mut answer = pin!(sender.try_send_request(request));
        let mut is_sent = false;
        let answered = poll_fn(|cx| {
            // What wakes us is mostly the whole response, after which there is nothing to wake us for.
            if is_sent {
                let _ = driver.drive_silently();
                if let Poll::Ready(answer) = answer.as_mut().poll(&mut silent()) {
                    return Poll::Ready(Some(answer));
                }
            }
            is_sent = true;
            let _ = driver.drive(cx);
            match answer.as_mut().poll(&mut silent()) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => watch.poll(cx).map(|()| None),
            }
        });
        match answered.await {
            Some(Ok(response)) => {
                self.idle.watch.disarm();
                Ok(self.answered(response))
            }
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                let was_never_sent = unsent.is_some();
                let is_silent = !self.idle.peer.is_heard();
                let error = ForwardError::of_exchange(error.into_error(), was_never_sent);
                let may_repeat = is_silent && error.cause() == ForwardCause::Closed;
                let again = unsent.or(if may_repeat { again } else { None });
                Err(Failed::new(error, again))
            }
            None => Err(Failed::new(ForwardError::sent(ForwardCause::ResponseTimeout), None)),
        }
    }

    /// A response has begun. If that was all of it, the connection is free at once.
    fn answered(self, response: Response<Incoming>) -> Response<Body> {
        let (mut parts, mut incoming) = response.into_parts();
        head::strip_hop_by_hop(&mut parts.headers);
        parts.version = http::Version::HTTP_11;
        let body = if incoming.is_end_stream() {
            self.release();
            Body::empty()
        } else {
            match Pin::new(&mut incoming).poll_frame(&mut silent()) {
                Poll::Pending => Body::upstream(Answered::h1(incoming, self)),
                Poll::Ready(None) => {
                    self.release();
                    Body::empty()
                }
                Poll::Ready(Some(Ok(frame))) => self.begun(incoming, frame),
                Poll::Ready(Some(Err(error))) => {
                    let error = ForwardError::of_exchange(error, false);
                    Body::upstream(Answered::h1(incoming, self).after(Err(error)))
                }
            }
        };
        Response::from_parts(parts, body)
    }

    /// The body begins with `first`.
    fn begun(self, incoming: Incoming, first: Frame<Bytes>) -> Body {
        match first.into_data() {
            Ok(bytes) if incoming.is_end_stream() => {
                self.release();
                Body::from(bytes)
            }
            Ok(bytes) => Body::upstream(Answered::h1(incoming, self).after(Ok(Frame::data(bytes)))),
            Err(trailers) => Body::upstream(Answered::h1(incoming, self).after(Ok(trailers))),
        }
    }

    /// Moves the exchange on.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.idle.driver.drive(cx)
    }

    /// The response is complete. If the request is too, and the upstream keeps the connection, so do we.
    pub(crate) fn release(mut self) {
        if self.idle.is_free() {
            let now = self.idle.watch.now();
            self.pool.put(self.idle, now);
        }
    }
}

/// Whether a request may be sent twice: it has no body and means the same twice (RFC 9110, 9.2.2).
fn is_repeatable(request: &Request<RequestBody>) -> bool {
    let is_idempotent = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    );
    is_idempotent && request.body().is_end_stream()
}

fn copy(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    copy
}
