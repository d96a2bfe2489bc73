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

/// A request that waits, and the service it is for.
pub(crate) struct Held<S, B> {
    /// Ready for it, until it is known to have to wait.
    pub(crate) service: S,
    pub(crate) request: Request<B>,
    /// Whether it may have to stand in line: then it must not keep what makes the service ready, say one of few
    /// slots, from requests that need not.
    pub(crate) may_stand_in_line: bool,
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
        Admitted { held: Option<Box<Held<S, B>>>, passed: Option<Passed> },
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

    pub(crate) fn waiting(waiting: Waiting, held: Held<S, B>) -> LimitedFuture<S, B, K> {
        LimitedFuture::at(Step::Waiting { waiting, held: Some(Box::new(held)) })
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
    S: Service<Request<B>, Response = Response<A>> + Clone,
    K: Bodies<A>,
{
    type Output = Result<Response<K::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            let next = match step.as_mut().project() {
                StepPinned::Waiting { waiting, held } => {
                    let Poll::Ready(decided) = waiting.as_mut().poll(cx) else {
                        if let Some(held) = held {
                            held.let_others_go_ahead();
                        }
                        return Poll::Pending;
                    };
                    match decided {
                        Decided::Passes(passed) => {
                            Step::Admitted { held: held.take(), passed: Some(passed) }
                        }
                        Decided::Stays(response) => Step::Refused { response: Some(response) },
                    }
                }
                StepPinned::Admitted { held, passed } => {
                    if let Some(held) = held {
                        ready!(held.service.poll_ready(cx))?;
                    }
                    let mut held = *held.take().expect("admitted once");
                    let passed = passed.take().expect("admitted once");
                    passed.tell_request(&mut held.request);
                    let answer = held.service.call(held.request);
                    Step::Serving { answer, passed: Some(passed) }
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

impl<S: Clone, B> Held<S, B> {
    /// Gives up what it has of the service. A clone is not ready; what was is dropped.
    fn let_others_go_ahead(&mut self) {
        if std::mem::take(&mut self.may_stand_in_line) {
            self.service = self.service.clone();
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
            Step::Admitted { .. } => "admitted",
            Step::Serving { .. } => "serving",
            Step::Refused { .. } => "refused",
        };
        f.debug_struct("LimitedFuture").field("step", &step).finish_non_exhaustive()
    }
}
