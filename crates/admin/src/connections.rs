//! Connections to the control plane: so many at once, and none that idles for ever.
//!
//! Whoever has no token must not be able to use up memory or files by connecting. Further connections wait
//! in the system's backlog until one of those that are open ends. So a connection has a while to make its first request,
//! and a while for each further one, however many bytes it sends meanwhile. Whoever has not shown the token has no longer for
//! taking an answer either; whoever has may take as long as bytes move.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use crate::listening::{Listening, Wire};

/// Connections at once.
const MOST: usize = 256;

/// How long a new connection may take until the head of its first request has come.
const FIRST: Duration = Duration::from_secs(10);

/// How long a connection may neither send nor take anything of a request and its answer, how long until its next request, and
/// how long all that is under way of somebody without the token may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long, once told to stop, what is under way may take. A stream of reflection has no end of its own.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `routes` on `listener` until `stop` is done. What is under way then is finished within [`GRACE`].
pub(crate) async fn serve(
    listening: Listening,
    routes: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let Listening { tcp, tls } = listening;
    tcp.set_nonblocking(true)?;
    let listener = Bounded::new(TcpListener::from_std(tcp)?, tls);
    let (tell, told) = oneshot::channel::<()>();
    let stop = async move {
        stop.await;
        drop(tell);
    };
    let too_long = async move {
        drop(told.await);
        sleep(GRACE).await;
    };
    let routes = routes.layer(from_fn(note)).into_make_service_with_connect_info::<Peer>();
    tokio::select! {
        served = axum::serve(listener, routes).with_graceful_shutdown(stop) => served,
        () = too_long => Ok(()),
    }
}

/// Accepts so many connections.
struct Bounded {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    room: Arc<Semaphore>,
}

impl Bounded {
    fn new(listener: TcpListener, tls: Option<TlsAcceptor>) -> Bounded {
        Bounded { listener, tls, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Bounded {
    type Io = Connection<Wire>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection<Wire>, SocketAddr) {
        // Nobody closes the semaphore; if somebody did, there would be no bound, and still a service.
        let place = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (Connection::new(Wire::new(stream, self.tls.as_ref()), place), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end, and of which connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr, Arc<Activity>);

impl Peer {
    /// It has shown the token.
    pub(crate) fn trust(&self) {
        self.1.0.lock().is_trusted = true;
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Peer {
        Peer(*stream.remote_addr(), Arc::clone(&stream.io().activity))
    }
}

/// Notes that a request has come, until its answer has been taken.
async fn note(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    let under_way = UnderWay::begin(peer.1);
    let response = next.run(request).await;
    response.map(|body| Body::new(Answered { body, _under_way: under_way }))
}

/// What a connection is about.
#[derive(Debug)]
struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    under_way: usize,
    /// Since when any is.
    since: Instant,
    is_trusted: bool,
    /// When something was last sent or taken.
    moved: Instant,
    /// Until when the next one must have come if none is under way.
    next_by: Instant,
}

impl Activity {
    fn new() -> Arc<Activity> {
        let now = Instant::now();
        Arc::new(Activity(Mutex::new(Requests {
            under_way: 0,
            since: now,
            is_trusted: false,
            moved: now,
            next_by: now + FIRST,
        })))
    }

    fn moved(&self) {
        self.0.lock().moved = Instant::now();
    }

    /// When there is no patience left, unless something happens.
    fn ends(&self) -> Instant {
        let requests = self.0.lock();
        match requests.under_way {
            0 => requests.next_by,
            _ if requests.is_trusted => requests.moved + PATIENCE,
            _ => requests.since + PATIENCE,
        }
    }
}

/// One request of a connection.
#[derive(Debug)]
struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn begin(activity: Arc<Activity>) -> UnderWay {
        let mut requests = activity.0.lock();
        if requests.under_way == 0 {
            let now = Instant::now();
            (requests.since, requests.moved) = (now, now);
        }
        requests.under_way += 1;
        drop(requests);
        UnderWay(activity)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock();
        requests.under_way -= 1;
        requests.next_by = Instant::now() + PATIENCE;
    }
}

/// The body of an answer: its request is under way until it is dropped.
struct Answered {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that ends when nobody has patience with it any more.
struct Connection<S> {
    stream: S,
    activity: Arc<Activity>,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Connection<S> {
        let activity = Activity::new();
        let deadline = Box::pin(sleep_until(activity.ends()));
        Connection { stream, activity, deadline, _place: place }
    }

    fn moved<R>(&self, moved: &Poll<io::Result<R>>) {
        if moved.is_ready() {
            self.activity.moved();
        }
    }

    /// It is done, or the wait goes on until there is no patience left. Bytes do not help whoever makes no request of them.
    fn watch<R>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        loop {
            let ends = self.activity.ends();
            if ends <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if done.is_ready() {
                return done;
            }
            self.deadline.as_mut().reset(ends);
            if self.deadline.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved(&read);
        self.watch(context, read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(&written);
        self.watch(context, written)
    }

    /// TLS keeps what the other end does not take yet.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_nothing_moves_and_not_before() {
        let (near, mut far) = duplex(8);
        let mut connection = Connection::new(near, None);
        let _under_way = UnderWay::begin(Arc::clone(&connection.activity));
        connection.activity.0.lock().is_trusted = true;
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

    #[tokio::test(start_paused = true)]
    async fn whoever_has_no_token_cannot_draw_out_a_request() {
        let (near, far) = duplex(8);
        let mut connection = Connection::new(near, None);
        let _under_way = UnderWay::begin(Arc::clone(&connection.activity));
        let _second = UnderWay::begin(Arc::clone(&connection.activity));
        let dripping = drip(far);
        let began = Instant::now();
        let (why, ended) = drain(&mut connection).await;
        assert_eq!((why, ended - began), (io::ErrorKind::TimedOut, PATIENCE));
        dripping.abort();
    }

    /// Nobody takes what is written, as TLS finds it when it flushes.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_is_not_flushed_for_ever() {
        struct Deaf;
        impl AsyncWrite for Deaf {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Ok(bytes.len()))
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Pending
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Pending
            }
        }
        for is_trusted in [true, false] {
            let mut connection = Connection::new(Deaf, None);
            let _under_way = UnderWay::begin(Arc::clone(&connection.activity));
            connection.activity.0.lock().is_trusted = is_trusted;
            connection.write_all(b"x").await.unwrap();
            let began = Instant::now();
            assert_eq!(connection.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), PATIENCE);
            assert_eq!(connection.shutdown().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }

    /// A byte now and then.
    fn drip(mut far: DuplexStream) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            while far.write_all(b"x").await.is_ok() {
                sleep(Duration::from_millis(700)).await;
            }
        })
    }

    /// Reads until there is nothing more to be had; why, and when that was.
    async fn drain(connection: &mut Connection<DuplexStream>) -> (io::ErrorKind, Instant) {
        loop {
            if let Err(why) = connection.read_u8().await {
                return (why.kind(), Instant::now());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_do_not_help_whoever_makes_no_request_of_them() {
        let (near, far) = duplex(8);
        let mut connection = Connection::new(near, None);
        let dripping = drip(far);
        let began = Instant::now();
        let (why, ended) = drain(&mut connection).await;
        assert_eq!((why, ended - began), (io::ErrorKind::TimedOut, FIRST));

        // After a request there is more time for the next one, and no more than that.
        drop(UnderWay::begin(Arc::clone(&connection.activity)));
        let began = Instant::now();
        let (why, ended) = drain(&mut connection).await;
        assert_eq!((why, ended - began), (io::ErrorKind::TimedOut, PATIENCE));
        dripping.abort();
    }
}
