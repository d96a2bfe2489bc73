//! What of a request is still to be written: the end of its head, and its body as it comes.

use std::cell::RefCell;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{HeaderMap, HeaderName};
use http_body::{Body as _, Frame};
use tokio::io::AsyncWrite;

use super::request_head;
use crate::forward::error::{ForwardCause, ForwardError};
use crate::forward::outbound::Outbound;
use crate::h1::chunked::{AFTER_DATA, AFTER_LAST_DATA, write_end, write_size};
use crate::request_body::{RequestBody, RequestBodyError};
use crate::stream::Stream;
use crate::upstream::Origin;

/// How a body follows its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// It does not, or no more of it.
    Done,
    /// So many bytes.
    Length(u64),
    Chunked,
}

/// Data up to this size goes into one piece with the head: a copy costs less than a second slice.
const SMALL: usize = 8 * 1024;

thread_local! {
    /// Where heads are written, one at a time. Nearly all of them go out at once, so no connection keeps a buffer.
    static HEAD: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(4096));
}

/// A request that is being sent.
#[derive(Debug)]
pub(crate) struct Sending {
    framing: Framing,
    /// Bytes to write: first this from `at` on, then `data`, then `back`.
    front: Vec<u8>,
    at: usize,
    data: Bytes,
    back: &'static [u8],
    announced: Vec<HeaderName>,
    /// TLS may keep bytes that it has taken.
    needs_flush: bool,
    /// A byte was written.
    is_begun: bool,
    /// A byte was written since somebody last asked.
    has_progress: bool,
    /// The caller's body has been read from.
    is_body_begun: bool,
    /// The upstream takes no more. It may have answered before.
    broken: Option<std::io::Error>,
}

impl Sending {
    pub(crate) fn new() -> Sending {
        Sending {
            framing: Framing::Done,
            front: Vec::new(),
            at: 0,
            data: Bytes::new(),
            back: b"",
            announced: Vec::new(),
            needs_flush: false,
            is_begun: false,
            has_progress: false,
            is_body_begun: false,
            broken: None,
        }
    }

