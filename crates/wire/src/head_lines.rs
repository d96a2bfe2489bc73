//! Header lines that are written once, as bytes, instead of kept in a map.
//!
//! A map hashes every name and keeps every value by itself, some 500 instructions a header between setting it and
//! writing it. What the gateway adds to a head nobody looks up again, so over HTTP/1.1 it goes to the wire as it
//! was written; HTTP/2, which compresses names, has it [put into a map](HeadLines::put) after all.

use http::header::{HeaderMap, HeaderName, HeaderValue};

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
pub struct HeadLines(Vec<u8>);

impl HeadLines {
    /// None yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> HeadLines {
        HeadLines(Vec::with_capacity(bytes))
    }

    /// Adds a line.
    #[inline]
    pub fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.line(name.as_str(), value.as_bytes());
    }

    /// Adds a line of what is known to be right: a name in lower case, a value without control characters.
    #[inline]
    pub(crate) fn line(&mut self, name: &str, value: &[u8]) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
    }

    /// The lines as they go over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each line's name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.0.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
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
                crate::page::set(headers, name, value);
            }
        }
    }
}
