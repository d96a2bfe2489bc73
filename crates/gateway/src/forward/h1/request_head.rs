//! The head of a request, written straight from what the caller sent.

use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, TRAILER};
use http::uri::Uri;
use http_body::Body as _;

use super::sending::Framing;
use crate::forward::head;
use crate::forward::outbound::Outbound;
use crate::h1::fields::write_line;
use crate::upstream::Origin;

/// Writes the head and says how the body follows.
pub(crate) fn write(out: &mut Vec<u8>, outbound: &Outbound<'_>, origin: &Origin) -> Framing {
    let Outbound { request, told, hidden, hops, .. } = outbound;
    let (uri, headers) = (request.uri(), request.headers());
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    write_target(out, uri, origin);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    // `Host` says what `:authority` or an absolute target did (RFC 9112, 3.2.2).
    let mut has_host = false;
    if let Some(authority) = uri.authority() {
        write_line(out, HOST.as_str(), authority.as_str().as_bytes());
        has_host = true;
    }
    let is_named_host = has_host;
    let named = head::named_by_connection(headers, *hops);
    let (mut has_length, mut has_cookie) = (false, false);
    for (name, value) in headers {
        let text = name.as_str();
        let is_left_out = match text.len() {
            4 if *name == HOST => {
                has_host = true;
                is_named_host
            }
            6 if *name == COOKIE => {
                has_cookie = true;
                true
            }
            // We have said 100 ourselves by the time the body is sent on.
            6 => *name == EXPECT,
            14 if *name == CONTENT_LENGTH => {
                has_length = true;
                true
            }
            _ => hops.has(name),
        };
        let is_left_out = is_left_out || hidden.is_some_and(|hidden| hidden == name);
        if !is_left_out && !told.has(name) && (named.is_empty() || !named.contains(name)) {
            write_line(out, text, value.as_bytes());
        }
    }
    if has_cookie && !named.contains(&COOKIE) && hidden.is_none_or(|hidden| *hidden != COOKIE) {
        write_cookie(out, headers);
    }
    if !has_host {
        // Only HTTP/1.0 can do without.
        write_line(out, HOST.as_str(), origin.authority.as_bytes());
    }
    if head::wants_trailers(headers, *hops) {
        out.extend_from_slice(b"te: trailers\r\n");
    }
    out.extend_from_slice(told.as_bytes());
    let framing = framing(outbound);
    match framing {
        Framing::Done if has_length => out.extend_from_slice(b"content-length: 0\r\n"),
        Framing::Done => (),
        Framing::Length(length) => {
            write_line(out, CONTENT_LENGTH.as_str(), length.to_string().as_bytes());
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    out.extend_from_slice(b"\r\n");
    framing
}

/// HTTP/2 may bring cookies in crumbs, of which anything else must see one line (RFC 9113, 8.2.3).
fn write_cookie(out: &mut Vec<u8>, headers: &HeaderMap) {
    let crumbs = headers.get_all(COOKIE).iter();
    for (at, crumb) in crumbs.enumerate() {
        out.extend_from_slice(if at == 0 { b"cookie: " } else { b"; " });
        out.extend_from_slice(crumb.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

fn framing(outbound: &Outbound<'_>) -> Framing {
    let body = outbound.request.body();
    if body.is_end_stream() {
        return Framing::Done;
    }
    match body.size_hint().exact() {
        Some(0) => Framing::Done,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}

/// The trailers that a caller announces and may send.
pub(crate) fn announced(outbound: &Outbound<'_>) -> Vec<HeaderName> {
    let values = outbound.request.headers().get_all(TRAILER);
    let words = values.iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let names = words.filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok());
    names.filter(|name| head::may_trail(name) && !outbound.told.has(name)).collect()
}

fn write_target(out: &mut Vec<u8>, uri: &Uri, origin: &Origin) {
    let own = uri.path_and_query().map_or("/", |own| own.as_str());
    let is_star = own == "*";
    if !is_star {
        out.extend_from_slice(origin.path.as_bytes());
        // `http://host?query` has no path.
        if !own.starts_with('/') {
            out.push(b'/');
        }
    }
    out.extend_from_slice(own.as_bytes());
}
