//! From an upstream to a connection for one request: an address, and a way there.
//!
//! One bound, the connect timeout, stands over all of it: the name's resolution, the wait for whoever is opening a
//! connection that can be shared, the connection itself. Only who waited for one that then had no room has as long again for its own.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

use super::connect::connect;
use super::ended::Tried;
use super::error::{ForwardCause, ForwardError};
use super::pool::{Local, Pool};
use super::{Forwarder, h1, h2};
use crate::stream::Stream;
use crate::upstream::Upstream;

/// The address whose turn it is.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) pool: Rc<Pool>,
    /// When there must be a connection, where time was spent on finding the address.
    until: Option<Instant>,
}

impl Picked {
    /// When there must be a connection.
    pub(crate) fn until(&self, upstream: &Upstream) -> Instant {
        self.until.unwrap_or_else(|| Instant::now() + upstream.connect_timeout)
    }

    /// Whether a request may go here after it could not go there. Who had the whole time has no need of as long again.
    pub(crate) fn may_follow(&self, other: &Picked, error: &ForwardError) -> bool {
        let was_slow = error.cause() == ForwardCause::ConnectTimeout;
        !was_slow || !Rc::ptr_eq(&self.pool, &other.pool)
    }
}

/// Where an attempt goes.
pub(crate) struct Way<'f> {
    pub(crate) upstream: &'f Arc<Upstream>,
    pub(crate) picked: &'f Picked,
    pub(crate) needs_http2: bool,
    pub(crate) is_second: bool,
    /// Of the address' connections.
    pub(crate) tried: Tried,
}

impl Way<'_> {
    fn pool(&self) -> &Rc<Pool> {
        &self.picked.pool
    }
}

/// A connection for one request.
pub(crate) enum Link {
    Own(h1::Busy),
    Shared(h2::Shared),
}

impl Forwarder {
    /// The address whose turn it is. Names are waited for where they were never resolved, and else asked for aside.
    pub(crate) async fn pick(
        &self,
        local: &Rc<Local>,
        upstream: &Arc<Upstream>,
    ) -> Result<Picked, ForwardError> {
        let now = self.ticker.now();
        let Some(pool) = local.pick(upstream, now) else {
            return Box::pin(self.pick_resolved(local, upstream)).await;
        };
        if upstream.resolved().is_due(now) {
            upstream.resolve();
        }
        Ok(Picked { pool, until: None })
    }

    /// The same, once somebody has asked for the names.
    async fn pick_resolved(
        &self,
        local: &Rc<Local>,
        upstream: &Arc<Upstream>,
    ) -> Result<Picked, ForwardError> {
        let until = Instant::now() + upstream.connect_timeout;
        let now = self.ticker.now();
        let mut outcomes = upstream.resolved().outcomes();
        let picked = || {
            let pool = local.pick(upstream, now)?;
            Some(Picked { pool, until: Some(until) })
        };
        if let Some(picked) = picked() {
            // Another worker was told in this moment.
            return Ok(picked);
        }
        if upstream.resolved().is_due(now) {
            upstream.resolve();
            if timeout_at(until, outcomes.changed()).await.is_err() {
                return Err(ForwardError::unsent(ForwardCause::ConnectTimeout));
            }
        }
        picked().ok_or_else(|| {
            let error = ForwardError::unsent(ForwardCause::Resolve);
            let why = outcomes.borrow().clone();
            match why {
                Some(why) => error.with(why),
                None => error,
            }
        })
    }

    /// A connection for one request: one that is there, or a new one.
    pub(crate) async fn link(&self, way: &Way<'_>) -> Result<Link, ForwardError> {
        let may_reuse = !way.needs_http2 && !way.is_second;
        while may_reuse && let Some(mut idle) = way.pool().take() {
            // Those that were closed meanwhile cost nobody a request.
            if poll_fn(|cx| Poll::Ready(idle.poll_open(cx))).await {
                return Ok(Link::Own(h1::Busy::new(idle, way.pool(), true)));
            }
        }
        // Without TLS nobody has said that it speaks HTTP/2 for anything but gRPC.
        let may_share = way.needs_http2 || way.pool().target.origin.is_https();
        if may_share && let Some(shared) = h2::Shared::of(way.pool(), way.tried) {
            return Ok(Link::Shared(shared));
        }
        // Boxed, because it is rare, and every request would keep room for it.
        Box::pin(self.open(way)).await
    }

    async fn open(&self, way: &Way<'_>) -> Result<Link, ForwardError> {
        let pool = way.pool();
        let mut until = way.picked.until(way.upstream);
        let may_share =
            || way.needs_http2 || (pool.target.origin.is_https() && !pool.is_http1.get());
        // Whoever comes while somebody connects shares that connection, or its failure: one after the other they
        // would wait for as many timeouts as there are of them.
        let failures = pool.openings.failures();
        let mut own_until = until;
        while may_share() && pool.openings.have_room(h2::Shared::expected(pool)) {
            let opened = pool.opened.get();
            let waited = timeout_at(until, pool.openings.next()).await;
            waited.map_err(|_| ForwardError::unsent(ForwardCause::ConnectTimeout))?;
            if let Some(shared) = h2::Shared::of(pool, way.tried) {
                return Ok(Link::Shared(shared));
            }
            if let Some(cause) = pool.openings.failed_since(failures) {
                return Err(ForwardError::unsent(cause));
            }
            // Its own has as long as any: what was left would be too short for a good address, too, and held against that.
            own_until = Instant::now() + way.upstream.connect_timeout;
            if pool.opened.get() > opened {
                // The address is well; there was no room left.
                until = own_until;
            }
        }
        if !may_share() {
            return self.connect(way, own_until).await;
        }
        let opening = pool.openings.begin();
        let opened = self.connect(way, own_until).await;
        if let Err(error) = &opened {
            opening.failed(error.cause());
        }
        opened
    }

