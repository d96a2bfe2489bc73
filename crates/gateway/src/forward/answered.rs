//! The body of an upstream's response, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::{ForwardCause, ForwardError};
use super::h1::Busy;
use super::h2::UnderWay;

/// The body of an upstream's response, and the connection it comes over as long as that is needed. Dropped before its
/// end, it takes the connection with it.
pub(crate) struct Answered {
    incoming: Incoming,
    first: Option<Result<Frame<Bytes>, ForwardError>>,
    over: Over,
}

enum Over {
    /// HTTP/1.1: polling the body polls the connection.
    Own(Busy),
    /// The connection has a task; over HTTP/2, other requests too.
    Shared(#[expect(dead_code, reason = "kept as long as the body is")] Option<UnderWay>),
    /// Nothing more comes over it.
    Done,
}

impl Answered {
    pub(crate) fn h1(incoming: Incoming, busy: Busy) -> Answered {
        Answered { incoming, first: None, over: Over::Own(busy) }
    }

    pub(crate) fn shared(incoming: Incoming, under_way: Option<UnderWay>) -> Answered {
        Answered { incoming, first: None, over: Over::Shared(under_way) }
    }

    /// What was there with the head.
    pub(crate) fn after(mut self, first: Result<Frame<Bytes>, ForwardError>) -> Answered {
        self.first = Some(first);
        self
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let rest = self.incoming.size_hint();
        let first = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref());
        match (first, rest.exact()) {
            (Some(first), Some(rest)) => SizeHint::with_exact(rest + first.len() as u64),
            _ => rest,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ForwardError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let frame = match &mut self.over {
            Over::Own(busy) => {
                let mut silent = Context::from_waker(Waker::noop());
                match Pin::new(&mut self.incoming).poll_frame(&mut silent) {
                    Poll::Ready(frame) => frame,
                    Poll::Pending => {
                        let ended = busy.drive(cx).is_ready();
                        match Pin::new(&mut self.incoming).poll_frame(&mut silent) {
                            Poll::Ready(frame) => frame,
                            Poll::Pending if ended => {
                                self.over = Over::Done;
                                let closed = ForwardError::sent(ForwardCause::Closed);
                                return Poll::Ready(Some(Err(closed)));
                            }
                            Poll::Pending => return Poll::Pending,
                        }
                    }
                }
            }
            Over::Shared(_) | Over::Done => {
                std::task::ready!(Pin::new(&mut self.incoming).poll_frame(cx))
            }
        };
        if frame.is_none() || self.incoming.is_end_stream() {
            self.release();
        }
        let wrong = |error| ForwardError::of_exchange(error, false);
        Poll::Ready(frame.map(|frame| frame.map_err(wrong)))
    }

    fn release(&mut self) {
        if let Over::Own(busy) = std::mem::replace(&mut self.over, Over::Done) {
            busy.release();
        }
    }
}
