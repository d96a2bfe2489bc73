//! The body of a limited service's response: the service's own, or a refusal's.
//!
//! A layer cannot make any service's body out of a refusal's text, so what it returns is one or the other. Where it can, as with axum's, the
//! service's own type does for both, and frameworks that box every other body need not box it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// How a layer's responses have their bodies.
pub trait Bodies<B> {
    /// The body of every response.
    type Body;

    /// What the service answered.
    fn of_service(body: B) -> Self::Body;

    /// What the layer answers itself: a short text, or nothing.
    fn of_layer(text: Bytes) -> Self::Body;
}

/// In a body that is either's: for any service.
#[derive(Clone, Copy, Debug, Default)]
pub struct EitherBody;

/// In the service's own type of body: for those that can be made of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SameBody;

impl<B> Bodies<B> for EitherBody {
    type Body = LimitedBody<B>;

    fn of_service(body: B) -> LimitedBody<B> {
        LimitedBody { from: From::Service { body } }
    }

    fn of_layer(text: Bytes) -> LimitedBody<B> {
        LimitedBody { from: From::Layer { text } }
    }
}

impl<B: std::convert::From<Bytes>> Bodies<B> for SameBody {
    type Body = B;

    fn of_service(body: B) -> B {
        body
    }

    fn of_layer(text: Bytes) -> B {
        text.into()
    }
}

pin_project! {
    /// The body of a limited service's response: the service's own, or what the layer answers itself.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        from: From<B>,
    }
}

pin_project! {
    #[project = FromPinned]
    #[derive(Debug)]
    enum From<B> {
        Service { #[pin] body: B },
        // Nothing once it was read, or where a gRPC status needs none.
        Layer { text: Bytes },
    }
}

impl<B> Body for LimitedBody<B>
where
    B: Body,
    B::Data: std::convert::From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().from.project() {
            FromPinned::Service { body } => body.poll_frame(cx),
            FromPinned::Layer { text } if text.is_empty() => Poll::Ready(None),
            FromPinned::Layer { text } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(text).into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Service { body } => body.is_end_stream(),
            From::Layer { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Service { body } => body.size_hint(),
            From::Layer { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}
