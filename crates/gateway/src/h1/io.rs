//! A connection's socket, with what was read of it ahead of need and what is to be written.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

/// Read at once: enough for most heads and a good piece of a body.
const PIECE: usize = 64 * 1024;

thread_local! {
    /// Everything is read into this first: a connection that waits keeps no room for what may come.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

#[derive(Debug)]
pub(super) struct Io {
    pub(super) stream: Option<Stream>,
    /// Read and not used yet.
    pub(super) input: Bytes,
    /// How much memory `input` is a part of: whoever keeps some of it keeps all of that.
    pub(super) held: usize,
    /// Not sent yet, from `sent` on.
    pub(super) output: Vec<u8>,
    pub(super) sent: usize,
}

impl Io {
    pub(super) fn new(stream: Stream) -> Io {
        Io { stream: Some(stream), input: Bytes::new(), held: 0, output: Vec::new(), sent: 0 }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether the peer took anything since the last look; see [`crate::socket::Peer`].
    pub(super) fn took_more(&self, seen: &mut usize) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.peer().took_more(seen))
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
            self.held = self.input.len();
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
