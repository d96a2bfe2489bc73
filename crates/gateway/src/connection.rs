//! One caller's connection, from the first byte to the last.
//!
//! Which protocol is spoken is seen by the first bytes. HTTP/1.1 is served by `h1`, HTTP/2 by hyper; around hyper stands what it
//! does not do: end connections on which too little happens, and end all of them when the gateway stops.

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use http::HeaderValue;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::caller::is_trusted;
use crate::entry::Entry;
use crate::h1;
use crate::handler::Handler;
use crate::presence::Present;
use crate::socket::{Peer, Socket};
use crate::stream::Stream;
use crate::ticker::Watch;
use crate::watched::{Watched, WatchedBodies};
use crate::worker::{Phase, Worker};

/// What is known about the connection a request came over.
#[derive(Debug)]
pub struct Connection {
    peer: SocketAddr,
    is_tls: bool,
    /// Whether the peer was a trusted proxy, and after how many changes of the settings.
    is_from_proxy: Cell<(bool, u32)>,
    /// The peer's address as it is written in `X-Forwarded-For`: once a connection, not once a request.
    address: HeaderValue,
    activity: Rc<Activity>,
}

impl Connection {
    /// Who is at the other end: the caller, or the last proxy before us.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Whether the peer is a trusted proxy: what it says about the caller is believed.
    pub fn is_from_proxy(&self) -> bool {
        self.is_from_proxy.get().0
    }

    /// Looks again whether the peer is a trusted proxy, if that may have changed since the last request.
    pub(crate) fn renew(&self, worker: &Worker) {
        if self.is_from_proxy.get().1 != worker.changes() {
            self.is_from_proxy.set(is_from_proxy(self.peer, worker));
        }
    }

    pub(crate) fn address(&self) -> &HeaderValue {
        &self.address
    }

    /// A request over HTTP/2 begins.
    pub(crate) fn begin(&self) -> InFlight {
        self.activity.in_flight.set(self.activity.in_flight.get() + 1);
        self.activity.begun.set(self.activity.begun.get().wrapping_add(1));
        InFlight(Rc::clone(&self.activity))
    }
}

/// How much is going on.
#[derive(Debug)]
pub(crate) struct Activity {
    in_flight: Cell<usize>,
    /// Requests so far: one may begin and end between two looks, and the connection was not idle.
    begun: Cell<usize>,
    peer: Peer,
    bodies: WatchedBodies,
}

impl Activity {
    /// A response has a body that may not be taken.
    pub(crate) fn watch(&self, body: &Rc<Watched>) {
        self.bodies.add(body);
    }

