//! The body of a request to an HTTP/2 upstream, and the time that the upstream has.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::error::ForwardCause;
use super::h2::UnderWay;
use crate::request_body::{RequestBody, RequestBodyError};
use crate::ticker::{Ticker, Watch};

/// How long an upstream may take to answer. Its time runs from the last piece of the body that it took, and not while
/// the caller has to send the next: an upload may take as long as it likes.
#[derive(Debug)]
pub(crate) enum Patience {
    /// There is no body: all has been sent.
    Plain(Watch),
    /// The body is with its connection's task, which tells how it fares.
    Shared(Rc<Shared>),
}

#[derive(Debug)]
pub(crate) struct Shared {
    watch: Watch,
    /// Zero, which is none, once the upstream has answered.
    timeout: Cell<Duration>,
    /// What was wrong with the body.
    fault: Cell<Option<ForwardCause>>,
}

impl Patience {
    /// It begins now.
    pub(crate) fn new(ticker: &Rc<Ticker>, timeout: Duration, body: &RequestBody) -> Patience {
        let watch = ticker.watch();
        watch.arm(timeout);
        if body.is_end_stream() {
            return Patience::Plain(watch);
        }
        let fault = Cell::new(None);
        Patience::Shared(Rc::new(Shared { watch, timeout: Cell::new(timeout), fault }))
    }

    /// Ready once it is over.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Patience::Plain(watch) => watch.poll(cx),
            Patience::Shared(shared) => shared.watch.poll(cx),
        }
    }

    /// What was wrong with the body, if that is why there is no answer: of hyper one hears only that the request was broken off.
    pub(crate) fn fault(&self) -> Option<ForwardCause> {
        match self {
            Patience::Plain(_) => None,
            Patience::Shared(shared) => shared.fault.get(),
        }
    }

    /// The upstream need not hurry any more, although the body may still be on its way.
    pub(crate) fn end(&self) {
        if let Patience::Shared(shared) = self {
            shared.timeout.set(Duration::ZERO);
            shared.watch.disarm();
        }
    }
}

/// A request's body on its way.
#[derive(Debug)]
pub(crate) struct Upload {
    body: RequestBody,
    patience: Option<Rc<Shared>>,
    /// It may take longer than the response, and its stream with it.
    _under_way: Rc<UnderWay>,
}

impl Upload {
    pub(crate) fn new(body: RequestBody, patience: &Patience, under_way: &Rc<UnderWay>) -> Upload {
        let patience = match patience {
            Patience::Plain(_) => None,
            Patience::Shared(shared) => Some(Rc::clone(shared)),
        };
        Upload { body, patience, _under_way: Rc::clone(under_way) }
    }

    pub(crate) fn into_body(self) -> RequestBody {
        self.body
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        // Hyper keeps one piece in hand until there is room for a part of it, and then asks for the next: the upstream took what came
        // before the last one.
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(Shared { watch, timeout, fault }) = self.patience.as_deref() {
            if let Poll::Ready(Some(Err(error))) = &polled {
                fault.set(Some(ForwardCause::of_body(error)));
            }
            match polled {
                Poll::Ready(_) => watch.arm(timeout.get()),
                Poll::Pending => watch.disarm(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
