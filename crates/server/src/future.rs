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
        Waiting { waiting: Waiting, held: Option<Box<(S, Request<B>)>> },
        Serving { #[pin] answer: S::Future, passed: Option<Passed> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, K> LimitedFuture<S, B, K>
where
    S: Service<Request<B>>,
{
    fn at(step: Step<S, B>) -> LimitedFuture<S, B, K> {
        LimitedFuture { step, bodies: PhantomData }
    }

    pub(crate) fn waiting(
        waiting: Waiting,
        ready: S,
        request: Request<B>,
    ) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::Waiting { waiting, held: Some(Box::new((ready, request))) })
    }

    pub(crate) fn serving(
        ready: &mut S,
        request: Request<B>,
        passed: Passed,
    ) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::serving(ready, request, passed))
    }

    pub(crate) fn refused(response: Response<Bytes>) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::Refused { response: Some(response) })
    }
}

impl<S, B> Step<S, B>
where
    S: Service<Request<B>>,
{
    fn serving(ready: &mut S, mut request: Request<B>, passed: Passed) -> Step<S, B> {
        passed.tell_request(&mut request);
        Step::Serving { answer: ready.call(request), passed: Some(passed) }
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
                    let (mut ready, request) = *held.take().expect("decided once");
                    match decided {
                        Decided::Passes(passed) => Step::serving(&mut ready, request, passed),
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
