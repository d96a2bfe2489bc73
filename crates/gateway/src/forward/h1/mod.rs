//! One exchange with an HTTP/1.1 upstream, inside the request's own task.
//!
//! ```text
//! Outbound ─▶ request_head ─▶ sending (with the body) ─▶ stream ─▶ response_head ─▶ decoder ─▶ incoming
//! ```
//! The request polls the stream itself, first here while it waits for the response's head, and then from within the
//! response's body ([`Incoming`]). Between an exchange and its task stands nothing: no task of the connection's own, no
//! channel, no waker but the stream's.
//!
//! A connection owns no buffers. Heads are written into, and small responses read into, memory of the thread; what has
//! come is copied once, to where the headers' values and the body are slices of it. Where much is coming it is read
//! to where it stays.

mod incoming;
mod request_head;
mod response_head;
mod sending;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::Failed;
use super::answered::Answered;
use super::error::{ForwardCause, ForwardError};
use super::outbound::Outbound;
use super::pool::Pool;
use crate::body::Body;
use crate::h1::decoder::Decoder;
use crate::request_body::RequestBody;
use crate::stream::Stream;
use crate::ticker::{Ticker, Watch};
pub(crate) use incoming::Incoming;
pub(crate) use response_head::LARGEST_HEAD;
use response_head::{Head, HeadReader};
use sending::Sending;

/// Bytes that are read and copied; a read that fills them is followed by such of a large piece.
const SMALL: usize = 16 * 1024;
const PIECE: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SMALL].into_boxed_slice());
}

/// A connection on which nothing is under way.
#[derive(Debug)]
pub(crate) struct Idle {
    stream: Stream,
    watch: Watch,
    /// It was last polled in vain, and so keeps somebody's waker.
    is_waiting: bool,
}

impl Idle {
    /// A new connection.
    pub(crate) fn new(stream: Stream, ticker: &Rc<Ticker>) -> Box<Idle> {
        Box::new(Idle { stream, watch: ticker.watch(), is_waiting: false })
    }

    /// Whether the other end has neither closed it nor sent what nobody asked for. If it is open it wakes whoever polled.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
        self.is_waiting = polled.is_pending();
        self.is_waiting
    }

    /// The same, and nobody is woken.
    pub(crate) fn is_open(&mut self) -> bool {
        self.poll_open(&mut Context::from_waker(Waker::noop()))
    }
}

/// A connection with an exchange under way.
#[derive(Debug)]
pub(crate) struct Busy {
    idle: Box<Idle>,
    pool: Rc<Pool>,
    is_reused: bool,
    sending: Sending,
    reader: HeadReader,
    /// A byte of the response has come.
    is_heard: bool,
    /// Reads fill what they are given.
    is_bulk: bool,
    /// The upstream keeps the connection open.
    is_kept: bool,
}

impl Busy {
    pub(crate) fn new(idle: Box<Idle>, pool: &Rc<Pool>, is_reused: bool) -> Busy {
        Busy {
            idle,
            pool: Rc::clone(pool),
            is_reused,
            sending: Sending::new(),
            reader: HeadReader::default(),
            is_heard: false,
            is_bulk: false,
            is_kept: false,
        }
    }

    /// Sends a request and waits for the response to begin.
    pub(crate) async fn exchange(
        mut self,
        outbound: &mut Outbound<'_>,
        timeout: Duration,
    ) -> Result<Response<Body>, Failed> {
        let mut is_begun = false;
        let begun = poll_fn(|cx| {
            if let Poll::Ready(begun) = self.poll_response(&mut is_begun, outbound, cx) {
                return Poll::Ready(begun);
            }
            self.time(timeout);
            let late = || Err(ForwardError::sent(ForwardCause::ResponseTimeout));
            self.idle.watch.poll(cx).map(|()| late())
        });
        match begun.await {
            Ok((head, rest)) => {
                self.idle.watch.disarm();
                self.answered(head, rest, outbound)
            }
            Err(error) => {
                let may_repeat = self.may_repeat(&error, outbound);
                Err(Failed::new(error, may_repeat, !self.is_reused && !self.is_heard))
            }
        }
    }

    /// The upstream's time runs from the last byte that it took, and not while the caller has to send the next: an
    /// upload may take as long as it likes.
    fn time(&mut self, timeout: Duration) {
        let watch = &self.idle.watch;
        if self.sending.waits_for_caller() {
            watch.disarm();
        } else if self.sending.take_progress() || !watch.is_armed() {
            watch.arm(timeout);
        }
    }

    /// Not a byte was written; or the request means the same twice, and a connection that was kept turned out to be
    /// closed.
    fn may_repeat(&self, error: &ForwardError, outbound: &Outbound<'_>) -> bool {
        if error.was_never_sent() {
            return !self.sending.is_body_begun();
        }
        let is_gone = error.cause() == ForwardCause::Closed && !self.is_heard;
        let is_repeatable = !self.sending.is_body_begun() && outbound.is_repeatable();
        is_gone && self.is_reused && is_repeatable
    }

