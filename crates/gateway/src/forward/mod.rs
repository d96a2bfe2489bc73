//! From a request to its upstream's response.

mod answered;
mod connect;
mod ended;
mod error;
mod h1;
mod h2;
mod head;
mod link;
mod opening;
mod outbound;
mod pool;
mod upgrade;
mod upload;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderName, Response};
use tollgate_wire::HeadLines;

pub(crate) use answered::Answered;
pub use error::{ForwardCause, ForwardError};
pub(crate) use head::{begins_as, is_ours_to_say, strip_untrailing};

use crate::body::Body;
use crate::connection::Connection;
use crate::presence::Presence;
use crate::received::Received;
use crate::ticker::Ticker;
use crate::upstream::Upstream;
use ended::Tried;
use link::{Link, Way};
use outbound::Outbound;
use pool::Local;

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
    /// body, means the same twice, and a connection that was kept open turned out to be closed, or the upstream said that it
    /// did nothing with it.
    ///
    /// Dropping the future, or the response's body before its end, breaks off the exchange.
    pub async fn forward(
        &self,
        upstream: &Arc<Upstream>,
        request: &mut Received,
        told: HeadLines,
        connection: &Connection,
    ) -> Result<Response<Body>, ForwardError> {
        let unseen = Cell::new(true);
        self.forward_noting(upstream, request, (told, None), (connection, &unseen)).await
    }

    /// The same without a header that is `hidden`, and for whoever wants to know whether anybody can have seen the request, also when nobody waits for the end of it: then
    /// `unseen` is no longer set.
    pub(crate) async fn forward_noting(
        &self,
        upstream: &Arc<Upstream>,
        request: &mut Received,
        (told, hidden): (HeadLines, Option<&HeaderName>),
        (connection, unseen): (&Connection, &Cell<bool>),
    ) -> Result<Response<Body>, ForwardError> {
        let _pending = upstream.backpressure().enter();
        let local = self.local(upstream);
        let mut outbound = Outbound::new(request, (told, hidden), (connection, unseen));
        let needs_http2 = head::is_grpc(outbound.request);
        let picked = self.pick(&local, upstream).await?;
        if let Some(protocol) = outbound.wanted_upgrade() {
            // Boxed, as it is rare and large.
            let wanted = (&mut outbound, protocol);
            return Box::pin(self.upgrade((&local, upstream), picked, wanted)).await;
        }
        let way =
            Way { upstream, picked: &picked, needs_http2, is_second: false, tried: Tried::Nothing };
        let failed = match self.attempt(way, &mut outbound).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        if !failed.may_repeat {
            return Err(failed.error);
        }
        // What was sent stays sent, whatever keeps the second attempt from that.
        let was_sent = !failed.error.was_never_sent();
        outbound.unseen.set(!was_sent);
        let again = async {
            let next = self.pick(&local, upstream).await?;
            if !next.may_follow(&picked, &failed.error) {
                return Err(failed.error);
            }
            let is_same = Rc::ptr_eq(&next.pool, &picked.pool);
            let tried = if is_same { failed.tried } else { Tried::Nothing };
            let way = Way { upstream, picked: &next, needs_http2, is_second: true, tried };
            self.attempt(way, &mut outbound).await.map_err(|failed| failed.error)
        };
        // Boxed, because it is rare.
        Box::pin(again).await.map_err(|error| if was_sent { error.but_sent() } else { error })
    }

    async fn attempt(
        &self,
        way: Way<'_>,
        outbound: &mut Outbound<'_>,
    ) -> Result<Response<Body>, Failed> {
        let timeout = way.upstream.response_timeout;
        let pool = &way.picked.pool;
        let link = match self.link(&way).await {
            Ok(link) => link,
            // The address' health has been told.
            Err(error) => {
                let tried = Tried::Nothing;
                return Err(Failed { error, may_repeat: true, is_targets_fault: false, tried });
            }
        };
        outbound.unseen.set(false);
        let answered = match link {
            Link::Own(busy) => busy.exchange(outbound, timeout).await,
            Link::Shared(shared) => shared.exchange(outbound, (pool, &self.ticker, timeout)).await,
        };
        match &answered {
            Ok(_) => pool.target.succeeded(),
            Err(failed) if failed.is_targets_fault => pool.target.failed(self.ticker.now()),
            Err(_) => (),
        }
        answered
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

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    error: ForwardError,
    /// The request may be sent again.
    may_repeat: bool,
    /// The address is not to be trusted with the next one.
    is_targets_fault: bool,
    /// What it may not be sent over again.
    tried: Tried,
}

impl Failed {
    /// A request was, or was to be, sent over a connection. `is_unproven` if nothing ever came over that: one that was
    /// used before may be closed at any time, by an address that is well.
    fn new(error: ForwardError, may_repeat: bool, is_unproven: bool) -> Failed {
        let is_targets_fault = match error.cause() {
            ForwardCause::ResponseTimeout => true,
            ForwardCause::Closed => is_unproven,
            _ => false,
        };
        Failed { error, may_repeat, is_targets_fault, tried: Tried::Nothing }
    }

    /// The same, after connections that are shared.
    fn over(self, tried: Tried) -> Failed {
        Failed { tried, ..self }
    }
}
