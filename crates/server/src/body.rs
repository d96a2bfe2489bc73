//! The body of a limited service's response: the service's own, or a refusal's.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

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

impl<B> LimitedBody<B> {
    pub(crate) fn of_service(body: B) -> LimitedBody<B> {
        LimitedBody { from: From::Service { body } }
    }

    pub(crate) fn of_layer(text: Bytes) -> LimitedBody<B> {
        LimitedBody { from: From::Layer { text } }
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
