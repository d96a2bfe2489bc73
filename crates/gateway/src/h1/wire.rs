//! The socket of one connection, and what was read of it ahead of need.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::decoder::{Decoded, Decoder};
use super::head::Head;
use crate::request_body::{RequestBody, RequestBodyError};
use crate::stream::Stream;
use crate::ticker::Watch;
use crate::worker::Worker;

/// Read at once: enough for most heads and a good piece of a body.
const PIECE: usize = 64 * 1024;

/// So much of later requests is read while one is answered; the rest stays with the kernel.
const MOST_AHEAD: usize = 64 * 1024;

/// How long, and how much, a caller may go on sending what nobody will read. Closing at once would make the kernel
/// throw away the answer with it.
const LINGER: Duration = Duration::from_secs(1);
const MOST_DISCARDED: usize = 1024 * 1024;

thread_local! {
    /// Everything is read into this first: a connection that waits keeps no room for what may come.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

/// A connection, as the reader of its requests and of their bodies see it. One thread, one at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    io: RefCell<Io>,
    body: RefCell<Decoder>,
    /// The body ended where it should not have, or is none.
    is_broken: Cell<bool>,
    /// The caller waits for our word before it sends the body.
    expects: Cell<bool>,
}

#[derive(Debug)]
pub(super) struct Io {
    stream: Option<Stream>,
    /// Read and not used yet.
    pub(super) input: Bytes,
    /// Not sent yet, from `sent` on.
    pub(super) output: Vec<u8>,
    pub(super) sent: usize,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        let io = Io { stream: Some(stream), input: Bytes::new(), output: Vec::new(), sent: 0 };
        Wire {
            io: RefCell::new(io),
            body: RefCell::new(Decoder::NOTHING),
            is_broken: Cell::new(false),
            expects: Cell::new(false),
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
        let decoder = std::mem::replace(&mut head.body, Decoder::NOTHING);
        let is_empty = decoder.is_end();
        self.body.replace(decoder);
        if !is_empty {
            *head.request.body_mut() = RequestBody::http1(self, worker);
        }
    }

    /// An answer begins: it is too late to tell the caller to go on.
    pub(super) fn answering(&self) {
        self.expects.set(false);
    }

    /// Whether the request's body was read to its end.
    fn is_finished(&self) -> bool {
        self.body.borrow().is_end()
    }

    /// Whether what is left of the request's body is worth reading, for the sake of the next request.
    pub(super) fn may_be_drained(&self) -> bool {
        let left = self.body_left().is_some_and(|left| left <= MOST_AHEAD as u64);
        left && !self.expects.get() && !self.is_broken.get()
    }

    /// Reads what is left of the request's body. `false` if it does not come, or is no good.
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
        loop {
            match body.decode(&mut io.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(map)) => return Poll::Ready(Some(Ok(Frame::trailers(map)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => (),
                Err(bad) => return broken(bad.into()),
            }
            if self.expects.take() {
                io.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            if !io.output.is_empty()
                && let Poll::Ready(Err(error)) = io.poll_send(cx)
            {
                return broken(error.into());
            }
            match ready!(io.poll_fill(cx)) {
                Ok(1..) => (),
                Ok(_) => return broken(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Err(error) => return broken(error.into()),
            }
        }
    }

    /// Ready when the caller has hung up. While its body is being sent, whoever reads that will see it.
    pub(super) fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_finished() {
            return Poll::Pending;
        }
        let mut io = self.io.borrow_mut();
        while io.input.len() < MOST_AHEAD {
            match ready!(io.poll_fill(cx)) {
                Ok(1..) => (),
                _ => return Poll::Ready(()),
            }
        }
        Poll::Pending
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

    /// The same connection under another name, because somebody holds on to this one.
    pub(super) fn take_over(&self) -> Option<Wire> {
        let mut io = self.io.borrow_mut();
        let (stream, input) = (io.stream.take()?, std::mem::take(&mut io.input));
        let wire = Wire::new(stream);
        wire.io().input = input;
        Some(wire)
    }

    /// The socket, for another protocol.
    pub(super) fn into_stream(self) -> Option<Stream> {
        let io = self.io.into_inner();
        io.stream.map(|stream| stream.rewind(io.input))
    }
}

impl Io {
    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Reads what is there; 0 at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = self.stream.as_mut().map(Pin::new);
        let Some(stream) = stream else { return Poll::Ready(Ok(0)) };
        SCRATCH.with(|scratch| {
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(stream.poll_read(cx, &mut buffer))?;
            let read = buffer.filled();
            self.input = if self.input.is_empty() {
                Bytes::copy_from_slice(read)
            } else {
                let mut both = BytesMut::with_capacity(self.input.len() + read.len());
                both.extend_from_slice(&self.input);
                both.extend_from_slice(read);
                both.freeze()
            };
            Poll::Ready(Ok(read.len()))
        })
    }

    /// Sends what is written so far.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            let Io { stream, output, sent, .. } = self;
            let Some(stream) = stream else { return Poll::Ready(Err(closed())) };
            match ready!(Pin::new(stream).poll_write(cx, &output[*sent..]))? {
                0 => return Poll::Ready(Err(closed())),
                wrote => *sent += wrote,
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends from `bytes` until they are empty.
    pub(super) fn poll_send_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        while !bytes.is_empty() {
            match ready!(self.stream()?.poll_write(cx, bytes))? {
                0 => return Poll::Ready(Err(closed())),
                wrote => drop(bytes.split_to(wrote)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands on what TLS may have kept back.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }
}

fn closed() -> io::Error {
    io::ErrorKind::WriteZero.into()
}
