//! The socket of one connection, and what was read of it ahead of need.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::io::AsyncWrite;

use super::decoder::{Decoded, Decoder};
use super::head::Head;
use super::io::Io;
use crate::request_body::{RequestBody, RequestBodyError};
use crate::stream::Stream;
use crate::ticker::Watch;
use crate::worker::Worker;

/// So much is read ahead while a request is answered; the rest stays with the kernel.
const MOST_AHEAD: usize = 64 * 1024;

/// How long, and how much, a caller may go on sending what nobody will read. Closing at once would make the kernel
/// throw away the answer with it.
pub(super) const LINGER: Duration = Duration::from_secs(1);
const MOST_DISCARDED: usize = 1024 * 1024;

/// A connection, as the reader of its requests and of their bodies see it. One thread, one at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    io: RefCell<Io>,
    body: RefCell<Decoder>,
    /// The body ended where it should not have, or is none.
    is_broken: Cell<bool>,
    /// The caller waits for our word before it sends the body.
    expects: Cell<bool>,
    /// Our word is written, and perhaps not sent.
    is_continuing: Cell<bool>,
    /// The response has begun.
    is_answering: Cell<bool>,
    /// Somebody has begun to read the body and holds it: what comes is for that one to see.
    is_read: Cell<bool>,
    /// The connection's own task, until the body is at its end: whoever reads that takes the socket over from it.
    owner: RefCell<Option<Waker>>,
    /// Who waits for more of the body.
    reader: RefCell<Option<Waker>>,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        Wire {
            io: RefCell::new(Io::new(stream)),
            body: RefCell::new(Decoder::NOTHING),
            is_broken: Cell::new(false),
            expects: Cell::new(false),
            is_continuing: Cell::new(false),
            is_answering: Cell::new(false),
            is_read: Cell::new(false),
            owner: RefCell::new(None),
            reader: RefCell::new(None),
        }
    }

    pub(super) fn io(&self) -> RefMut<'_, Io> {
        self.io.borrow_mut()
    }

    /// Whether nothing of the next request has come.
    pub(super) fn is_unheard(&self) -> bool {
        let io = self.io.borrow();
        io.input.is_empty() && io.stream.as_ref().is_none_or(|stream| !stream.is_rewound())
    }

    /// A request begins: its body is read through the connection.
    pub(super) fn begin(self: &Rc<Wire>, head: &mut Head, worker: &Rc<Worker>) {
        self.expects.set(head.expects);
        self.is_answering.set(false);
        self.is_read.set(false);
        let decoder = std::mem::replace(&mut head.body, Decoder::NOTHING);
        let is_empty = decoder.is_end();
        self.body.replace(decoder);
        if !is_empty {
            *head.request.body_mut() = RequestBody::http1(self, worker);
        }
    }

    /// A request is over. One that had to be listened to for its end has a second handle of the socket, which nobody needs between requests.
    pub(super) fn rest(&self) {
        if let Some(stream) = &mut self.io().stream {
            stream.forget_end();
        }
    }

    /// An answer begins: it is too late to tell the caller to go on, and what is to be written is the answer's to send.
    pub(super) fn answering(&self) {
        self.expects.set(false);
        self.is_continuing.set(false);
        self.is_answering.set(true);
    }

    /// Whether the answer to the request has begun.
    pub(crate) fn is_answering(&self) -> bool {
        self.is_answering.get()
    }

    /// Whoever read the request's body, or was to, is gone. What comes of it is the connection's own to look at.
    pub(crate) fn leave_body(&self) {
        self.is_read.set(false);
        self.reader.take();
        self.wake_owner(Waker::noop());
    }

    /// Wakes the connection's task, unless that is the one that runs.
    fn wake_owner(&self, running: &Waker) {
        if let Some(owner) = self.owner.take()
            && !owner.will_wake(running)
        {
            owner.wake();
        }
    }

    /// The connection's task is woken when the body is read or left.
    pub(super) fn set_owner(&self, cx: &Context<'_>) {
        remember(&self.owner, cx);
    }

    /// Lets whoever waits for more of the body look again.
    pub(super) fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Whether the request's body was read to its end.
    pub(super) fn is_finished(&self) -> bool {
        self.body.borrow().is_end()
    }

    /// Whether what is left of the request's body is worth reading, for the sake of the next request.
    pub(super) fn may_be_drained(&self) -> bool {
        let left = self.body_left().is_some_and(|left| left <= MOST_AHEAD as u64);
        left && !self.expects.get() && !self.is_broken.get()
    }

    /// Reads what is left of the request's body, which nobody else may be reading: it would miss what is taken here. `false` if
    /// it does not come, or is no good.
    pub(super) async fn drain(&self, watch: &Watch) -> bool {
        if self.is_finished() {
            return true;
        }
        if self.is_broken.get() {
            return false;
        }
        watch.arm(LINGER);
        let mut drained = 0;
        poll_fn(|cx| {
            loop {
                match self.poll_body(cx) {
                    Poll::Ready(None) => return Poll::Ready(true),
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                    Poll::Ready(Some(Ok(frame))) => {
                        drained += frame.data_ref().map_or(0, Bytes::len);
                        if drained > MOST_AHEAD {
                            return Poll::Ready(false);
                        }
                    }
                    Poll::Pending => return watch.poll(cx).map(|()| false),
                }
            }
        })
        .await
    }

    /// Bytes of the request's body that are still to come, if that is known.
    pub(crate) fn body_left(&self) -> Option<u64> {
        let body = self.body.borrow();
        if body.is_end() { Some(0) } else { body.size_hint().exact() }
    }

    /// The next piece of the request's body.
    pub(crate) fn poll_body(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let (mut io, mut body) = (self.io.borrow_mut(), self.body.borrow_mut());
        let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
            self.is_broken.set(true);
            Poll::Ready(Some(Err(RequestBodyError::Caller(error))))
        };
        self.is_read.set(true);
        let has_waited = self.reader.take().is_some();
        loop {
            let decoded = body.decode(&mut io.input);
            // Nobody waits for the caller now but the connection's task.
            let is_pausing = has_waited && !matches!(decoded, Ok(Decoded::More));
            if body.is_end() || is_pausing {
                self.wake_owner(cx.waker());
            }
            match decoded {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(map)) => return Poll::Ready(Some(Ok(Frame::trailers(map)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => (),
                Err(bad) => return broken(bad.into()),
            }
            if self.expects.take() {
                io.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                self.is_continuing.set(true);
            }
            // Nothing but that: who reads here may be another task than the one that writes the answer and waits for room.
            if self.is_continuing.get() {
                match io.poll_send(cx) {
                    Poll::Ready(Ok(())) => self.is_continuing.set(false),
                    Poll::Ready(Err(error)) => return broken(error.into()),
                    Poll::Pending => (),
                }
            }
            match io.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => (),
                Poll::Ready(Ok(_)) => {
                    return broken(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                Poll::Ready(Err(error)) => return broken(error.into()),
                Poll::Pending => {
                    remember(&self.reader, cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Ready when the caller has hung up. Whoever waits for more of its body will see it; as long as nobody reads that, as
    /// when the request stands in line, a piece of it is read ahead.
    pub(super) fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_finished() {
            self.set_owner(cx);
            if self.reader.borrow().is_some() {
                return Poll::Pending;
            }
        }
        let mut io = self.io.borrow_mut();
        // Whoever reads it may be unable to go on, as when the upstream takes no more. What comes is for that one to read.
        let is_ahead = self.is_finished() || !self.is_read.get();
        while is_ahead && io.input.len() < MOST_AHEAD {
            match ready!(io.poll_fill(cx)) {
                Ok(1..) => (),
                _ => return Poll::Ready(()),
            }
        }
        // Behind that nothing is read, but that it ends is heard of.
        match &mut io.stream {
            Some(stream) => stream.poll_end(cx).map(drop),
            None => Poll::Ready(()),
        }
    }

    /// Says that nothing more comes, and lets the caller finish what it is saying.
    pub(super) async fn linger(&self, watch: &Watch) {
        watch.arm(LINGER);
        let mut is_shut = false;
        let mut discarded = 0;
        poll_fn(|cx| {
            let mut io = self.io.borrow_mut();
            let Some(stream) = &mut io.stream else { return Poll::Ready(()) };
            if !is_shut {
                is_shut = Pin::new(stream).poll_shutdown(cx).is_ready();
            }
            while discarded < MOST_DISCARDED {
                io.input.clear();
                match io.poll_fill(cx) {
                    Poll::Ready(Ok(read @ 1..)) => discarded += read,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return watch.poll(cx),
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// The socket, with what was read of it ahead.
    pub(super) fn take_stream(&self) -> Option<Stream> {
        let mut io = self.io.borrow_mut();
        let input = std::mem::take(&mut io.input);
        io.stream.take().map(|stream| stream.rewind(input))
    }
}

fn remember(slot: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    match &mut *slot.borrow_mut() {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}
