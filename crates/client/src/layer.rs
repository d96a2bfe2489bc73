//! The pacer around any tower service that speaks HTTP.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::PacedBody;
use crate::retry::{Call, Retry};
use crate::{Ask, Error, Pacer, Pacers, Permit};

/// Makes a copy of a request's body to send it again.
pub trait Replay<B>: Clone {
    /// The copy; `None` if there can be none, and then there is no retry.
    fn replay(&self, body: &B) -> Option<B>;
}

/// Sends every request once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Once;

/// Sends again what may be sent again. For bodies that can be cloned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cloned;

impl<B> Replay<B> for Once {
    fn replay(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> Replay<B> for Cloned {
    fn replay(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

/// Wraps a service in a [`Paced`].
///
/// A request's [`Ask`] is taken from its extensions. In front of it there should be no unbounded buffer: who waits, waits here.
#[derive(Clone, Debug)]
pub struct PaceLayer<R = Once> {
    pacers: Pacers,
    replay: R,
}

impl PaceLayer {
    /// Paces, and sends every request once.
    pub fn new(pacers: Pacers) -> PaceLayer {
        PaceLayer { pacers, replay: Once }
    }

    /// Also retries what is safe to retry, within the budget of the [`Settings`](crate::Settings).
    pub fn retrying(self) -> PaceLayer<Cloned> {
        PaceLayer { pacers: self.pacers, replay: Cloned }
    }
}

impl<S, R: Clone> Layer<S> for PaceLayer<R> {
    type Service = Paced<S, R>;

    fn layer(&self, inner: S) -> Paced<S, R> {
        Paced { inner, pacers: self.pacers.clone(), replay: self.replay.clone() }
    }
}

/// A service that slows down before it is refused.
#[derive(Clone, Debug)]
pub struct Paced<S, R = Once> {
    inner: S,
    pacers: Pacers,
    replay: R,
}

impl<S, R, B, A> Service<Request<B>> for Paced<S, R>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Replay<B> + Send + 'static,
    B: Send + 'static,
    A: Send + 'static,
{
    type Response = Response<PacedBody<A>>;
    type Error = Error<S::Error>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<PacedBody<A>>, Error<S::Error>>> + Send>>;

    /// Always. A service that is ready keeps a place for the request, so it is made ready only when the request may be sent:
    /// one that waits for its limit takes no place from requests to other servers.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let ask = request.extensions().get::<Ask>().copied().unwrap_or_default();
        let pacer = self.pacers.pacer_for(request.uri(), request.headers(), ask);
        let replay = self.replay.clone();
        Box::pin(async move { send(inner, request, (pacer, ask), replay).await })
    }
}

async fn send<S, R, B, A>(
    mut inner: S,
    mut request: Request<B>,
    (pacer, ask): (Pacer, Ask),
    replay: R,
) -> Result<Response<PacedBody<A>>, Error<S::Error>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    R: Replay<B>,
{
    let (mut call, mut permit) = Call::begin(pacer, ask).await.map_err(Error::Limited)?;
    let mut retry: Option<Retry> = None;
    loop {
        let again = if call.is_last() { None } else { copy(&request, &replay) };
        let method = request.method().clone();
        permit = make_ready(&mut inner, &mut call, permit).await?;
        retry.take().into_iter().for_each(Retry::made);
        let response = inner.call(request).await.map_err(Error::Service)?;
        let (response, heard) = PacedBody::listen(response, permit);
        // A gRPC call that has begun is not sent again.
        let (Some(copy), Some(heard)) = (again, heard) else { return Ok(response) };
        // An answer is better than none: whoever may not wait so long gets the one that is there.
        let next = call.again(&method, response.status(), &heard).await;
        let Some((next, allowed)) = next else { return Ok(response) };
        // It may keep the place that the next one needs.
        drop(response);
        (request, permit, retry) = (copy, next, Some(allowed));
    }
}

/// Waits until the service has a place for a request that has leave to be sent. That may take long: if its server asks to be left
/// alone meanwhile, the place is for others.
async fn make_ready<S, Q>(
    inner: &mut S,
    call: &mut Call,
    mut permit: Permit,
) -> Result<Permit, Error<S::Error>>
where
    S: Service<Q> + Clone,
{
    loop {
        let ready = poll_fn(|cx| inner.poll_ready(cx));
        permit = permit.keep_back_until(ready).await.map_err(Error::Service)?;
        if !permit.is_called_off() {
            return Ok(permit);
        }
        // The clone has no place.
        *inner = inner.clone();
        permit.never_sent();
        permit = call.begin_anew().await.map_err(Error::Limited)?;
    }
}

fn copy<B, R: Replay<B>>(request: &Request<B>, replay: &R) -> Option<Request<B>> {
    let mut copy = Request::new(replay.replay(request.body())?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