    fn poll_response(
        &mut self,
        is_begun: &mut bool,
        outbound: &mut Outbound<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Head, Bytes), ForwardError>> {
        if *is_begun {
            let head = self.poll_head(outbound, cx);
            return if head.is_ready() { head } else { self.poll_rest(outbound, cx) };
        }
        *is_begun = true;
        let origin = &self.pool.target.origin;
        // What breaks before the first byte is written is the caller's own body.
        let begun = self.sending.begin((&mut self.idle.stream, cx), outbound, origin);
        begun.map_err(ForwardError::but_unsent)?;
        if let Some(error) = self.sending.take_unsent() {
            return Poll::Ready(Err(ForwardError::unsent(ForwardCause::Closed).with(error)));
        }
        let rest = self.poll_rest(outbound, cx);
        // A connection that was kept was asked whether it is open, and wakes us since.
        if rest.is_ready() || self.idle.is_waiting { rest } else { self.poll_head(outbound, cx) }
    }

    /// Sends what is left; ready only where the caller's body breaks off.
    fn poll_rest(
        &mut self,
        outbound: &mut Outbound<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Head, Bytes), ForwardError>> {
        match self.poll_send(outbound.request.body_mut(), cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_send(
        &mut self,
        body: &mut RequestBody,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ForwardError>> {
        if self.sending.is_done() {
            return Poll::Ready(Ok(()));
        }
        self.sending.poll(&mut self.idle.stream, body, cx)
    }

    /// Reads up to the end of the head; what came after it is returned beside.
    fn poll_head(
        &mut self,
        outbound: &mut Outbound<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Head, Bytes), ForwardError>> {
        loop {
            let came = ready!(self.poll_some(cx));
            let closed = || ForwardError::sent(ForwardCause::Closed);
            let came = came.map_err(|error| closed().with(error))?;
            if came.is_empty() {
                return Poll::Ready(Err(closed()));
            }
            self.is_heard = true;
            let is_to_head = *outbound.request.method() == Method::HEAD;
            let found = self.reader.read(came, is_to_head);
            let bad = |error| ForwardError::sent(ForwardCause::BadResponse).with(error);
            if let Some(found) = found.map_err(bad)? {
                return Poll::Ready(Ok(found));
            }
        }
    }

    /// What has come; nothing at the end.
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<Bytes>> {
        let stream = &mut self.idle.stream;
        let polled = if self.is_bulk {
            let mut piece = BytesMut::with_capacity(PIECE);
            pin!(stream.read_buf(&mut piece)).poll(cx).map_ok(|_| piece.freeze())
        } else {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                let polled = Pin::new(stream).poll_read(cx, &mut buffer);
                polled.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
            })
        };
        self.idle.is_waiting = polled.is_pending();
        if let Poll::Ready(Ok(came)) = &polled {
            self.is_bulk = came.len() >= SMALL;
        }
        polled
    }

    /// A response has begun. If that was all of it, the connection is free at once.
    fn answered(
        mut self,
        head: Head,
        mut rest: Bytes,
        outbound: &mut Outbound<'_>,
    ) -> Result<Response<Body>, Failed> {
        self.is_kept = head.is_kept;
        let bad = |error| ForwardError::sent(ForwardCause::BadResponse).with(error);
        let extra = head.body.extra_in(&rest).map_err(bad);
        let extra = extra.map_err(|error| Failed::new(error, false, false))?;
        if let Some(extra) = extra {
            rest.truncate(rest.len() - extra);
        }
        let body = match (head.body, extra) {
            (Decoder::Length(_), Some(extra)) => {
                self.release(extra == 0);
                Body::from(rest)
            }
            (decoder, Some(extra)) => {
                self.release(extra == 0);
                let over = (None, RequestBody::empty());
                Body::upstream(Answered::own(Incoming::new(decoder, rest, over)))
            }
            (decoder, None) => {
                let over = (Some(self), outbound.take_body());
                Body::upstream(Answered::own(Incoming::new(decoder, rest, over)))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        if let Some(reason) = head.reason {
            response.extensions_mut().insert(reason);
        }
        Ok(response)
    }

    /// The response is complete, and nothing came after it if it `is_clean`. If the request is complete too, and the
    /// upstream keeps the connection, so do we.
    fn release(mut self, is_clean: bool) {
        let is_free = is_clean && self.is_kept && self.sending.is_done();
        // Whoever waited for it need not be woken by what the next exchange gets.
        if is_free && (!self.idle.is_waiting || self.idle.is_open()) {
            let now = self.idle.watch.now();
            self.pool.put(self.idle, now);
        }
    }
}
