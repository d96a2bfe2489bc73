//! The head of a response, read strictly.
//!
//! `httparse` refuses control characters, folded lines and spaces before a colon. What frames the body must be told in
//! one way only: one length or `chunked`, never both. A head that says more could be read differently by whoever comes
//! after us.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes};
use http::header::HeaderMap;
use http::{StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::forward::head;
use crate::h1::chunked::Chunked;
use crate::h1::decoder::Decoder;
use crate::h1::fields::{append, may_end, number};
use crate::h1::spare_map;

const MOST_HEADERS: usize = 100;

/// Bytes of a head, of either protocol.
pub(crate) const LARGEST_HEAD: usize = 64 * 1024;

/// The head of a response, without what is about one connection.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Where it is not the status' usual one.
    pub(crate) reason: Option<ReasonPhrase>,
    pub(crate) body: Decoder,
    /// Whether the upstream keeps the connection open.
    pub(crate) is_kept: bool,
    /// How many bytes it was.
    size: usize,
}

/// What bytes from an upstream begin with.
#[derive(Debug)]
enum Parsed {
    /// A head that has not come to its end.
    Part,
    /// A head that only announces another, and its size (RFC 9110, 15.2).
    Interim(usize),
    Final(Head),
}

/// Why a head is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    Syntax(httparse::Error),
    TooLarge,
    /// A status or a name that is none.
    Field,
    /// 101, which nobody asked for.
    Switch,
    Length,
    Coding,
}

impl std::fmt::Display for BadHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadHead::Syntax(error) => return write!(f, "{error}"),
            BadHead::TooLarge => "the head is too large",
            BadHead::Field => "a status or header that is none",
            BadHead::Switch => "it switches protocols unasked",
            BadHead::Length => "Content-Length is no number, or two",
            BadHead::Coding => "Transfer-Encoding is not chunked alone",
        })
    }
}

impl std::error::Error for BadHead {}

/// Reads a head that may come in several pieces, after others that only announce it.
#[derive(Debug, Default)]
pub(crate) struct HeadReader {
    /// A head of which the end has not come.
    part: Vec<u8>,
}

impl HeadReader {
    /// Takes over what has come. Once the head is complete, it and what came after it.
    pub(crate) fn read(
        &mut self,
        came: Bytes,
        is_to_head: bool,
    ) -> Result<Option<(Head, Bytes)>, BadHead> {
        let mut bytes = came;
        if !self.part.is_empty() {
            let looked_at = self.part.len().saturating_sub(2);
            self.part.extend_from_slice(&bytes);
            if self.part.len() <= LARGEST_HEAD && !may_end(&self.part[looked_at..]) {
                return Ok(None);
            }
            bytes = Bytes::from(std::mem::take(&mut self.part));
        }
        while !bytes.is_empty() {
            match parse(&bytes, is_to_head)? {
                Parsed::Interim(size) => bytes.advance(size),
                Parsed::Final(head) => {
                    bytes.advance(head.size);
                    return Ok(Some((head, bytes)));
                }
                Parsed::Part => {
                    self.part = bytes.to_vec();
                    break;
                }
            }
        }
        Ok(None)
    }
}

/// Reads the head that `bytes` begin with, of which its headers' values are slices.
fn parse(bytes: &Bytes, is_to_head: bool) -> Result<Parsed, BadHead> {
    let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let size = match config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut fields) {
        Ok(httparse::Status::Complete(size)) if size <= LARGEST_HEAD => size,
        Ok(httparse::Status::Partial) if bytes.len() <= LARGEST_HEAD => return Ok(Parsed::Part),
        Ok(_) => return Err(BadHead::TooLarge),
        Err(error) => return Err(BadHead::Syntax(error)),
    };
    let status = StatusCode::from_u16(parsed.code.unwrap_or(0)).map_err(|_| BadHead::Field)?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(BadHead::Switch);
    }
    if status.is_informational() {
        return Ok(Parsed::Interim(size));
    }
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut headers = spare_map::take();
    let mut about = About::default();
    for field in parsed.headers.iter() {
        if about.is_kept_back(field)? {
            continue;
        }
        append(&mut headers, field, bytes).ok_or(BadHead::Field)?;
    }
    about.strip_named(&mut headers);
    let (is_kept, body) = about.end(version, is_to_head || has_no_body(status))?;
    let reason = parsed.reason.filter(|reason| !reason.is_empty());
    let reason = reason.filter(|reason| Some(*reason) != status.canonical_reason());
    let reason = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok());
    Ok(Parsed::Final(Head { status, headers, reason, body, is_kept, size }))
}

fn has_no_body(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

/// What a head says about its connection and its body.
#[derive(Default)]
struct About<'h> {
    length: Option<u64>,
    is_chunked: bool,
    says_close: bool,
    says_keep_alive: bool,
    /// Headers that `Connection` names.
    named: Vec<&'h [u8]>,
}

impl<'h> About<'h> {
    /// Takes note of a header, and says whether it is about this connection only.
    fn is_kept_back(&mut self, field: &httparse::Header<'h>) -> Result<bool, BadHead> {
        let is = |name: &str| field.name == name || field.name.eq_ignore_ascii_case(name);
        // Few names have one of these lengths.
        Ok(match field.name.len() {
            14 if field.name == "Content-Length" || is("content-length") => {
                let length = number(field.value).ok_or(BadHead::Length)?;
                match self.length.replace(length) {
                    None => false,
                    // Said twice is said once (RFC 9110, 8.6).
                    Some(before) if before == length => true,
                    Some(_) => return Err(BadHead::Length),
                }
            }
            17 if is("transfer-encoding") => {
                if self.is_chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(BadHead::Coding);
                }
                self.is_chunked = true;
                true
            }
            10 if field.name == "Connection" || is("connection") => {
                self.connection(field.value);
                true
            }
            2 => is("te"),
            7 => is("upgrade"),
            10 => is("keep-alive"),
            16 => is("proxy-connection"),
            18 => is("proxy-authenticate"),
            19 => is("proxy-authorization"),
            _ => false,
        })
    }

    fn connection(&mut self, value: &'h [u8]) {
        for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if word.eq_ignore_ascii_case(b"close") {
                self.says_close = true;
            } else if word.eq_ignore_ascii_case(b"keep-alive") {
                self.says_keep_alive = true;
            } else {
                self.named.push(word);
            }
        }
    }

    fn strip_named(&self, headers: &mut HeaderMap) {
        for name in self.named.iter().filter_map(|word| head::connection_word(word)) {
            headers.remove(name);
        }
    }

    /// Whether the connection is kept, and where the body ends (RFC 9112, 6.3).
    fn end(&self, version: Version, is_bodyless: bool) -> Result<(bool, Decoder), BadHead> {
        let is_http10 = version == Version::HTTP_10;
        let is_kept = !self.says_close && (!is_http10 || self.says_keep_alive);
        if self.is_chunked && (self.length.is_some() || is_http10) {
            return Err(BadHead::Coding);
        }
        Ok(match self.length {
            _ if is_bodyless => (is_kept, Decoder::NOTHING),
            _ if self.is_chunked => (is_kept, Decoder::Chunked(Chunked::new())),
            Some(length) => (is_kept, Decoder::Length(length)),
            None => (false, Decoder::UntilClose),
        })
    }
}
