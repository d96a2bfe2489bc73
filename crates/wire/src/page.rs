//! One buffer for all the values of a response: each header's value is a slice of it.
//!
//! A value of its own would be an allocation each, and a limited response has a dozen. Figures that occur in
//! several headers are written once and sliced several times.

use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, IntoHeaderName};
use tollgate_core::PolicyName;

/// Where in the page a value stands.
pub(crate) type Place = Range<usize>;

/// The text of one response, as it is written.
#[derive(Debug)]
pub(crate) struct Page(Vec<u8>);

impl Page {
    pub(crate) fn with_capacity(bytes: usize) -> Page {
        Page(Vec::with_capacity(bytes))
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: u64) -> Place {
        let start = self.0.len();
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        start..self.0.len()
    }

    pub(crate) fn name(&mut self, name: PolicyName) {
        self.text(name.scope().name());
        self.text("-");
        self.text(name.span().name());
        if name.ordinal() > 1 {
            self.text("-");
            self.number(u64::from(name.ordinal()));
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The end so far: where the next text begins.
    pub(crate) fn end(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Printed {
        Printed(Bytes::from(self.0))
    }
}

/// A page that is only read from now on.
#[derive(Debug)]
pub(crate) struct Printed(Bytes);

impl Printed {
    pub(crate) fn slice(&self, place: Place) -> Bytes {
        self.0.slice(place)
    }

    /// The value at a place; what no header may hold (nothing we write) is left out.
    pub(crate) fn value(&self, place: Place) -> Option<HeaderValue> {
        HeaderValue::from_maybe_shared(self.slice(place)).ok()
    }

    /// Sets a header, in place of what was there.
    pub(crate) fn set(&self, headers: &mut HeaderMap, name: impl IntoHeaderName, place: Place) {
        if let Some(value) = self.value(place) {
            set(headers, name, value);
        }
    }
}

/// Sets a header unless the map is as full as one can be.
pub(crate) fn set(headers: &mut HeaderMap, name: impl IntoHeaderName, value: HeaderValue) {
    let _ = headers.try_insert(name, value);
}
