//! The body of an upstream's response, as it comes.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use super::error::ForwardError;
use super::h1;
use super::h2::UnderWay;

/// The body of an upstream's response, and the connection it comes over as long as that is needed. Dropped before its
/// end, it takes the connection with it.
#[expect(clippy::large_enum_variant, reason = "a response's body keeps it in a box")]
pub(crate) enum Answered {
    /// HTTP/1.1: polling the body polls the connection.
    Own(h1::Incoming),
    /// The connection has a task; over HTTP/2, other requests too.
    Shared(
        hyper::body::Incoming,
        #[expect(dead_code, reason = "kept as long as the body is")] Option<Rc<UnderWay>>,
    ),
}

impl Answered {
    pub(crate) fn own(incoming: h1::Incoming) -> Answered {
        Answered::Own(incoming)
    }

    pub(crate) fn shared(
        incoming: hyper::body::Incoming,
        under_way: Option<Rc<UnderWay>>,
    ) -> Answered {
        Answered::Shared(incoming, under_way)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Answered::Own(incoming) => incoming.is_end_stream(),
            Answered::Shared(incoming, _) => incoming.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Answered::Own(incoming) => incoming.size_hint(),
            Answered::Shared(incoming, _) => incoming.size_hint(),
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ForwardError>>> {
        match self {
            Answered::Own(incoming) => incoming.poll_frame(cx),
            Answered::Shared(incoming, _) => {
                let frame = std::task::ready!(Pin::new(incoming).poll_frame(cx));
                let wrong = |error| ForwardError::of_exchange(error, false);
                Poll::Ready(frame.map(|frame| frame.map_err(wrong)))
            }
        }
    }
}
