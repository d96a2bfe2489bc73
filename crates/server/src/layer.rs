//! The layer, and the service it makes.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_engine::{Clock, SystemClock};
use tower_layer::Layer;
use tower_service::Service;

use crate::asked::{Arrived, Decided};
use crate::body::{Bodies, EitherBody, SameBody};
use crate::caller::{Identify, UnknownTenant};
use crate::future::{Held, LimitedFuture};
use crate::head::Head;
use crate::limits::Limits;
use crate::passed::Tells;

/// Limits the service it is put around. Made by [`Limits::layer`].
#[derive(Debug)]
pub struct LimitLayer<I, C = SystemClock, K = EitherBody> {
    /// Behind one count: axum clones a layer and its service for each request.
    door: Arc<Door<I, C>>,
    unknown: UnknownTenant,
    tells: Tells,
    bodies: PhantomData<fn() -> K>,
}

/// Who is calling, and by which limits that is decided.
#[derive(Debug)]
struct Door<I, C> {
    limits: Limits<C>,
    identify: I,
}

impl<I, C> LimitLayer<I, C> {
    pub(crate) fn new(limits: Limits<C>, identify: I) -> LimitLayer<I, C> {
        let (door, unknown) = (Arc::new(Door { limits, identify }), UnknownTenant::default());
        LimitLayer { door, unknown, tells: Tells::default(), bodies: PhantomData }
    }

    /// Answers in the service's own type of body, where that can be made of [`Bytes`](bytes::Bytes), as axum's can. It saves axum from
    /// putting every response's body into a box.
    #[must_use]
    pub fn same_body(self) -> LimitLayer<I, C, SameBody> {
        let LimitLayer { door, unknown, tells, .. } = self;
        LimitLayer { door, unknown, tells, bodies: PhantomData }
    }
}

impl<I, C, K> LimitLayer<I, C, K> {
    /// What becomes of callers whose tenant the policy does not have.
    #[must_use]
    pub fn unknown_tenant(mut self, unknown: UnknownTenant) -> LimitLayer<I, C, K> {
        self.unknown = unknown;
        self
    }

    /// Puts the [`Verdict`](crate::Verdict) into the extensions of requests that are passed on, too, for handlers that want to know it.
    #[must_use]
    pub fn telling_service(mut self) -> LimitLayer<I, C, K> {
        self.tells.service = true;
        self
    }

    /// Lets requests keep an `X-RateLimit-Degraded` that they come with. Only for a service that nobody reaches but through a gateway, whose
    /// mark it is: others would mark themselves.
    #[must_use]
    pub fn trusting_marks(mut self) -> LimitLayer<I, C, K> {
        self.tells.trusts_marks = true;
        self
    }

    /// Leaves the [`Verdict`](crate::Verdict) out of the extensions of responses that passed, where no layer further out looks at it: that saves
    /// three allocations a request. Refusals have it all the same.
    #[must_use]
    pub fn without_verdicts(mut self) -> LimitLayer<I, C, K> {
        self.tells.layers = false;
        self
    }
}

impl<I, C, K> Clone for LimitLayer<I, C, K> {
    fn clone(&self) -> LimitLayer<I, C, K> {
        LimitLayer {
            door: Arc::clone(&self.door),
            unknown: self.unknown,
            tells: self.tells,
            bodies: PhantomData,
        }
    }
}

impl<S, I, C, K> Layer<S> for LimitLayer<I, C, K> {
    type Service = Limited<S, I, C, K>;

    fn layer(&self, inner: S) -> Limited<S, I, C, K> {
        Limited { inner, layer: self.clone() }
    }
}

/// A service whose callers are limited.
///
/// It is ready when the service inside is. A request that stands in line for a limit does not keep that one ready: when it
/// is admitted it asks again. So others who need not wait have its slot in, say, a concurrency limit meanwhile.
#[derive(Debug)]
pub struct Limited<S, I, C = SystemClock, K = EitherBody> {
    inner: S,
    layer: LimitLayer<I, C, K>,
}

impl<S: Clone, I, C, K> Clone for Limited<S, I, C, K> {
    fn clone(&self) -> Limited<S, I, C, K> {
        Limited { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, I, C, K, B, A> Service<Request<B>> for Limited<S, I, C, K>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    I: Identify,
    C: Clock + 'static,
    K: Bodies<A>,
{
    type Response = Response<K::Body>;
    type Error = S::Error;
    type Future = LimitedFuture<S, B, K>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> LimitedFuture<S, B, K> {
        let Door { limits, identify } = &*self.layer.door;
        let head = Head::of(&request);
        let present = limits.present();
        let decided = {
            let caller = identify.identify(head);
            let rules = (self.layer.unknown, self.layer.tells);
            match Arrived::at(limits, &present, (head, &caller), rules) {
                Arrived::Decided(decided) => decided,
                Arrived::Asks(ref asked) if !present.may_wait => {
                    asked.decide(limits, &present, head)
                }
                Arrived::Asks(asked) => {
                    let held = asked.hold(head);
                    drop(caller);
                    let has_queues = present.has_queues;
                    let present = arc_swap::Guard::into_inner(present);
                    return self.wait(held.pass(limits.clone(), present), request, has_queues);
                }
            }
        };
        match decided {
            Decided::Passes(passed) => {
                passed.tell_request(&mut request);
                LimitedFuture::serving(self.inner.call(request), passed)
            }
            Decided::Stays(response) => LimitedFuture::refused(response),
        }
    }
}

impl<S: Clone, I, C, K> Limited<S, I, C, K> {
    /// The rare case: what becomes of the request is known later.
    fn wait<B>(
        &mut self,
        waiting: impl Future<Output = Decided> + Send + 'static,
        request: Request<B>,
        may_stand_in_line: bool,
    ) -> LimitedFuture<S, B, K>
    where
        S: Service<Request<B>>,
    {
        // The clone has not been polled ready; the one that has is the one to call.
        let clone = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, clone);
        let held = Held { service, request, may_stand_in_line };
        LimitedFuture::waiting(Box::pin(waiting), held)
    }
}
