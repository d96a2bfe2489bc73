//! Requests that ask to switch protocols: WebSocket and others.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::sync::oneshot;

use super::answered::Answered;
use super::error::{ForwardCause, ForwardError};
use super::link::Picked;
use super::outbound::Outbound;
use super::pool::{Local, Pool};
use super::{Forwarder, head};
use crate::body::Body;
use crate::presence::Presence;
use crate::request_body::RequestBody;
use crate::stream::Stream;
use crate::upgrade::Switch;
use crate::upstream::Upstream;

impl Forwarder {
    /// Sends a request that asks to switch over a connection of its own, to the next address if there is none to the
    /// first: not a byte was written then.
    pub(crate) async fn upgrade(
        &self,
        (local, upstream): (&Rc<Local>, &Arc<Upstream>),
        mut picked: Picked,
        (outbound, protocol): (&mut Outbound<'_>, HeaderValue),
    ) -> Result<Response<Body>, ForwardError> {
        let first = self.dial((upstream, &picked.pool), picked.until(upstream), true).await;
        let stream = match first {
            Ok(stream) => stream,
            Err(error) => {
                let next = self.pick(local, upstream).await?;
                if !next.may_follow(&picked, &error) {
                    return Err(error);
                }
                picked = next;
                self.dial((upstream, &picked.pool), picked.until(upstream), true).await?
            }
        };
        outbound.unseen.set(false);
        let wanted = (outbound.take(), protocol);
        exchange((upstream, &picked.pool, stream), wanted, &self.presence).await
    }
}

/// If the upstream answers 101, and only then, both connections are joined and belong to a task from then on.
async fn exchange(
    (upstream, pool, stream): (&Upstream, &Pool, Stream),
    (mut request, protocol): (Request<RequestBody>, HeaderValue),
    presence: &Presence,
) -> Result<Response<Body>, ForwardError> {
    let caller = Switch::accept(&mut request);
    if let Err(error) = stream.keep_alive() {
        tracing::debug!(%error, "an upstream that vanishes may not be noticed");
    }
    let (mut sender, driver) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| ForwardError::unsent(ForwardCause::Connect).with(error))?;
    let driver = driver.with_upgrades();
    tokio::task::spawn_local(async move {
        if let Err(error) = driver.await {
            tracing::debug!(%error, "a connection to an upstream ended early");
        }
    });
    head::for_http1(&mut request, &pool.target.origin);
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(UPGRADE, protocol);
    let sent = sender.send_request(request);
    let answered = match tokio::time::timeout(upstream.response_timeout, sent).await {
        Ok(answered) => answered.map_err(|error| ForwardError::of_exchange(error, false)),
        Err(_) => Err(ForwardError::sent(ForwardCause::ResponseTimeout)),
    };
    let mut response = answered.inspect_err(|error| {
        // Of a connection that is new, that it was closed says something too.
        if matches!(error.cause(), ForwardCause::ResponseTimeout | ForwardCause::Closed) {
            pool.target.failed(tokio::time::Instant::now());
        }
    })?;
    pool.target.succeeded();

    let protocol = response.headers().get(UPGRADE).cloned();
    let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let server = is_switched.then(|| hyper::upgrade::on(&mut response));
    let (mut parts, incoming) = response.into_parts();
    head::strip_hop_by_hop(&mut parts.headers);
    let Some(server) = server else {
        let answered = Answered::shared(incoming, None);
        return Ok(Response::from_parts(parts, Body::upstream(answered)));
    };
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    if let Some(caller) = caller {
        join(caller, server, presence);
    }
    Ok(Response::from_parts(parts, Body::empty()))
}

/// Copies between caller and upstream until one of them ends.
fn join(caller: oneshot::Receiver<Stream>, server: OnUpgrade, presence: &Presence) {
    let (present, _) = presence.enter();
    tokio::task::spawn_local(async move {
        let joined = async {
            let Ok(mut caller) = caller.await else { return Ok(Ok((0, 0))) };
            if let Err(error) = caller.keep_alive() {
                tracing::debug!(%error, "a caller that vanishes may not be noticed");
            }
            let mut server = TokioIo::new(server.await?);
            let copied = copy_bidirectional(&mut caller, &mut server).await;
            Ok::<_, hyper::Error>(copied)
        };
        match joined.await {
            Ok(Ok(_)) => (),
            Ok(Err(error)) => tracing::debug!(%error, "an upgraded connection ended early"),
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
        drop(present);
    });
}