    async fn connect(&self, way: &Way<'_>, until: Instant) -> Result<Link, ForwardError> {
        let pool = way.pool();
        let stream = self.dial((way.upstream, pool), until, false).await?;
        // Without TLS nobody says what the upstream speaks: HTTP/1.1, unless the request cannot do with that.
        let is_http2 = if pool.target.origin.is_https() {
            let is_http2 = crate::tls::is_h2(stream.alpn());
            pool.is_http1.set(!is_http2);
            is_http2
        } else {
            way.needs_http2
        };
        if is_http2 {
            // Others may be opened meanwhile.
            let number = pool.opened.get() + 1;
            pool.opened.set(number);
            let shared = h2::Shared::new(stream, number).await?;
            pool.shared.borrow_mut().push(shared.clone());
            Ok(Link::Shared(shared))
        } else {
            let idle = h1::Idle::new(stream, &self.ticker);
            Ok(Link::Own(h1::Busy::new(idle, pool, false)))
        }
    }

    /// A new connection. Where there is none, the names may have moved.
    pub(crate) async fn dial(
        &self,
        (upstream, pool): (&Upstream, &Pool),
        until: Instant,
        http1_only: bool,
    ) -> Result<Stream, ForwardError> {
        let opened = connect(&pool.target, until, http1_only).await;
        if opened.is_err() {
            upstream.resolved().doubt(self.ticker.now());
            tracing::debug!(address = %pool.target.address, "an upstream cannot be connected to");
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;
    use tollgate_policy::shapes;

    use super::*;
    use crate::presence::Presence;
    use crate::ticker::Ticker;
    use crate::tls::Trust;
    use crate::upstream::Asking;

    /// An upstream, and who wants to go there.
    fn to(url: &str) -> (Forwarder, Arc<Upstream>) {
        let shape = shapes::Upstream {
            url: Some(url.parse().unwrap()),
            urls: None,
            backpressure: shapes::Backpressure::default(),
            connect_timeout_ms: 2000,
            response_timeout_ms: 1,
            rate_limit: None,
        };
        let upstream = Upstream::new(&shape, Trust::system).unwrap();
        (Forwarder::new(&Ticker::new(), &Presence::new(&Arc::default())), upstream)
    }

    /// The same, while somebody is asking for the upstream's name.
    fn unresolved() -> (Asking, Forwarder, Arc<Upstream>) {
        let (forwarder, upstream) = to("http://name.invalid");
        (Asking::begin(&upstream).unwrap(), forwarder, upstream)
    }

    /// What was left of its time was too short for any address, and held against that.
    #[tokio::test(start_paused = true)]
    async fn who_waited_for_somebody_who_hung_up_has_as_long_as_any_for_a_connection() {
        // The system takes connections there, and nobody speaks TLS.
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (forwarder, upstream) = to(&format!("https://{}", mute.local_addr().unwrap()));
        let local = forwarder.local(&upstream);
        let picked = &forwarder.pick(&local, &upstream).await.unwrap();
        let upstream = &upstream;
        let tried = Tried::Nothing;
        let way = Way { upstream, picked, needs_http2: false, is_second: false, tried };
        let began = Instant::now();
        let hangs_up = timeout(Duration::from_millis(1500), forwarder.link(&way));
        let (hung_up, waited) = tokio::join!(hangs_up, forwarder.link(&way));
        assert!(hung_up.is_err());
        assert_eq!(waited.err().unwrap().cause(), ForwardCause::ConnectTimeout);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(3500), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_name_waits_no_longer_than_for_a_connection() {
        let (_asking, forwarder, upstream) = unresolved();
        let local = forwarder.local(&upstream);
        let began = Instant::now();
        let picks = [(); 3].map(|()| forwarder.pick(&local, &upstream));
        let [one, two, three] = picks;
        let (one, two, three) = tokio::join!(one, two, three);
        for picked in [one, two, three] {
            let error = picked.unwrap_err();
            assert_eq!(error.cause(), ForwardCause::ConnectTimeout);
            assert!(error.was_never_sent());
        }
        assert!(began.elapsed() < Duration::from_millis(2100), "{:?}", began.elapsed());
        assert!(Asking::begin(&upstream).is_none(), "nobody asks beside");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_name_learns_what_came_of_it() {
        let (asking, forwarder, upstream) = unresolved();
        let local = forwarder.local(&upstream);
        let began = Instant::now();
        let answered = async { drop(asking) };
        let (picked, ()) = tokio::join!(forwarder.pick(&local, &upstream), answered);
        assert_eq!(picked.unwrap_err().cause(), ForwardCause::Resolve);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(Asking::begin(&upstream).is_some(), "the next may ask");
    }
}
