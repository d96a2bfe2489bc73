//! The layer, and the service it makes.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_engine::{Clock, SystemClock};
use tower_layer::Layer;
use tower_service::Service;

use crate::answer::Answer;
use crate::asked::{Arrived, Decided};
use crate::body::LimitedBody;
use crate::caller::{Identify, UnknownTenant};
use crate::future::LimitedFuture;
use crate::head::Head;
use crate::limits::Limits;

/// Limits the service it is put around. Made by [`Limits::layer`].
#[derive(Debug)]
pub struct LimitLayer<I, C = SystemClock> {
    limits: Limits<C>,
    identify: Arc<I>,
    unknown: UnknownTenant,
}

impl<I, C> LimitLayer<I, C> {
    pub(crate) fn new(limits: Limits<C>, identify: I) -> LimitLayer<I, C> {
        LimitLayer { limits, identify: Arc::new(identify), unknown: UnknownTenant::default() }
    }

    /// What becomes of callers whose tenant the policy does not have.
    #[must_use]
    pub fn unknown_tenant(mut self, unknown: UnknownTenant) -> LimitLayer<I, C> {
        self.unknown = unknown;
        self
    }
}

impl<I, C> Clone for LimitLayer<I, C> {
    fn clone(&self) -> LimitLayer<I, C> {
        let identify = Arc::clone(&self.identify);
        LimitLayer { limits: self.limits.clone(), identify, unknown: self.unknown }
    }
}

impl<S, I, C> Layer<S> for LimitLayer<I, C> {
    type Service = Limited<S, I, C>;

    fn layer(&self, inner: S) -> Limited<S, I, C> {
        Limited { inner, layer: self.clone() }
    }
}

/// A service whose callers are limited.
#[derive(Debug)]
pub struct Limited<S, I, C = SystemClock> {
    inner: S,
    layer: LimitLayer<I, C>,
}

impl<S: Clone, I, C> Clone for Limited<S, I, C> {
    fn clone(&self) -> Limited<S, I, C> {
        Limited { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, I, C, B, A> Service<Request<B>> for Limited<S, I, C>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    I: Identify,
    C: Clock + 'static,
{
    type Response = Response<LimitedBody<A>>;
    type Error = S::Error;
    type Future = LimitedFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> LimitedFuture<S, B> {
        let LimitLayer { limits, identify, unknown } = &self.layer;
        let head = Head::of(&request);
        let present = limits.present();
        let arrived = {
            let caller = identify.identify(head);
            Arrived::at(limits, &present, (head, &caller), *unknown)
        };
        let decided = match arrived {
            Arrived::Decided(decided) => decided,
            Arrived::Asks(asked) if !present.has_queues => asked.decide(limits, &present, head),
            Arrived::Asks(asked) => {
                let present = arc_swap::Guard::into_inner(present);
                let waiting = Box::pin(asked.pass(limits.clone(), present, Answer::to(head)));
                // The clone has not been polled ready; the one that has is the one to call.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                return LimitedFuture::waiting(waiting, ready, request);
            }
        };
        match decided {
            Decided::Passes(passed) => LimitedFuture::serving(&mut self.inner, request, passed),
            Decided::Stays(response) => LimitedFuture::refused(response),
        }
    }
}
