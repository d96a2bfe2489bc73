//! What a caller sends after the head: as much as is allowed, as fast as is asked.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::forward::strip_untrailing;
use crate::h1::Wire;
use crate::ticker::Watch;
use crate::worker::Worker;

/// The body of a request. It is cut off with an error where it grows beyond the cap, and where nothing more of it
/// comes in time. Once the response has begun it has all the time it wants: whoever watches or chats may be silent for long.
pub struct RequestBody(Option<Box<Streamed>>);

struct Streamed {
    source: Source,
    /// Bytes that may still come; `None` if there is no cap.
    left: Option<u64>,
    /// Armed while we wait for the caller.
    watch: Option<Watch>,
    worker: Rc<Worker>,
}

/// Where it comes from.
enum Source {
    Http1(Rc<Wire>),
    Http2(Incoming, Patience),
}

/// Whether a body over HTTP/2 may come as slowly as it likes, told to whoever reads it.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Rc<Cell<bool>>);

impl Patience {
    /// The response has begun.
    pub(crate) fn answered(&self) {
        self.0.set(true);
    }
}

impl Source {
    fn is_end_stream(&self) -> bool {
        match self {
            Source::Http1(wire) => wire.body_left() == Some(0),
            Source::Http2(incoming, _) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Source::Http1(wire) => {
                wire.body_left().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            Source::Http2(incoming, _) => incoming.size_hint(),
        }
    }

    /// Whether it may come as slowly as it likes.
    fn has_time(&self) -> bool {
        match self {
            Source::Http1(wire) => wire.is_answering(),
            Source::Http2(_, patience) => patience.0.get(),
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self {
            Source::Http1(wire) => wire.poll_body(cx),
            Source::Http2(incoming, _) => {
                let broken = |error: hyper::Error| RequestBodyError::Caller(error.into());
                let polled = Pin::new(incoming).poll_frame(cx);
                polled.map(|frame| Some(frame?.map(trailing).map_err(broken)))
            }
        }
    }
}

/// What only the gateway says of a caller that one does not say after its body either; over HTTP/1.1 it is left out in
/// reading.
fn trailing(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        strip_untrailing(trailers);
    }
    frame
}

impl RequestBody {
    /// No bytes.
    pub fn empty() -> RequestBody {
        RequestBody(None)
    }

    /// The body of a request with these headers, and what is to be told when that is answered.
    pub(crate) fn http2(
        incoming: Incoming,
        headers: &HeaderMap,
        worker: &Rc<Worker>,
    ) -> (RequestBody, Option<Patience>) {
        if incoming.is_end_stream() {
            return (RequestBody::empty(), None);
        }
        // A call may be silent from the beginning, and the service too: pings tell whether anybody is there.
        let patience = Patience(Rc::new(Cell::new(tollgate_wire::is_grpc(headers))));
        let body = RequestBody::of(Source::Http2(incoming, patience.clone()), worker);
        (body, Some(patience))
    }

    pub(crate) fn http1(wire: &Rc<Wire>, worker: &Rc<Worker>) -> RequestBody {
        RequestBody::of(Source::Http1(Rc::clone(wire)), worker)
    }

    fn of(source: Source, worker: &Rc<Worker>) -> RequestBody {
        let cap = worker.limits().body_bytes;
        let left = (cap > 0).then_some(cap);
        let worker = Rc::clone(worker);
        RequestBody(Some(Box::new(Streamed { source, left, watch: None, worker })))
    }
}

impl Streamed {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let Poll::Ready(frame) = self.source.poll_frame(cx) else {
            return self.wait(cx).map(|()| Some(Err(RequestBodyError::TooSlow)));
        };
        if let Some(watch) = &self.watch {
            watch.disarm();
        }
        Poll::Ready(match frame {
            None => None,
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(frame)) => Some(self.count(frame)),
        })
    }

    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, RequestBodyError> {
        let size = frame.data_ref().map_or(0, |data| data.len() as u64);
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(size).ok_or(RequestBodyError::TooLarge)?;
        }
        Ok(frame)
    }

    /// Ready when the caller took too long.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.source.has_time() {
            self.watch = None;
            return Poll::Pending;
        }
        let worker = &self.worker;
        let watch = self.watch.get_or_insert_with(|| worker.ticker().watch());
        if !watch.is_armed() {
            watch.arm(worker.limits().body_timeout);
        }
        watch.poll(cx)
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let Source::Http1(wire) = &self.source {
            wire.leave_body();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match &mut self.0 {
            None => Poll::Ready(None),
            Some(streamed) => streamed.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|streamed| streamed.source.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            None => SizeHint::with_exact(0),
            Some(streamed) => streamed.source.size_hint(),
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RequestBody(streamed)" } else { "RequestBody(empty)" })
    }
}

/// Why a request's body ended before its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestBodyError {
    /// It is larger than the cap.
    TooLarge,
    /// Nothing more of it came in time.
    TooSlow,
    /// The caller broke it off.
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for RequestBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestBodyError::TooLarge => "the request's body is larger than allowed",
            RequestBodyError::TooSlow => "the request's body came too slowly",
            RequestBodyError::Caller(_) => "the caller broke off the request's body",
        })
    }
}

impl std::error::Error for RequestBodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RequestBodyError::Caller(error) => Some(&**error),
            _ => None,
        }
    }
}
