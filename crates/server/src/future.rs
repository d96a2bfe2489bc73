//! The future of a limited service's response.
//!
//! Most requests are decided where the service is called. Only under a policy that lets requests wait in line is there a
//! boxed future, of the decision alone.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::asked::Decided;
use crate::body::Bodies;
use crate::passed::Passed;

type Waiting = Pin<Box<dyn Future<Output = Decided> + Send>>;

/// A request that waits, and the service that is ready for it.
struct Held<S, B> {
    ready: S,
    request: Request<B>,
    wants_verdict: bool,
}

pin_project! {
    /// The future of a limited service's response.
    pub struct LimitedFuture<S, B, K>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        step: Step<S, B>,
        bodies: PhantomData<fn() -> K>,
    }
}

pin_project! {
    #[project = StepPinned]
    enum Step<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { waiting: Waiting, held: Option<Box<Held<S, B>>> },
        Serving { #[pin] answer: S::Future, passed: Option<Passed> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, K> LimitedFuture<S, B, K>
where
    S: Service<Request<B>>,
{
    #[inline]
    fn at(step: Step<S, B>) -> LimitedFuture<S, B, K> {
        LimitedFuture { step, bodies: PhantomData }
    }

    pub(crate) fn waiting(
        waiting: Waiting,
        (ready, request): (S, Request<B>),
        wants_verdict: bool,
    ) -> LimitedFuture<S, B, K> {
        let held = Some(Box::new(Held { ready, request, wants_verdict }));
        LimitedFuture::at(Step::Waiting { waiting, held })
    }

    /// Of a request that is with the service.
    #[inline]
    pub(crate) fn serving(answer: S::Future, passed: Passed) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::Serving { answer, passed: Some(passed) })
    }

    pub(crate) fn refused(response: Response<Bytes>) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::Refused { response: Some(response) })
    }
}

impl<S, B, A, K> Future for LimitedFuture<S, B, K>
where
    S: Service<Request<B>, Response = Response<A>>,
    K: Bodies<A>,
{
    type Output = Result<Response<K::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            let next = match step.as_mut().project() {
                StepPinned::Waiting { waiting, held } => {
                    let decided = ready!(waiting.as_mut().poll(cx));
                    let mut held = *held.take().expect("decided once");
                    match decided {
                        Decided::Passes(passed) => {
                            passed.tell_request(&mut held.request, held.wants_verdict);
                            let answer = held.ready.call(held.request);
                            Step::Serving { answer, passed: Some(passed) }
                        }
                        Decided::Stays(response) => Step::Refused { response: Some(response) },
                    }
                }
                StepPinned::Serving { answer, passed } => {
                    let mut response = ready!(answer.poll(cx))?;
                    let passed = passed.take().expect("a future is not polled after its end");
                    passed.tell_response(&mut response);
                    return Poll::Ready(Ok(response.map(K::of_service)));
                }
                StepPinned::Refused { response } => {
                    let response = response.take().expect("a future is not polled after its end");
                    return Poll::Ready(Ok(response.map(K::of_layer)));
                }
            };
            step.set(next);
        }
    }
}

impl<S, B, K> fmt::Debug for LimitedFuture<S, B, K>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match &self.step {
            Step::Waiting { .. } => "waiting",
            Step::Serving { .. } => "serving",
            Step::Refused { .. } => "refused",
        };
        f.debug_struct("LimitedFuture").field("step", &step).finish_non_exhaustive()
    }
}
