//! Header fields as bytes, for both ends.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::decoder::BadBody;
use crate::forward::strip_untrailing;

/// Most trailers of a body.
const MOST_TRAILERS: usize = 100;

/// Whether an empty line is here: a head is not looked at again before.
pub(crate) fn may_end(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

/// Reads trailers, each line with its end and an empty one after them.
pub(crate) fn trailers(bytes: &Bytes) -> Result<HeaderMap, BadBody> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    let parsed = httparse::parse_headers(bytes, &mut fields).map_err(|_| BadBody::Trailers)?;
    let httparse::Status::Complete((_, fields)) = parsed else { return Err(BadBody::Trailers) };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        append(&mut trailers, field, bytes).ok_or(BadBody::Trailers)?;
    }
    strip_untrailing(&mut trailers);
    Ok(trailers)
}

/// Adds a field to a map, its value a slice of `bytes`.
pub(crate) fn append(
    into: &mut HeaderMap,
    field: &httparse::Header<'_>,
    bytes: &Bytes,
) -> Option<()> {
    let name = match usual(field.name) {
        Some(name) => name,
        None => HeaderName::from_bytes(field.name.as_bytes()).ok()?,
    };
    let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?;
    into.try_append(name, value).ok().map(drop)
}

/// Names that most heads have, as they are mostly spelled: found at once, where any name takes a table.
#[inline]
fn usual(name: &str) -> Option<HeaderName> {
    Some(match name {
        "Host" | "host" => header::HOST,
        "User-Agent" | "user-agent" => header::USER_AGENT,
        "Accept" | "accept" => header::ACCEPT,
        "Accept-Encoding" | "accept-encoding" => header::ACCEPT_ENCODING,
        "Date" | "date" => header::DATE,
        "Server" | "server" => header::SERVER,
        "Content-Type" | "content-type" => header::CONTENT_TYPE,
        "Content-Length" | "content-length" => header::CONTENT_LENGTH,
        _ => return None,
    })
}

/// A number of digits alone.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Writes a field.
#[inline]
pub(crate) fn write_line(output: &mut Vec<u8>, name: &str, value: &[u8]) {
    output.reserve(name.len() + value.len() + 4);
    output.extend_from_slice(name.as_bytes());
    output.extend_from_slice(b": ");
    output.extend_from_slice(value);
    output.extend_from_slice(b"\r\n");
}

/// Whether a list holds `word`.
pub(crate) fn has_word(list: &[u8], word: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|found| found.trim_ascii().eq_ignore_ascii_case(word))
}
