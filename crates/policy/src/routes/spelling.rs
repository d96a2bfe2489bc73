//! One spelling of each path.
//!
//! A path may be written in many ways that servers take to be the same: with dot segments, doubled slashes,
//! characters percent-encoded for no need. If only one of them were matched, another might reach a cheaper
//! route. So a path is normalised once, and that is forwarded. What stays encoded there, because to some servers it
//! means something else, is matched decoded.

use std::borrow::Cow;
use std::fmt;

/// A path that no honest client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It does not begin with a slash.
    NotAbsolute,
    /// A `%` without two hexadecimal digits after it.
    BadEncoding,
    /// A NUL or a backslash, plain or encoded, which servers disagree about.
    Forbidden,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::NotAbsolute => "a path begins with `/`",
            BadPath::BadEncoding => "a `%` in a path is followed by two hexadecimal digits",
            BadPath::Forbidden => "a path has no NUL and no backslash, nor their encodings",
        })
    }
}

impl std::error::Error for BadPath {}

/// The one spelling of `path`: no dot segments, no empty segments but a last one, no unreserved character
/// encoded, hexadecimal digits in capitals. An encoded slash stays encoded and separates nothing.
///
/// ```
/// use tollgate_policy::routes::normalise;
///
/// assert_eq!(normalise("/v1//%63hat/./x/../completions").unwrap(), "/v1/chat/completions");
/// assert_eq!(normalise("/a%2fb").unwrap(), "/a%2Fb");
/// assert!(normalise("/a%00").is_err());
/// ```
pub fn normalise(path: &str) -> Result<Cow<'_, str>, BadPath> {
    if !path.starts_with('/') {
        return Err(BadPath::NotAbsolute);
    }
    if is_normal(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let plain = decode(path.as_bytes())?;
    let mut normal = String::with_capacity(plain.len());
    let mut segments = plain.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "" | "." if !is_last => {}
            "" | "." => normal.push('/'),
            ".." => {
                normal.truncate(normal.rfind('/').unwrap_or(0));
                if is_last {
                    normal.push('/');
                }
            }
            segment => {
                normal.push('/');
                normal.push_str(segment);
            }
        }
    }
    Ok(Cow::Owned(normal))
}

/// The form of a [normalised](normalise) path that is matched: servers that decode a path before they choose what to run
/// take `%3A` for `:`. A slash and a percent sign that were encoded stay so, and separate and begin nothing.
///
/// It is not what is forwarded, for to a server that does not decode they are two paths.
pub(super) fn matched(normal: &str) -> Cow<'_, str> {
    let is_as_good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%');
    let mut plain = String::new();
    let mut rest = normal;
    while let Some(at) = rest.find('%') {
        let (before, encoded) = rest.split_at(at);
        let byte = encoded.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push_str(before);
        match byte {
            Some(byte) if is_as_good(byte) => plain.push(char::from(byte)),
            _ => plain.push_str(encoded.get(..3).unwrap_or(encoded)),
        }
        rest = encoded.get(3..).unwrap_or_default();
    }
    if plain.is_empty() {
        return Cow::Borrowed(normal);
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Whether nothing need be changed; now and then too careful.
fn is_normal(path: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\');
    let is_odd = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    path.iter().all(is_plain) && !path.windows(2).any(is_odd)
}

/// Decodes what need not be encoded, and encodes what must be.
fn decode(path: &[u8]) -> Result<String, BadPath> {
    let mut plain = String::with_capacity(path.len());
    let mut bytes = path.iter().copied();
    while let Some(byte) = bytes.next() {
        let (byte, was_encoded) = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| (digit as char).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(BadPath::BadEncoding);
                };
                ((high * 16 + low) as u8, true)
            }
            plain => (plain, false),
        };
        let is_unreserved =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        match byte {
            0 | b'\\' => return Err(BadPath::Forbidden),
            _ if is_unreserved || (!was_encoded && byte.is_ascii_graphic()) => {
                plain.push(byte as char);
            }
            _ => {
                let digit = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit)]);
                plain.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    Ok(plain)
}
