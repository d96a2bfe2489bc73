//! The body of a paced service's response: it listens for what a gRPC call says at its end.
//!
//! A gRPC server that has sent its head already says in the trailers that a limit refused the call, and when to come back. So
//! of a call whose head has no status the answer is what comes first: data, and then it passed, or trailers. A stream may be
//! refused later; then it only counts as a refusal, for it has been answered long ago.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tollgate_wire::is_grpc;
use tollgate_wire::names::GRPC_STATUS;

use crate::{Heard, Pacer, Permit};

pin_project! {
    /// The body of a paced service's response. A gRPC call's pacer hears of its trailers by it.
    #[derive(Debug)]
    pub struct PacedBody<B> {
        #[pin]
        body: B,
        call: Call,
    }
}

/// How far a gRPC call is.
#[derive(Debug)]
enum Call {
    /// Its head is here, which does not say how it ends.
    Begun(Begun),
    /// Something of its answer is here.
    Going(Pacer),
    /// There is nothing more to hear, or it is none.
    Over,
}

/// A call that nothing but the head has come of. If nothing comes any more, that is what was heard of it.
#[derive(Debug)]
struct Begun {
    permit: Option<Permit>,
    status: StatusCode,
    head: HeaderMap,
}

impl Begun {
    fn end(&mut self, trailers: Option<&HeaderMap>) {
        if let Some(trailers) = trailers {
            for (name, value) in trailers {
                let _ = self.head.try_insert(name, value.clone());
            }
        }
        if let Some(permit) = self.permit.take() {
            permit.heard(self.status, &self.head);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<B> PacedBody<B> {
    /// Tells a response's permit of it, now or when it is known how it ends: then nothing is heard yet.
    pub(crate) fn listen(
        response: Response<B>,
        permit: Permit,
    ) -> (Response<PacedBody<B>>, Option<Heard>) {
        let (status, head) = (response.status(), response.headers());
        if is_grpc(head) && !head.contains_key(&GRPC_STATUS) {
            let begun = Begun { permit: Some(permit), status, head: head.clone() };
            let call = Call::Begun(begun);
            return (response.map(|body| PacedBody { body, call }), None);
        }
        let heard = permit.heard(status, head);
        (response.map(|body| PacedBody { body, call: Call::Over }), Some(heard))
    }
}

impl Call {
    fn saw<D>(&mut self, frame: &Frame<D>) {
        let trailers = frame.trailers_ref();
        match self {
            Call::Begun(begun) => {
                let permit = begun.permit.as_ref().filter(|_| trailers.is_none());
                let pacer = permit.map(|permit| permit.pacer().clone());
                begun.end(trailers);
                *self = pacer.map_or(Call::Over, Call::Going);
            }
            Call::Going(pacer) => {
                if let Some(trailers) = trailers {
                    pacer.heard_late(trailers);
                    *self = Call::Over;
                }
            }
            Call::Over => {}
        }
    }
}

impl<B: Body> Body for PacedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => this.call.saw(frame),
            // What was begun is told by being dropped.
            Some(Err(_)) | None => *this.call = Call::Over,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
