//! A TCP socket that tells what its peer does.
//!
//! It stands below TLS, because only here is it seen what the kernel took: TLS takes a piece at once and hands it on bit by bit.

use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// What the other end does. Hyper wants connections that can move between threads; these never do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    /// It does not take what we write.
    is_deaf: AtomicBool,
    /// Bytes that were written so far.
    written: AtomicUsize,
}

impl Peer {
    pub(crate) fn is_deaf(&self) -> bool {
        self.0.is_deaf.load(Relaxed)
    }

    /// Whether it took anything since the last look, which left in `seen` what had been written by then. Who reads slowly is deaf
    /// whenever it is looked at, and still reads.
    pub(crate) fn took_more(&self, seen: &mut usize) -> bool {
        let written = self.0.written.load(Relaxed);
        std::mem::replace(seen, written) != written
    }

    fn written(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.0.is_deaf.store(polled.is_pending(), Relaxed);
        if let Poll::Ready(Ok(some)) = polled {
            // Nobody else writes, so nothing is lost between the two.
            self.0.written.store(self.0.written.load(Relaxed).wrapping_add(some), Relaxed);
        }
        polled
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    peer: Peer,
    /// A second handle of the socket, to hear of its end without reading what comes before.
    end: Option<Box<TcpStream>>,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream) -> Socket {
        Socket { tcp, peer: Peer::default(), end: None }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Ready when the peer has closed its end, however much it sent before that nobody has read. The socket itself cannot be
    /// asked: it is readable, and that is all it has to say. A second handle has readiness of its own, which can be put aside. Where there
    /// can be none, as when too many files are open, it is never ready.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.end.is_none() {
            let handle = self.tcp.as_fd().try_clone_to_owned();
            let end = handle.and_then(|handle| TcpStream::from_std(handle.into()));
            self.end = end.ok().map(Box::new);
        }
        let Some(end) = &self.end else { return Poll::Pending };
        loop {
            ready!(end.poll_read_ready(cx))?;
            let is_closed = match pin!(end.ready(Interest::READABLE)).poll(cx)? {
                Poll::Ready(state) => state.is_read_closed(),
                Poll::Pending => false,
            };
            if is_closed {
                return Poll::Ready(Ok(()));
            }
            // Until something else happens.
            let _ = end.try_io(Interest::READABLE, || {
                Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
            });
        }
    }

    /// Nobody asks for its end any more.
    pub(crate) fn forget_end(&mut self) {
        self.end = None;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.peer.written(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.peer.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
