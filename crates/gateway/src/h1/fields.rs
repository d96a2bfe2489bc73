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
    let httparse::Status::Complete((used, fields)) = parsed else { return Err(BadBody::Trailers) };
    // An empty line before the last one.
    if used != bytes.len() {
        return Err(BadBody::Trailers);
    }
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
    let name = field_name(field.name)?;
    let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?;
    into.try_append(name, value).ok().map(drop)
}

/// A field's name, if it is one.
#[inline]
pub(crate) fn field_name(name: &str) -> Option<HeaderName> {
    usual(name).or_else(|| HeaderName::from_bytes(name.as_bytes()).ok())
}

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

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
        "Authorization" | "authorization" => header::AUTHORIZATION,
        // Any other name that is none of the standard's takes memory of its own.
        "X-Api-Key" | "x-api-key" | "X-API-Key" | "X-API-KEY" => X_API_KEY,
        "X-Forwarded-For" | "x-forwarded-for" => X_FORWARDED_FOR,
        "Traceparent" | "traceparent" => TRACEPARENT,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_after_the_end_of_trailers() {
        let read = |bytes: &'static [u8]| trailers(&Bytes::from_static(bytes)).map(|map| map.len());
        assert_eq!(read(b"x: y\r\nz: 1\r\n\r\n"), Ok(2));
        assert_eq!(read(b"x: y\r\n\r\nz: 1\r\n\r\n"), Err(BadBody::Trailers));
        assert_eq!(read(b"x: y\n\nGET / HTTP/1.1\r\n\r\n"), Err(BadBody::Trailers));
    }

    #[test]
    fn usual_names_are_those_that_they_are_spelled_as() {
        for name in [
            "Host",
            "user-agent",
            "Accept",
            "accept-encoding",
            "Date",
            "server",
            "Content-Type",
            "content-length",
            "Authorization",
            "X-API-KEY",
            "x-api-key",
            "X-Api-Key",
            "X-Forwarded-For",
            "traceparent",
        ] {
            assert_eq!(usual(name).unwrap(), name.to_ascii_lowercase().as_str());
        }
        assert_eq!(field_name("x-anything").unwrap(), "x-anything");
        assert_eq!(field_name("no name"), None);
    }
}
