//! The bodies of responses over HTTP/2, which their connection gives up when their caller does not take them.
//!
//! Hyper asks for the next piece of a body once the caller's window had room for a part of the one before. A caller that never opens
//! it, and answers pings, would keep the response and the connection to the upstream for ever. Other streams of its
//! connection are none the worse for it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::Body;
use crate::forward::{ForwardCause, ForwardError};

/// A body that can be given up.
pub(crate) struct Watched {
    /// Nothing once it was given up.
    body: RefCell<Option<Body>>,
    /// The next piece was asked for, and is not there yet.
    is_awaited: Cell<bool>,
    /// Something was asked for since the last look.
    was_asked: Cell<bool>,
}

impl Watched {
    pub(crate) fn new(body: Body) -> Rc<Watched> {
        let (is_awaited, was_asked) = (Cell::new(false), Cell::new(true));
        Rc::new(Watched { body: RefCell::new(Some(body)), is_awaited, was_asked })
    }

    pub(crate) fn poll_frame(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ForwardError>>> {
        let mut body = self.body.borrow_mut();
        let Some(body) = &mut *body else {
            let given_up = ForwardError::sent(ForwardCause::Closed);
            return Poll::Ready(Some(Err(given_up.with("nothing of it was taken for too long"))));
        };
        let polled = std::pin::Pin::new(body).poll_frame(cx);
        self.is_awaited.set(polled.is_pending());
        self.was_asked.set(true);
        polled
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.borrow().as_ref().is_some_and(HttpBody::is_end_stream)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.borrow().as_ref().map_or_else(SizeHint::new, HttpBody::size_hint)
    }

    /// Gives it up if nothing was asked for since the last look, though there may be something.
    fn look(&self) -> bool {
        let is_taken = self.is_awaited.get() || self.was_asked.take();
        !is_taken && self.body.take().is_some()
    }
}

/// The bodies of one connection.
#[derive(Default)]
pub(crate) struct WatchedBodies(RefCell<Vec<Weak<Watched>>>);

/// Those that are gone are forgotten when there are so many: twice as many as can be there.
const MANY: usize = 256;

impl WatchedBodies {
    pub(crate) fn add(&self, body: &Rc<Watched>) {
        let mut bodies = self.0.borrow_mut();
        if bodies.len() >= MANY {
            bodies.retain(|body| body.strong_count() > 0);
        }
        bodies.push(Rc::downgrade(body));
    }

    /// Gives up those of which nothing was taken since the last look, and tells how many.
    pub(crate) fn look(&self) -> usize {
        let mut bodies = self.0.borrow_mut();
        bodies.retain(|body| body.strong_count() > 0);
        bodies.iter().filter_map(Weak::upgrade).filter(|body| body.look()).count()
    }
}

impl std::fmt::Debug for WatchedBodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WatchedBodies({})", self.0.borrow().len())
    }
}
