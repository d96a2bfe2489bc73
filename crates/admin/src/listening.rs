//! Where the control plane listens, with TLS or without.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// A bound address, and what callers are shown there.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::net::TcpListener;
/// use tollgate_admin::Listening;
///
/// let plain = Listening::from(TcpListener::bind("127.0.0.1:0")?);
/// # Ok(())
/// # }
/// ```
pub struct Listening {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Listening {
    /// Callers speak TLS, or are not listened to.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ServerConfig>) -> Listening {
        self.tls = Some(TlsAcceptor::from(config));
        self
    }
}

impl From<TcpListener> for Listening {
    fn from(tcp: TcpListener) -> Listening {
        Listening { tcp, tls: None }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = self.tls.is_some();
        f.debug_struct("Listening").field("tcp", &self.tcp).field("tls", &tls).finish()
    }
}

/// A connection. A handshake is made when somebody first reads or writes: whoever accepts connections waits for nobody's.
pub(crate) enum Wire {
    Plain(TcpStream),
    Greeting(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// The handshake failed.
    Ended,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, tls: Option<&TlsAcceptor>) -> Wire {
        match tls {
            Some(tls) => Wire::Greeting(Box::new(tls.accept(stream))),
            None => Wire::Plain(stream),
        }
    }

    /// What bytes go over, once they can.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Duplex>>> {
        if let Wire::Greeting(accept) = self {
            let greeted = ready!(Pin::new(&mut **accept).poll(context));
            // A handshake that failed must not be asked again.
            *self = Wire::Ended;
            *self = Wire::Tls(Box::new(greeted?));
        }
        Poll::Ready(self.open().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }

    fn open(&mut self) -> Option<Pin<&mut dyn Duplex>> {
        match self {
            Wire::Plain(tcp) => Some(Pin::new(tcp)),
            Wire::Tls(tls) => Some(Pin::new(&mut **tls)),
            Wire::Greeting(_) | Wire::Ended => None,
        }
    }
}

/// What bytes go over in both directions.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_open(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?.poll_write(context, bytes)
    }

    /// Of a handshake nothing was written yet that anybody gave us.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open().map_or(Poll::Ready(Ok(())), |open| open.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open().map_or(Poll::Ready(Ok(())), |open| open.poll_shutdown(context))
    }
}
