//! The body of a paced service's response: it listens for what a gRPC call says at its end.
//!
//! A gRPC server that has sent its head already says in the trailers that a limit refused the call, and when to come back. The
//! head is heard as it comes, with what it says of limits: of a stream there may be nothing more for hours. That it passed is
//! known by its first message; until then, and after, the trailers may say that it was refused.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tollgate_wire::is_grpc;
use tollgate_wire::names::GRPC_STATUS;

use crate::pace::Ticket;
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
    Begun(Pacer, Ticket),
    /// Something of its answer is here.
    Going(Pacer, Ticket),
    /// There is nothing more to hear, or it is none.
    Over,
}

impl<B> PacedBody<B> {
    /// Tells a response's permit of it. Of a call that has only begun nothing is heard yet: how it ends its body hears.
    pub(crate) fn listen(
        response: Response<B>,
        permit: Permit,
    ) -> (Response<PacedBody<B>>, Option<Heard>) {
        let (status, head) = (response.status(), response.headers());
        if status == StatusCode::OK && is_grpc(head) && !head.contains_key(&GRPC_STATUS) {
            let begun = permit.begun(head);
            let call = begun.map_or(Call::Over, |(pacer, ticket)| Call::Begun(pacer, ticket));
            return (response.map(|body| PacedBody { body, call }), None);
        }
        let heard = permit.heard(status, head);
        (response.map(|body| PacedBody { body, call: Call::Over }), Some(heard))
    }
}

impl Call {
    fn saw<D>(&mut self, frame: &Frame<D>) {
        *self = match (std::mem::replace(self, Call::Over), frame.trailers_ref()) {
            (Call::Begun(pacer, ticket) | Call::Going(pacer, ticket), Some(trailers)) => {
                pacer.heard_late(ticket, trailers);
                Call::Over
            }
            (Call::Begun(pacer, ticket), None) => {
                pacer.learn(|pace| pace.passed(ticket));
                Call::Going(pacer, ticket)
            }
            (call, _) => call,
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
