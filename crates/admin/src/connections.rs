//! Connections to the control plane: so many at once, and none that idles for ever.
//!
//! Whoever has no token must not be able to use up memory or files by connecting. Further connections wait
//! in the system's backlog until one of those that are open ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Connections at once.
const MOST: usize = 256;

/// How long a connection may neither send nor take anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long, once told to stop, what is under way may take. A stream of reflection has no end of its own.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `routes` on `listener` until `stop` is done. What is under way then is finished within [`GRACE`].
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    routes: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = Bounded::new(TcpListener::from_std(listener)?);
    let (tell, told) = oneshot::channel::<()>();
    let stop = async move {
        stop.await;
        drop(tell);
    };
    let too_long = async move {
        drop(told.await);
        sleep(GRACE).await;
    };
    let routes = routes.into_make_service_with_connect_info::<Peer>();
    tokio::select! {
        served = axum::serve(listener, routes).with_graceful_shutdown(stop) => served,
        () = too_long => Ok(()),
    }
}

/// Accepts so many connections.
struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Bounded {
    fn new(listener: TcpListener) -> Bounded {
        Bounded { listener, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Bounded {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection<TcpStream>, SocketAddr) {
        // Nobody closes the semaphore; if somebody did, there would be no bound, and still a service.
        let place = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (Connection::new(stream, place), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Peer {
        Peer(*stream.remote_addr())
    }
}

/// A connection that ends when nothing has moved for [`PATIENCE`].
struct Connection<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Connection<S> {
        let deadline = Box::pin(sleep_until(Instant::now() + PATIENCE));
        Connection { stream, deadline, _place: place }
    }

    /// Something moved, or the wait goes on until there is no patience left.
    fn watch<R>(
        &mut self,
        context: &mut Context<'_>,
        moved: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if moved.is_ready() {
            self.deadline.as_mut().reset(Instant::now() + PATIENCE);
            return moved;
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, moved)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_nothing_moves_and_not_before() {
        let (near, mut far) = duplex(8);
        let mut connection = Connection::new(near, None);
        let began = Instant::now();
        let slow = tokio::spawn(async move {
            for _ in 0..3 {
                sleep(PATIENCE - Duration::from_secs(1)).await;
                far.write_all(b"x").await.unwrap();
            }
            far
        });
        for _ in 0..3 {
            assert_eq!(connection.read_u8().await.unwrap(), b'x');
        }
        let _still_open = slow.await.unwrap();
        let ended = connection.read_u8().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), PATIENCE * 4 - Duration::from_secs(3));
    }
}
