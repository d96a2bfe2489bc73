//! From a request to its upstream's response.

mod answered;
mod connect;
mod error;
mod h1;
mod h2;
mod head;
mod outbound;
mod pool;
mod upgrade;
mod upload;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use tollgate_wire::HeadLines;

pub(crate) use answered::Answered;
pub use error::{ForwardCause, ForwardError};
pub(crate) use head::strip_untrailing;

use crate::body::Body;
use crate::connection::Connection;
use crate::presence::Presence;
use crate::request_body::RequestBody;
use crate::ticker::Ticker;
use crate::upstream::Upstream;
use outbound::Outbound;
use pool::{Local, Pool};

/// Forwards the requests of one worker, over connections of its own.
#[derive(Debug)]
pub struct Forwarder {
    ticker: Rc<Ticker>,
    presence: Presence,
    upstreams: RefCell<Vec<Rc<Local>>>,
    ticks: Cell<u32>,
}

/// Idle connections are looked at every so many ticks.
const SWEEP_EVERY: u32 = 10;

impl Forwarder {
    pub(crate) fn new(ticker: &Rc<Ticker>, presence: &Presence) -> Forwarder {
        Forwarder {
            ticker: Rc::clone(ticker),
            presence: presence.clone(),
            upstreams: RefCell::default(),
            ticks: Cell::new(0),
        }
    }

    /// Sends a request on and returns the response as soon as it begins; both bodies are streamed.
    ///
    /// `told` are lines that are added to its head; what the caller sent under their names is left out. What is left of
    /// the request afterwards is nobody's.
    ///
    /// The request is sent a second time only where that cannot do harm: not a byte of it was written, or it has no
    /// body, means the same twice, and a connection that was kept open turned out to be closed.
    ///
    /// Dropping the future, or the response's body before its end, breaks off the exchange.
    pub async fn forward(
        &self,
        upstream: &Arc<Upstream>,
        request: &mut Request<RequestBody>,
        told: HeadLines,
        connection: &Connection,
    ) -> Result<Response<Body>, ForwardError> {
        let _pending = upstream.backpressure().enter();
        let local = self.local(upstream);
        let mut outbound = Outbound::new(request, told, connection);
        let needs_http2 = head::is_grpc(outbound.request);
        let pool = self.pick(&local, upstream).await?;
        if let Some(protocol) = outbound.wanted_upgrade() {
            let wanted = (outbound.take(), protocol);
            // Boxed, as it is rare and large.
            let exchange = upgrade::exchange((upstream, &pool), wanted, &self.presence);
            return Box::pin(exchange).await;
        }
        let way = Way { upstream, pool: &pool, needs_http2, is_second: false };
        let failed = match self.attempt(way, &mut outbound).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        if !failed.may_repeat {
            return Err(failed.error);
        }
        let pool = self.pick(&local, upstream).await?;
        let way = Way { upstream, pool: &pool, needs_http2, is_second: true };
        self.attempt(way, &mut outbound).await.map_err(|failed| failed.error)
    }

    async fn attempt(
        &self,
        way: Way<'_>,
        outbound: &mut Outbound<'_>,
    ) -> Result<Response<Body>, Failed> {
        let timeout = way.upstream.response_timeout;
        match self.link(&way).await {
            Ok(Link::Own(busy)) => busy.exchange(outbound, timeout).await,
            Ok(Link::Shared(shared)) => {
                shared.exchange(outbound, (way.pool, &self.ticker, timeout)).await
            }
            Err(error) => Err(Failed { error, may_repeat: true }),
        }
    }

    /// A connection for one request: one that is there, or a new one.
    async fn link(&self, way: &Way<'_>) -> Result<Link, ForwardError> {
        let may_reuse = !way.needs_http2 && !way.is_second;
        while may_reuse && let Some(mut idle) = way.pool.take() {
            // Those that were closed meanwhile cost nobody a request.
            if poll_fn(|cx| Poll::Ready(idle.poll_open(cx))).await {
                return Ok(Link::Own(h1::Busy::new(idle, way.pool, true)));
            }
        }
        if let Some(shared) = h2::Shared::of(way.pool) {
            return Ok(Link::Shared(shared));
        }
        // Boxed, because it is rare, and every request would keep room for it.
        Box::pin(self.open(way)).await
    }

