//! Headers as they are written: as lines for the wire, or into a map.
//!
//! A map hashes every name and keeps every value by itself, some 500 instructions a header between setting it and
//! writing it. What the gateway adds to a head nobody looks up again, so over HTTP/1.1 it goes to the wire as it
//! was written. HTTP/2, which compresses names, and services that have a map already get it as one.

use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::limit_text;
use crate::page::Page;
use crate::report::{Report, Shown};

/// A head that is being written.
pub(crate) trait Head {
    /// Adds a field whose value is what `write` writes: no control characters.
    fn field(&mut self, name: &'static HeaderName, write: impl FnOnce(&mut Page));

    /// Adds what a report tells of these windows' limits.
    fn limits(&mut self, report: &Report<'_>, shown: &Shown<'_>)
    where
        Self: Sized,
    {
        report.print_each(shown, self);
    }

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
pub struct HeadLines {
    page: Page,
    /// A bit for each name, by [`trace`]: whether a name may be among them is mostly seen without a look at the lines.
    traces: u64,
    /// Bytes at the end of the page that are the body of the response that the lines are of.
    behind: usize,
}

/// The bit of a name. The names that the gateway sets share none with those that callers commonly send.
#[inline]
pub(crate) const fn trace(name: &str) -> u64 {
    let first = match name.as_bytes() {
        [first, ..] => *first as usize,
        [] => 0,
    };
    1 << ((name.len() + first * 5) & 63)
}

impl HeadLines {
    /// None yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> HeadLines {
        HeadLines { page: Page::with_capacity(bytes), traces: 0, behind: 0 }
    }

    /// Adds a line.
    #[inline]
    pub fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.line(name.as_str(), |page| page.bytes(value.as_bytes()));
    }

    /// Adds a line, unless the text is none that a header may hold.
    #[inline]
    pub fn set_text(&mut self, name: &HeaderName, text: &str) {
        // All bytes, sixteen at a time: most texts are good.
        if text.bytes().fold(true, |all, byte| all & matches!(byte, b'\t' | b' '..=b'~')) {
            self.line(name.as_str(), |page| page.text(text));
        }
    }

    /// Whether there is a line of this name.
    #[inline]
    pub fn has(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        self.traces & trace(name) != 0 && self.iter().any(|(found, _)| found == name.as_bytes())
    }

    /// Adds a line of what is known to be right: a name in lower case, a value without control characters.
    #[inline]
    fn line(&mut self, name: &str, write: impl FnOnce(&mut Page)) {
        debug_assert!(self.behind == 0, "a body ends the lines");
        self.traces |= trace(name);
        self.page.text(name);
        self.page.text(": ");
        write(&mut self.page);
        self.page.text("\r\n");
    }

    /// The lines as they go over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        let text = self.page.as_bytes();
        &text[..text.len() - self.behind]
    }

    /// The body that was written behind them, if there is one.
    #[inline]
    pub fn body(&self) -> &[u8] {
        let text = self.page.as_bytes();
        &text[text.len() - self.behind..]
    }

    /// Adds several lines at once that leave these traces, and a body behind them.
    pub(crate) fn end(&mut self, text: &[u8], traces: u64, body: usize) {
        debug_assert!(self.behind == 0, "a body ends the lines");
        self.page.bytes(text);
        self.traces |= traces;
        self.behind = body;
    }

    /// The text, and the traces of its names, for whoever adds several lines at once.
    pub(crate) fn parts(&mut self) -> (&mut Page, &mut u64) {
        debug_assert!(self.behind == 0, "a body ends the lines");
        (&mut self.page, &mut self.traces)
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
        self.line(name.as_str(), write);
    }

    fn limits(&mut self, report: &Report<'_>, shown: &Shown<'_>) {
        if !limit_text::print(report, shown, self) {
            report.print_each(shown, self);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    #[test]
    fn lines_know_their_names() {
        let mut lines = HeadLines::default();
        let name = HeaderName::from_static("x-request-id");
        assert!(!lines.has(&name));
        lines.set(&name, &HeaderValue::from_static("a: b"));
        lines.set_text(&header::SERVER, "two\r\nlines");
        lines.set_text(&header::AGE, "1");
        assert_eq!(lines.as_bytes(), b"x-request-id: a: b\r\nage: 1\r\n");
        assert!(lines.has(&name) && lines.has(&header::AGE) && !lines.has(&header::SERVER));
        // The same trace as x-request-id.
        let alike = HeaderName::from_static("x-elsewhere1");
        assert!(trace(alike.as_str()) == trace(name.as_str()) && !lines.has(&alike));
    }

    #[test]
    fn common_headers_leave_no_trace_of_ours() {
        let ours = ["x-tollgate-tenant", "x-tollgate-user", "x-tollgate-plan", "x-request-id"];
        let ours =
            ours.into_iter().chain(["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]);
        let ours = ours.map(trace).fold(0, |all, one| all | one);
        for common in [
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
            "accept-language",
            "authorization",
            "cache-control",
            "connection",
            "content-length",
            "content-type",
            "cookie",
            "origin",
            "if-modified-since",
            "if-none-match",
            "pragma",
            "range",
            "referer",
            "sec-fetch-mode",
            "traceparent",
            "x-api-key",
        ] {
            assert_eq!(trace(common) & ours, 0, "{common}");
        }
    }
}
