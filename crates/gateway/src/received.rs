//! A request as it came, and what was made of its head before.
//!
//! Over one connection callers mostly send the same head again and again, and a refused one that does not wait sends nothing
//! else. What a head says depends on its bytes alone: of one that comes again nothing need be parsed, matched or digested a second time.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use http::Request;

use crate::request_body::RequestBody;

/// A request as it came. Whoever changes it leaves that to be seen.
#[derive(Debug)]
pub struct Received {
    request: Request<RequestBody>,
    /// What somebody noted of a head; it stays for the room it has.
    note: Option<Box<dyn Any>>,
    /// The note is of this head.
    is_noted: bool,
    /// The connection keeps the head, to see whether the next one is the same.
    may_come_again: bool,
    is_changed: bool,
}

impl Received {
    pub(crate) fn new(request: Request<RequestBody>) -> Received {
        Received { request, note: None, is_noted: false, may_come_again: false, is_changed: false }
    }

    /// What was noted of this head when it came before, over the same connection. It says nothing of anything but the
    /// head's bytes and whom the connection is with.
    pub fn noted<T: Copy + 'static>(&self) -> Option<T> {
        let note = self.note.as_ref().filter(|_| self.is_noted)?;
        note.downcast_ref().copied()
    }

    /// Notes what follows from the head, for the next time that it comes.
    pub fn note<T: Copy + 'static>(&mut self, note: T) {
        if !self.may_come_again {
            return;
        }
        self.is_noted = true;
        match self.note.as_mut().and_then(|kept| kept.downcast_mut()) {
            Some(kept) => *kept = note,
            None => self.note = Some(Box::new(note)),
        }
    }

    /// Its body, which is no part of the head.
    pub(crate) fn body_mut(&mut self) -> &mut RequestBody {
        self.request.body_mut()
    }

    /// Another head takes the place of the last one.
    pub(crate) fn renew(&mut self) -> &mut Request<RequestBody> {
        (self.is_noted, self.may_come_again, self.is_changed) = (false, false, false);
        &mut self.request
    }

    /// The head is kept when the request is over.
    pub(crate) fn keep(&mut self) {
        self.may_come_again = true;
    }

    /// It is the same as the one before, of which so much was noted.
    pub(crate) fn is_again(&mut self, was_noted: bool) {
        self.is_noted = was_noted;
    }

    /// Whether something is noted of this head.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// Nothing is left of what was made of the head but the note.
    pub(crate) fn is_to_be_parsed(&mut self) {
        self.is_changed = true;
    }

    /// Whether nobody had it to change.
    pub(crate) fn is_as_it_came(&self) -> bool {
        !self.is_changed
    }
}

impl Deref for Received {
    type Target = Request<RequestBody>;

    fn deref(&self) -> &Request<RequestBody> {
        &self.request
    }
}

impl DerefMut for Received {
    fn deref_mut(&mut self) -> &mut Request<RequestBody> {
        self.is_changed = true;
        &mut self.request
    }
}
