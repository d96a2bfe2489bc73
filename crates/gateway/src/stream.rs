//! A TCP connection, with TLS or without.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
#[cfg(target_os = "linux")]
use std::time::Duration;

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::http2::{PING_AFTER, PING_TIMEOUT};
use crate::socket::{Peer, Socket};

/// A connection to a caller or an upstream. Hyper takes it and never gives it back, so what must be known about
/// it from outside is shared.
#[derive(Debug)]
pub(crate) struct Stream {
    wire: Wire,
    /// Bytes that were read to see which protocol this is, and come first.
    rewound: Bytes,
}

#[derive(Debug)]
enum Wire {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream) -> Stream {
        Stream::new(Wire::Plain(Socket::new(tcp)))
    }

    pub(crate) fn tls(tls: impl Into<TlsStream<Socket>>) -> Stream {
        Stream::new(Wire::Tls(Box::new(tls.into())))
    }

    fn new(wire: Wire) -> Stream {
        Stream { wire, rewound: Bytes::new() }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.socket().peer().clone()
    }

    fn socket(&self) -> &Socket {
        match &self.wire {
            Wire::Plain(socket) => socket,
            Wire::Tls(tls) => tls.get_ref().0,
        }
    }

    fn socket_mut(&mut self) -> &mut Socket {
        match &mut self.wire {
            Wire::Plain(socket) => socket,
            Wire::Tls(tls) => tls.get_mut().0,
        }
    }

    /// Ready when the peer has closed its end, whatever of what it sent is unread; see [`Socket::poll_end`].
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket_mut().poll_end(cx)
    }

    /// Nobody asks for its end any more.
    pub(crate) fn forget_end(&mut self) {
        self.socket_mut().forget_end();
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.wire, Wire::Tls(_))
    }

    /// The protocol that TLS agreed on.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match &self.wire {
            Wire::Plain(_) => None,
            Wire::Tls(tls) => tls.get_ref().1.alpn_protocol(),
        }
    }

    /// Lets the kernel ask now and then whether the peer is still there, and end the connection if it is not: for those
    /// that may rest for as long as they like.
    pub(crate) fn keep_alive(&self) -> io::Result<()> {
        let asked = TcpKeepalive::new().with_time(PING_AFTER).with_interval(PING_TIMEOUT / 2);
        SockRef::from(self.socket().tcp()).set_tcp_keepalive(&asked.with_retries(2))
    }

    /// The same also while something that was sent is not acknowledged: then the kernel does not ask, and tries for a quarter of
    /// an hour. Only for a peer that never leaves what comes unread, because that looks the same.
    pub(crate) fn keep_watch(&self) -> io::Result<()> {
        self.keep_alive()?;
        #[cfg(target_os = "linux")]
        SockRef::from(self.socket().tcp()).set_tcp_user_timeout(Some(ACKNOWLEDGED_WITHIN))?;
        Ok(())
    }

    /// Reads as much as it takes to see whether the peer speaks HTTP/2; nothing is lost.
    pub(crate) async fn is_http2(&mut self) -> io::Result<bool> {
        let mut bytes = [0; PREFACE.len()];
        let mut end = 0;
        let speaks = loop {
            let before = end;
            poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut bytes[before..]);
                ready!(Pin::new(&mut *self).poll_read(cx, &mut buffer))?;
                end = before + buffer.filled().len();
                Poll::Ready(Ok::<_, io::Error>(()))
            })
            .await?;
            if end == before || !PREFACE.starts_with(&bytes[..end]) {
                break false;
            }
            if end == PREFACE.len() {
                break true;
            }
        };
        self.rewound = Bytes::copy_from_slice(&bytes[..end]);
        Ok(speaks)
    }

    /// The same, and these bytes come first.
    pub(crate) fn rewind(mut self, bytes: Bytes) -> Stream {
        self.rewound = bytes;
        self
    }

    /// Whether bytes were read that come again.
    pub(crate) fn is_rewound(&self) -> bool {
        !self.rewound.is_empty()
    }
}

/// What is sent to an upstream is acknowledged by its kernel within so long, or nobody is there. If there is no room for more, the upstream
/// has to read meanwhile: it is longer than most have for a part of a body.
#[cfg(target_os = "linux")]
pub(crate) const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(90);

/// Bytes that are copied together rather than handed to the kernel in slices.
const FEW: usize = 2048;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(FEW));
}

/// What an HTTP/2 client says first (RFC 9113, 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.rewound.is_empty() {
            let some = buffer.remaining().min(this.rewound.len());
            buffer.put_slice(&this.rewound.split_to(some));
            if some > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        match &mut this.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Wire::Tls(tls) => Pin::new(&mut **tls).poll_read(cx, buffer),
        }
    }
}

/// Hands a call on to the connection itself.
macro_rules! wired {
    ($this:ident, $method:ident ( $($arg:expr),* )) => {
        match &mut $this.wire {
            Wire::Plain(tcp) => Pin::new(tcp).$method($($arg),*),
            Wire::Tls(tls) => Pin::new(&mut **tls).$method($($arg),*),
        }
    };
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        wired!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Many slices cost the kernel more than copying a little costs us.
        match slices {
            [one] => self.poll_write(cx, one),
            _ if slices.iter().map(|slice| slice.len()).sum::<usize>() <= FEW => {
                SCRATCH.with(|scratch| {
                    let mut scratch = scratch.borrow_mut();
                    scratch.clear();
                    for slice in slices {
                        scratch.extend_from_slice(slice);
                    }
                    self.poll_write(cx, &scratch)
                })
            }
            _ => wired!(self, poll_write_vectored(cx, slices)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(tcp) => tcp.is_write_vectored(),
            Wire::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        wired!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        wired!(self, poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests;
