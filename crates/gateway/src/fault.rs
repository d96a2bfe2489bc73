//! Requests that are no proper HTTP, or break a cap.
//!
//! What two programs may read in two ways is refused. Over HTTP/1.1 much of it is found while the head is parsed; what
//! can be seen of a parsed head is looked for here, for both protocols.

use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, StatusCode, Version};

use crate::settings::Limits;

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Tunnels are for proxies of another kind.
    Connect,
    /// The target is neither a path nor a URL.
    Target,
    /// HTTP/1.1 without `Host`, with several, or with one that is no host.
    Host,
    /// HTTP/2 with a `Host` that is not its `:authority`.
    Authority,
    /// No HTTP/1.1 at all.
    Malformed,
    /// A head larger than allowed.
    LargeHead,
    /// A `Content-Length` that is no number, or several.
    Length,
    /// Transfer codings that do not end in `chunked`, or over HTTP/1.0.
    Coding,
    /// A transfer coding other than `chunked`.
    TransferCoding,
    /// `Content-Length` beside `Transfer-Encoding`.
    TwoLengths,
    /// An expectation other than `100-continue`.
    Expectation,
    /// More headers than allowed.
    ManyHeaders,
    /// A body larger than allowed.
    LargeBody,
    /// More connections than allowed. What it asks for is not known.
    ManyConnections,
}

impl Fault {
    /// The status of its answer.
    pub fn status(self) -> StatusCode {
        match self {
            Fault::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Fault::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Fault::Expectation => StatusCode::EXPECTATION_FAILED,
            Fault::ManyHeaders | Fault::LargeHead => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Fault::LargeBody => StatusCode::PAYLOAD_TOO_LARGE,
            Fault::ManyConnections => StatusCode::SERVICE_UNAVAILABLE,
            Fault::Malformed
            | Fault::Length
            | Fault::Coding
            | Fault::Target
            | Fault::Host
            | Fault::Authority
            | Fault::TwoLengths => StatusCode::BAD_REQUEST,
        }
    }

    /// What would be right.
    pub fn detail(self) -> &'static str {
        match self {
            Fault::Connect => "CONNECT is not served here",
            Fault::Target => "the request's target must be a path that begins with /, or a URL",
            Fault::Host => {
                "a request over HTTP/1.1 needs one Host header: a host, and perhaps a port"
            }
            Fault::Authority => "the Host header must be the same as :authority, or be left out",
            Fault::Malformed => "the request is no proper HTTP/1.1",
            Fault::LargeHead => "the request's headers are larger than allowed",
            Fault::Length => "Content-Length must be one whole number",
            Fault::Coding => "a transfer coding must end in chunked, and needs HTTP/1.1",
            Fault::TransferCoding => "the only transfer coding served here is chunked",
            Fault::TwoLengths => "send Content-Length or Transfer-Encoding, not both",
            Fault::Expectation => "the only expectation served here is 100-continue",
            Fault::ManyHeaders => "the request has too many headers",
            Fault::LargeBody => "the request's body is larger than allowed",
            Fault::ManyConnections => "too many connections are open, come back in a second",
        }
    }
}

/// What is wrong with the head of a request, if anything.
pub(crate) fn of_head<B>(request: &Request<B>, limits: &Limits) -> Result<(), Fault> {
    if request.method() == Method::CONNECT {
        return Err(Fault::Connect);
    }
    let path = request.uri().path();
    let is_path = path.starts_with('/') || (path == "*" && request.method() == Method::OPTIONS);
    if !is_path {
        return Err(Fault::Target);
    }
    if limits.headers > 0 && request.headers().len() > limits.headers {
        return Err(Fault::ManyHeaders);
    }
    let seen = Seen::of(request.headers())?;
    host(request, seen.host)?;
    if seen.coding.is_some() && seen.length.is_some() {
        return Err(Fault::TwoLengths);
    }
    let most = limits.body_bytes;
    let length = seen.length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if most > 0 && length.is_some_and(|length| length > most) {
        return Err(Fault::LargeBody);
    }
    Ok(())
}

/// The headers that matter here, found in one look at each: most requests have none but `Host`.
#[derive(Default)]
struct Seen<'h> {
    host: Option<&'h HeaderValue>,
    coding: Option<&'h HeaderValue>,
    length: Option<&'h HeaderValue>,
}

impl<'h> Seen<'h> {
    fn of(headers: &'h HeaderMap) -> Result<Seen<'h>, Fault> {
        let mut seen = Seen::default();
        for (name, value) in headers {
            match name.as_str().len() {
                4 if name == HOST => {
                    let is_second = seen.host.replace(value).is_some();
                    right(!is_second && is_host(value.as_bytes()), Fault::Host)?;
                }
                6 if name == EXPECT => right(is(value, "100-continue"), Fault::Expectation)?,
                14 if name == CONTENT_LENGTH => seen.length = Some(value),
                17 if name == TRANSFER_ENCODING => {
                    let is_second = seen.coding.replace(value).is_some();
                    right(!is_second && is(value, "chunked"), Fault::TransferCoding)?;
                }
                _ => (),
            }
        }
        Ok(seen)
    }
}

fn right(is_right: bool, fault: Fault) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(fault) }
}

fn is(value: &HeaderValue, word: &str) -> bool {
    value.as_bytes().eq_ignore_ascii_case(word.as_bytes())
}

fn host<B>(request: &Request<B>, host: Option<&HeaderValue>) -> Result<(), Fault> {
    let authority = request.uri().authority();
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(Fault::Target);
    }
    match request.version() {
        Version::HTTP_2 => match (authority, host) {
            (None, None) => Err(Fault::Host),
            (Some(authority), Some(host))
                if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) =>
            {
                Err(Fault::Authority)
            }
            _ => Ok(()),
        },
        Version::HTTP_11 if host.is_none() => Err(Fault::Host),
        _ => Ok(()),
    }
}

/// Whether every byte may stand in a host and port (RFC 3986, 3.2.2); `@` would be a login, `,` a list.
fn is_host(value: &[u8]) -> bool {
    let is_right = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']' | b'%' | b'~')
    };
    value.iter().all(is_right)
}
