//! gRPC statuses: trailers-only responses, which end a call before it began.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::head_lines::set;
use crate::names;
use crate::protobuf;

/// Whether a request is a gRPC call and wants its answer as a status. gRPC-Web is another thing: it goes over HTTP/1.1 too, and
/// its callers do not read statuses of gRPC.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.split_at_checked(16).is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(b"application/grpc")
            && matches!(rest, [] | [b'+' | b';' | b' ' | b'\t', ..])
    })
}

/// The status codes that a gateway answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 2
    Unknown = 2,
    /// 7
    PermissionDenied = 7,
    /// 8: a limit, a quota, backpressure
    ResourceExhausted = 8,
    /// 12
    Unimplemented = 12,
    /// 13
    Internal = 13,
    /// 14
    Unavailable = 14,
    /// 16
    Unauthenticated = 16,
}

impl Code {
    /// The code that stands for an HTTP status, as gRPC's own table has it, but for 429, which that table takes
    /// for a proxy's, and which here is a limit.
    pub fn of(status: StatusCode) -> Code {
        match status.as_u16() {
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 | 501 => Code::Unimplemented,
            429 => Code::ResourceExhausted,
            502..=504 => Code::Unavailable,
            400..=500 => Code::Internal,
            _ => Code::Unknown,
        }
    }

    fn value(self) -> HeaderValue {
        HeaderValue::from(self as u16)
    }
}

/// A trailers-only response. With a delay it carries a `RetryInfo`.
pub(crate) fn response(code: Code, message: &str, delay: Option<Duration>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    set(headers, &names::GRPC_STATUS, code.value());
    if let Ok(message) = HeaderValue::from_maybe_shared(percent_encode(message)) {
        set(headers, &names::GRPC_MESSAGE, message);
    }
    if delay.is_some() {
        let status = protobuf::status(code as u8, message, delay);
        let encoded = Bytes::from(STANDARD_NO_PAD.encode(status));
        if let Ok(details) = HeaderValue::from_maybe_shared(encoded) {
            set(headers, &names::GRPC_STATUS_DETAILS, details);
        }
    }
    response
}

/// Every byte that is not printable ASCII, and `%` itself, as gRPC's `Status-Message` wants it.
fn percent_encode(message: &str) -> Bytes {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
    Bytes::from(out)
}