    async fn open(&self, way: &Way<'_>) -> Result<Link, ForwardError> {
        let target = &way.pool.target;
        let may_share = target.origin.is_https() && !way.pool.is_http1.get();
        let opened = if way.needs_http2 || may_share {
            // Whoever comes while somebody connects shares that connection.
            let _turn = way.pool.opening.lock().await;
            match h2::Shared::of(way.pool) {
                Some(shared) => return Ok(Link::Shared(shared)),
                None => self.connect(way).await,
            }
        } else {
            self.connect(way).await
        };
        if opened.is_err() {
            way.upstream.resolved().doubt(self.ticker.now());
            tracing::debug!(address = %target.address, "an upstream cannot be connected to");
        }
        opened
    }

    async fn connect(&self, way: &Way<'_>) -> Result<Link, ForwardError> {
        let target = &way.pool.target;
        let stream = connect::connect(target, way.upstream.connect_timeout, false).await?;
        // Without TLS nobody says what the upstream speaks: HTTP/1.1, unless the request cannot do with that.
        let is_http2 = if target.origin.is_https() {
            let is_http2 = crate::tls::is_h2(stream.alpn());
            way.pool.is_http1.set(!is_http2);
            is_http2
        } else {
            way.needs_http2
        };
        if is_http2 {
            let shared = h2::Shared::new(stream).await?;
            way.pool.shared.borrow_mut().push(shared.clone());
            Ok(Link::Shared(shared))
        } else {
            let idle = h1::Idle::new(stream, &self.ticker);
            Ok(Link::Own(h1::Busy::new(idle, way.pool, false)))
        }
    }

    /// The address whose turn it is. Names are asked for at once where they never were, and else aside.
    async fn pick(
        &self,
        local: &Rc<Local>,
        upstream: &Arc<Upstream>,
    ) -> Result<Rc<Pool>, ForwardError> {
        let now = self.ticker.now();
        let picked = local.pick(upstream, now);
        if !upstream.resolved().is_due(now) {
            return picked.ok_or_else(|| ForwardError::unsent(ForwardCause::Resolve));
        }
        if let Some(pool) = picked {
            let upstream = Arc::clone(upstream);
            tokio::task::spawn_local(async move {
                let _ = upstream.resolved().ask(upstream.origins()).await;
            });
            return Ok(pool);
        }
        let asked = upstream.resolved().ask(upstream.origins()).await;
        local.pick(upstream, now).ok_or_else(|| {
            let error = ForwardError::unsent(ForwardCause::Resolve);
            match asked {
                Ok(()) => error,
                Err(source) => error.with(source),
            }
        })
    }

    fn local(&self, upstream: &Arc<Upstream>) -> Rc<Local> {
        let mut upstreams = self.upstreams.borrow_mut();
        if let Some(local) = upstreams.iter().find(|local| local.is_of(upstream)) {
            return Rc::clone(local);
        }
        let local = Local::new(upstream);
        upstreams.push(Rc::clone(&local));
        local
    }

    /// Drops connections that nobody will use.
    pub(crate) fn sweep(&self) {
        self.ticks.set(self.ticks.get().wrapping_add(1));
        if !self.ticks.get().is_multiple_of(SWEEP_EVERY) {
            return;
        }
        self.upstreams.borrow_mut().retain(|local| local.is_used());
        for local in self.upstreams.borrow().iter() {
            local.sweep(self.ticker.now());
        }
    }
}

/// Where an attempt goes.
struct Way<'f> {
    upstream: &'f Arc<Upstream>,
    pool: &'f Rc<Pool>,
    needs_http2: bool,
    is_second: bool,
}

/// A connection for one request.
enum Link {
    Own(h1::Busy),
    Shared(h2::Shared),
}

/// An attempt that failed, and whether the request may be sent again.
#[derive(Debug)]
pub(crate) struct Failed {
    error: ForwardError,
    may_repeat: bool,
}
