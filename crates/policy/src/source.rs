//! The text of a file and places in it.
//!
//! A place is kept as byte offsets, eight bytes a value; lines and columns are worked out when somebody is
//! told of a fault, which is rare, and not while a file is read.

use std::sync::Arc;

use crate::Diagnostic;

/// The largest file that is read: forty thousand tenants with a limit each, which are judged within a second.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// From one byte of the file up to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        // A source is never longer than `MAX_BYTES`, so the offsets fit.
        let offset = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { start: offset(start), end: offset(end.max(start)) }
    }
}

/// A place as an editor shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

/// A file's name and text, with where its lines begin. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Source(Arc<Text>);

#[derive(Debug)]
struct Text {
    name: String,
    text: String,
    line_starts: Vec<u32>,
}

impl Source {
    /// The text of `bytes`, or the one reason why it is none, with what can be shown of it.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Source, (Source, Diagnostic)> {
        let refuse = |shown: &str, at: usize, message: String, help: &str| {
            let fault = Diagnostic::error(Span::new(at, at + 1), message).with_help(help);
            Err((Source::of(name, shown), fault))
        };
        if bytes.len() > MAX_BYTES {
            let message = format!("this is too large: {} bytes", bytes.len());
            let help = format!(
                "a file has at most {MAX_BYTES} bytes; tenants and keys can also be made by the API"
            );
            return refuse("", 0, message, &help);
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return refuse("", 0, "this is UTF-16".to_owned(), "save the file as UTF-8");
        }
        let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
        match str::from_utf8(bytes) {
            Ok(text) => Ok(Source::of(name, text)),
            Err(error) => {
                let at = error.valid_up_to();
                let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(at + 256)]);
                let message = format!("byte 0x{:02x} is not UTF-8 here", bytes[at]);
                refuse(&shown, at, message, "save the file as UTF-8")
            }
        }
    }

    pub(crate) fn of(name: &str, text: &str) -> Source {
        let breaks = text.bytes().zip(1u32..).filter(|&(byte, _)| byte == b'\n');
        let line_starts = std::iter::once(0).chain(breaks.map(|(_, next)| next)).collect();
        Source(Arc::new(Text { name: name.to_owned(), text: text.to_owned(), line_starts }))
    }

    /// The name the file was given.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The whole text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What stands at `span`.
    pub fn slice(&self, span: Span) -> &str {
        self.0.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// The line and column where `span` begins.
    pub fn position(&self, span: Span) -> Position {
        let (line, start) = self.line_of(span);
        let before = self.0.text.get(start..span.start as usize).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }

    /// The number of the line where `span` begins, and the byte where that line does.
    pub(crate) fn line_of(&self, span: Span) -> (usize, usize) {
        let starts = &self.0.line_starts;
        let line = starts.partition_point(|&start| start <= span.start);
        (line, starts.get(line.saturating_sub(1)).map_or(0, |&start| start as usize))
    }

    /// The line that begins at byte `start`, without its line break.
    pub(crate) fn line_at(&self, start: usize) -> &str {
        let rest = self.0.text.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        line.strip_suffix('\r').unwrap_or(line)
    }
}