    fn doing(&self) -> Doing {
        match self.in_flight.get() {
            _ if self.peer.is_deaf() => Doing::Talking,
            0 => Doing::Nothing,
            _ => Doing::Answering,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Waiting for a request.
    Nothing,
    Answering,
    /// Answering somebody who does not read.
    Talking,
}

/// A request in flight: from its head to the last byte of its response.
#[derive(Debug)]
pub(crate) struct InFlight(Rc<Activity>);

impl InFlight {
    pub(crate) fn activity(&self) -> Rc<Activity> {
        Rc::clone(&self.0)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get().saturating_sub(1));
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve<H: Handler>(
    handler: Rc<H>,
    worker: Rc<Worker>,
    (tcp, peer): (TcpStream, SocketAddr),
    _present: Present,
) {
    let watch = worker.ticker().watch();
    watch.arm(worker.limits().header_timeout);
    let (stream, is_http2) = match opened(tcp, &worker, &watch).await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => return tracing::debug!(%peer, %error, "a connection did not begin"),
        None => return,
    };
    let connection = connection(peer, &worker, &stream);
    let activity = Rc::clone(&connection.activity);
    let entry = Entry::new(handler, Rc::clone(&worker), connection);
    if !is_http2 {
        return h1::serve(stream, &entry, &watch).await;
    }
    let entry = Rc::new(entry);
    let service = service_fn(move |request| {
        let entry = Rc::clone(&entry);
        async move { entry.answer_http2(request).await }
    });
    let looks = worker.ticker().watch();
    let bounds = Bounds { watch, looks, worker: &worker, activity };
    let served = Box::pin(worker.http2().serve_connection(TokioIo::new(stream), service));
    if let Err(error) = bounds.serve(served, http2::Connection::graceful_shutdown).await {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

fn connection(peer: SocketAddr, worker: &Worker, stream: &Stream) -> Connection {
    let address = peer.ip().to_canonical();
    Connection {
        peer,
        is_tls: stream.is_tls(),
        is_from_proxy: Cell::new(is_from_proxy(peer, worker)),
        address: HeaderValue::try_from(address.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown")),
        activity: Rc::new(Activity {
            in_flight: Cell::default(),
            begun: Cell::default(),
            peer: stream.peer(),
            bodies: WatchedBodies::default(),
        }),
    }
}

fn is_from_proxy(peer: SocketAddr, worker: &Worker) -> (bool, u32) {
    (is_trusted(peer.ip(), &worker.settings().trusted_proxies), worker.changes())
}

async fn open(tcp: TcpStream, worker: &Worker) -> std::io::Result<(Stream, bool)> {
    tcp.set_nodelay(true)?;
    let mut stream = match worker.acceptor() {
        None => Stream::plain(tcp),
        // Boxed, because every connection would keep room for a handshake.
        Some(acceptor) => Stream::tls(Box::pin(acceptor.accept(Socket::new(tcp))).await?),
    };
    let is_http2 = stream.is_http2().await?;
    Ok((stream, is_http2))
}

/// A connection whose first bytes have come; nothing if they do not come in time, or not before idle connections are closed.
async fn opened(
    tcp: TcpStream,
    worker: &Worker,
    watch: &Watch,
) -> Option<std::io::Result<(Stream, bool)>> {
    let mut opening = pin!(open(tcp, worker));
    std::future::poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Ready(opened) => Poll::Ready(Some(opened)),
        Poll::Pending if worker.phase() >= Phase::Closing => Poll::Ready(None),
        Poll::Pending => watch.poll(cx).map(|()| {
            worker.count(|counts| &counts.timeouts);
            None
        }),
    })
    .await
}

/// When a connection ends although its peer keeps it open.
struct Bounds<'w> {
    watch: Watch,
    /// When to look for responses that are not taken: again and again, whatever else happens on the connection.
    looks: Watch,
    worker: &'w Worker,
    activity: Rc<Activity>,
}

impl Bounds<'_> {
    async fn serve<F>(&self, mut served: Pin<Box<F>>, close: fn(Pin<&mut F>)) -> hyper::Result<()>
    where
        F: Future<Output = hyper::Result<()>>,
    {
        let mut is_closing = false;
        let (mut doing, mut begun) = (Doing::Talking, self.activity.begun.get());
        let mut taken = 0;
        self.looks.arm(self.worker.limits().idle_timeout);
        std::future::poll_fn(|cx| {
            loop {
                if !is_closing && self.worker.phase() >= Phase::Closing {
                    is_closing = true;
                    close(served.as_mut());
                }
                if let Poll::Ready(ended) = served.as_mut().poll(cx) {
                    return Poll::Ready(ended);
                }
                self.look(cx);
                let now = (self.activity.doing(), self.activity.begun.get());
                if now != (doing, begun) {
                    (doing, begun) = now;
                    self.activity.peer.took_more(&mut taken);
                    self.arm(doing);
                }
                if self.watch.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // Compared here, and not with every write.
                if doing == Doing::Talking && self.activity.peer.took_more(&mut taken) {
                    self.arm(doing);
                    continue;
                }
                if is_closing || doing != Doing::Nothing {
                    self.worker.count(|counts| &counts.timeouts);
                    return Poll::Ready(Ok(()));
                }
                // Hyper says goodbye where the protocol has a word for it; that may take until the next timeout.
                is_closing = true;
                close(served.as_mut());
                self.watch.arm(self.worker.limits().header_timeout);
            }
        })
        .await
    }

    /// Gives up responses of which nothing was taken since the last look. The connection goes on without them.
    fn look(&self, cx: &mut std::task::Context<'_>) {
        while self.looks.poll(cx).is_ready() {
            for _ in 0..self.activity.bodies.look() {
                self.worker.count(|counts| &counts.timeouts);
            }
            self.looks.arm(self.worker.limits().idle_timeout);
        }
    }

    fn arm(&self, doing: Doing) {
        let limits = self.worker.limits();
        match doing {
            Doing::Nothing | Doing::Talking => self.watch.arm(limits.idle_timeout),
            Doing::Answering => self.watch.disarm(),
        }
    }
}