    /// Whether all has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.framing == Framing::Done
            && !self.needs_flush
            && !self.has_bytes()
            && self.broken.is_none()
    }

    /// The error, where the upstream took not a byte.
    pub(crate) fn take_unsent(&mut self) -> Option<std::io::Error> {
        if self.is_begun { None } else { self.broken.take() }
    }

    /// Whether there is nothing to write before the caller sends more.
    pub(crate) fn waits_for_caller(&self) -> bool {
        self.framing != Framing::Done
            && !self.needs_flush
            && !self.has_bytes()
            && self.broken.is_none()
    }

    /// Whether the upstream took something since this was last asked.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progress)
    }

    pub(crate) fn is_body_begun(&self) -> bool {
        self.is_body_begun
    }

    /// Writes the head, with the beginning of the body if that is there.
    pub(crate) fn begin(
        &mut self,
        (stream, cx): (&mut Stream, &mut Context<'_>),
        outbound: &mut Outbound<'_>,
        origin: &Origin,
    ) -> Result<(), ForwardError> {
        HEAD.with_borrow_mut(|head| {
            head.clear();
            self.framing = request_head::write(head, outbound, origin);
            if self.framing != Framing::Done {
                if self.framing == Framing::Chunked {
                    self.announced = request_head::announced(outbound);
                }
                self.first(head, outbound.request.body_mut(), cx)?;
            }
            if !self.data.is_empty() {
                // Too much to be copied: it is written from where it is.
                head.extend_from_slice(&self.front);
                self.front = std::mem::take(head);
                let _ = self.poll_bytes(stream, cx);
                return Ok(());
            }
            match Pin::new(stream).poll_write(cx, head) {
                Poll::Ready(Ok(size)) => {
                    self.wrote(size);
                    if size < head.len() {
                        self.front = head[size..].to_vec();
                    }
                }
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Pending => self.front = head.clone(),
            }
            Ok(())
        })
    }

    /// What of the body is there with the head.
    fn first(
        &mut self,
        head: &mut Vec<u8>,
        body: &mut RequestBody,
        cx: &mut Context<'_>,
    ) -> Result<(), ForwardError> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            self.take(frame, body)?;
        }
        if self.data.len() <= SMALL {
            head.append(&mut self.front);
            head.extend_from_slice(&std::mem::take(&mut self.data));
            head.extend_from_slice(std::mem::take(&mut self.back));
        }
        Ok(())
    }

    /// Sends as much as goes. Ready when that is all; not before, also where the upstream takes no more.
    pub(crate) fn poll(
        &mut self,
        stream: &mut Stream,
        body: &mut RequestBody,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ForwardError>> {
        loop {
            ready!(self.poll_bytes(stream, cx));
            if self.framing == Framing::Done {
                return Poll::Ready(Ok(()));
            }
            let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
            self.take(frame, body)?;
        }
    }

    /// Takes over the next piece of the body.
    fn take(
        &mut self,
        frame: Option<Result<Frame<Bytes>, RequestBodyError>>,
        body: &RequestBody,
    ) -> Result<(), ForwardError> {
        self.is_body_begun = true;
        let Some(frame) = frame.transpose().map_err(ForwardError::of_request_body)? else {
            return self.end(None);
        };
        match frame.into_data() {
            Ok(data) => self.take_data(data, body.is_end_stream()),
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => self.end(Some(trailers)),
                Err(_) => Ok(()),
            },
        }
    }

    fn take_data(&mut self, data: Bytes, is_last: bool) -> Result<(), ForwardError> {
        match self.framing {
            Framing::Done => (),
            Framing::Length(left) => {
                let left = left.checked_sub(data.len() as u64).ok_or_else(broken_off)?;
                self.framing = if left == 0 { Framing::Done } else { Framing::Length(left) };
                self.data = data;
            }
            // An empty chunk would be the last one.
            Framing::Chunked if data.is_empty() => (),
            Framing::Chunked => {
                write_size(self.emptied_front(), data.len());
                self.data = data;
                self.back = if is_last { AFTER_LAST_DATA } else { AFTER_DATA };
                if is_last {
                    self.framing = Framing::Done;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), ForwardError> {
        match self.framing {
            // The body is shorter than announced.
            Framing::Length(_) if trailers.is_none() => return Err(broken_off()),
            Framing::Length(_) | Framing::Done => (),
            Framing::Chunked => {
                let mut trailers = trailers.unwrap_or_default();
                let names: Vec<_> = trailers.keys().cloned().collect();
                for name in names.iter().filter(|name| !self.announced.contains(name)) {
                    trailers.remove(name);
                }
                write_end(self.emptied_front(), &trailers);
                self.framing = Framing::Done;
            }
        }
        Ok(())
    }

    fn emptied_front(&mut self) -> &mut Vec<u8> {
        self.front.clear();
        self.at = 0;
        &mut self.front
    }

    fn has_bytes(&self) -> bool {
        self.at < self.front.len() || !self.data.is_empty() || !self.back.is_empty()
    }

    /// Writes what is there to be written.
    fn poll_bytes(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<()> {
        while self.broken.is_none() && (self.has_bytes() || self.needs_flush) {
            if !self.has_bytes() {
                match ready!(Pin::new(&mut *stream).poll_flush(cx)) {
                    Ok(()) => self.needs_flush = false,
                    Err(error) => self.broken = Some(error),
                }
                continue;
            }
            let slices = [&self.front[self.at..], &self.data, self.back].map(IoSlice::new);
            match ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices)) {
                Ok(0) => self.broken = Some(std::io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.wrote(size);
                    self.advance(size);
                }
                Err(error) => self.broken = Some(error),
            }
        }
        if self.broken.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn wrote(&mut self, size: usize) {
        self.is_begun |= size > 0;
        self.has_progress |= size > 0;
        self.needs_flush = true;
    }

    fn advance(&mut self, mut size: usize) {
        let front = size.min(self.front.len() - self.at);
        self.at += front;
        size -= front;
        let data = size.min(self.data.len());
        self.data.advance(data);
        self.back = &self.back[size - data..];
    }
}

fn broken_off() -> ForwardError {
    ForwardError::sent(ForwardCause::RequestBroken)
}
