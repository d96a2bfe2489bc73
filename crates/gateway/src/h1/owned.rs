//! A connection's own hold of its socket, which nobody else's outlives.

use std::future::poll_fn;
use std::ops::Deref;
use std::rc::Rc;
use std::task::Poll;

use super::head::Head;
use super::wire::{LINGER, Wire};
use crate::stream::Stream;
use crate::ticker::Watch;
use crate::worker::Worker;

/// The connection's own hold of its wire. With it the socket goes, whoever else has a hold: the body of a request to an HTTP/2
/// upstream is with a task that may never ask for it again.
#[derive(Debug)]
pub(super) struct Owned(Rc<Wire>);

impl Owned {
    pub(super) fn new(stream: Stream) -> Owned {
        Owned(Rc::new(Wire::new(stream)))
    }

    /// Whether somebody has a hold of the request's body.
    pub(super) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// A request begins: its body is read through the connection.
    pub(super) fn begin(&self, head: &mut Head, worker: &Rc<Worker>) {
        self.0.begin(head, worker);
    }

    /// Waits for whoever reads the request's body to come to its end or leave it, but not for long. `false` if that one is not done:
    /// what we read would be missing from the middle of a body that looks whole.
    pub(super) async fn is_left_alone(&self, watch: &Watch) -> bool {
        let is_alone = || !self.is_shared() || self.is_finished();
        if is_alone() {
            return true;
        }
        watch.arm(LINGER);
        poll_fn(|cx| {
            if is_alone() {
                return Poll::Ready(true);
            }
            self.set_owner(cx);
            watch.poll(cx).map(|()| false)
        })
        .await
    }

    /// The same connection under another name, because somebody holds on to this one.
    pub(super) fn take_over(&self) -> Option<Owned> {
        let mut io = self.io();
        let (stream, input) = (io.stream.take()?, std::mem::take(&mut io.input));
        let owned = Owned::new(stream);
        (owned.io().input, owned.io().held) = (input, io.held);
        Some(owned)
    }
}

impl Deref for Owned {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.is_shared() {
            drop(self.take_stream());
            // It finds no socket, and so breaks off what it is sending.
            self.wake_reader();
        }
    }
}
