//! Headers as they are written: as lines for the wire, or into a map.
//!
//! A map hashes every name and keeps every value by itself, some 500 instructions a header between setting it and
//! writing it. What the gateway adds to a head nobody looks up again, so over HTTP/1.1 it goes to the wire as it
//! was written. HTTP/2, which compresses names, and services that have a map already get it as one.

use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::page::Page;

/// A head that is being written.
pub(crate) trait Head {
    /// Adds a field whose value is what `write` writes: no control characters.
    fn field(&mut self, name: &'static HeaderName, write: impl FnOnce(&mut Page));

    /// Adds a field with a value that never changes.
    fn fixed(&mut self, name: &'static HeaderName, value: &'static str) {
        self.field(name, |page| page.text(value));
    }
}

/// Lines of a head, each `name: value\r\n`, that come in the place of all others with the same names.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use tollgate_wire::{HeadLines, names};
///
/// let mut lines = HeadLines::default();
/// lines.set(&names::X_REQUEST_ID, &HeaderValue::from_static("7"));
/// assert_eq!(lines.as_bytes(), b"x-request-id: 7\r\n");
///
/// let mut headers = HeaderMap::new();
/// lines.put(&mut headers);
/// assert_eq!(headers["x-request-id"], "7");
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeadLines(Page);

impl HeadLines {
    /// None yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> HeadLines {
        HeadLines(Page::with_capacity(bytes))
    }

    /// Adds a line.
    #[inline]
    pub fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.0.text(name.as_str());
        self.0.text(": ");
        self.0.bytes(value.as_bytes());
        self.0.text("\r\n");
    }

    /// The lines as they go over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Each line's name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
        })
    }

    /// Sets them in a map.
    pub fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in self.iter() {
            let name = HeaderName::from_bytes(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                set(headers, name, value);
            }
        }
    }
}

impl Head for HeadLines {
    #[inline]
    fn field(&mut self, name: &'static HeaderName, write: impl FnOnce(&mut Page)) {
        self.0.text(name.as_str());
        self.0.text(": ");
        write(&mut self.0);
        self.0.text("\r\n");
    }
}

/// Fields for a map. Their values are slices of one buffer: a value of its own would be an allocation each.
#[derive(Debug)]
pub(crate) struct Fields {
    page: Page,
    fields: SmallVec<[(&'static HeaderName, Range<usize>); 20]>,
}

impl Fields {
    pub(crate) fn with_capacity(bytes: usize) -> Fields {
        Fields { page: Page::with_capacity(bytes), fields: SmallVec::new() }
    }

    /// Sets them, unless the map is as full as one can be.
    pub(crate) fn put(self, headers: &mut HeaderMap) {
        let page = Bytes::from(self.page.finish());
        if headers.try_reserve(self.fields.len()).is_err() {
            return;
        }
        for (name, place) in self.fields {
            if let Ok(value) = HeaderValue::from_maybe_shared(page.slice(place)) {
                set(headers, name, value);
            }
        }
    }
}

impl Head for Fields {
    #[inline]
    fn field(&mut self, name: &'static HeaderName, write: impl FnOnce(&mut Page)) {
        let start = self.page.end();
        write(&mut self.page);
        self.fields.push((name, start..self.page.end()));
    }
}

/// Sets a header unless the map is as full as one can be.
pub(crate) fn set(
    headers: &mut HeaderMap,
    name: impl http::header::IntoHeaderName,
    value: HeaderValue,
) {
    let _ = headers.try_insert(name, value);
}
