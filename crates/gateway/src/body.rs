//! What a caller is answered with.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tollgate_wire::HeadLines;

use crate::connection::InFlight;
use crate::forward::{Answered, ForwardError};
use crate::watched::Watched;

/// The body of a response: bytes at hand, or an upstream's as it comes.
pub struct Body {
    kind: Kind,
    /// Header lines that were written with it.
    lines: HeadLines,
    /// The request is in flight until its response has been written, or given up.
    in_flight: Option<InFlight>,
}

enum Kind {
    Bytes(Bytes),
    /// What stands behind the lines.
    Behind,
    Upstream(Box<Answered>),
    /// Over HTTP/2: one of the above, or given up.
    Watched(Rc<Watched>),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Body {
        Body::from(Bytes::new())
    }

    pub(crate) fn upstream(answered: Answered) -> Body {
        Body::of(Kind::Upstream(Box::new(answered)))
    }

    fn of(kind: Kind) -> Body {
        Body { kind, lines: HeadLines::default(), in_flight: None }
    }

    /// The one that was written behind the lines of its head.
    pub(crate) fn behind(lines: HeadLines) -> Body {
        Body { kind: Kind::Behind, lines, in_flight: None }
    }

    /// The whole body, if it is behind the lines.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        matches!(self.kind, Kind::Behind).then(|| self.lines.body())
    }

    /// Makes it stand alone.
    fn detach(&mut self) {
        if let Some(text) = self.text() {
            self.kind = Kind::Bytes(Bytes::copy_from_slice(text));
        }
    }

    pub(crate) fn lines(&self) -> &HeadLines {
        &self.lines
    }

    pub(crate) fn take_lines(&mut self) -> HeadLines {
        self.detach();
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn set_lines(&mut self, lines: HeadLines) {
        self.detach();
        self.lines = lines;
    }

    /// The same for a response over HTTP/2, whose connection looks whether its caller takes it.
    pub(crate) fn watched(mut self, in_flight: InFlight) -> Body {
        if self.is_end_stream() {
            return self;
        }
        let activity = in_flight.activity();
        self.in_flight = Some(in_flight);
        let watched = Watched::new(self);
        activity.watch(&watched);
        Body::of(Kind::Watched(watched))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::of(Kind::Bytes(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::from(Bytes::from(text))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Body {
        Body::from(Bytes::from_static(text.as_bytes()))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = ForwardError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ForwardError>>> {
        self.detach();
        match &mut self.kind {
            // It was detached.
            Kind::Behind => Poll::Ready(None),
            Kind::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Upstream(answered) => answered.poll_frame(cx).map(|frame| Some(frame?.map(own))),
            Kind::Watched(watched) => watched.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Bytes(bytes) => bytes.is_empty(),
            Kind::Behind => self.lines.body().is_empty(),
            Kind::Upstream(answered) => answered.is_end_stream(),
            Kind::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Behind => SizeHint::with_exact(self.lines.body().len() as u64),
            Kind::Upstream(answered) => answered.size_hint(),
            Kind::Watched(watched) => watched.size_hint(),
        }
    }
}

/// What an upstream may not say in its headers it may not say in its trailers either.
fn own(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        tollgate_wire::names::strip(trailers);
    }
    frame
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Bytes(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Behind => write!(f, "Body({} bytes)", self.lines.body().len()),
            Kind::Upstream(_) => f.write_str("Body(upstream)"),
            Kind::Watched(_) => f.write_str("Body(watched)"),
        }
    }
}

/// Service errors cannot happen: a request that cannot be served is answered.
pub(crate) type Answer = Result<http::Response<Body>, Infallible>;
