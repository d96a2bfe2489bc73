//! What of a head belongs to one connection only, and what is added on the way.

use http::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, Version};
use tollgate_wire::{HeadLines, names};

use crate::connection::Connection;
use crate::received::Received;
use crate::upstream::Origin;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATE: HeaderName = header::PROXY_AUTHENTICATE;
const PROXY_AUTHORIZATION: HeaderName = header::PROXY_AUTHORIZATION;
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const HOPS: usize = 8;
const CLAIMED: usize = 2;

/// Headers about one connection. `Trailer` is about the message and stays.
const HOP_BY_HOP: [HeaderName; HOPS] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What tells of the caller beside what we say ourselves: of anybody but a trusted proxy nobody shall believe it. Whatever else
/// begins with `X-Forwarded-` does too.
const CLAIMS: [HeaderName; CLAIMED] = [header::FORWARDED, HeaderName::from_static("x-real-ip")];

/// Which of those a head has. Most have few of them: one look at each name costs less than eight lookups in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hops(u32);

impl Hops {
    pub(crate) fn of(headers: &HeaderMap) -> Hops {
        let bits = headers.keys().filter_map(Hops::place).map(|at| 1 << at);
        Hops(bits.fold(0, |found, bit| found | bit))
    }

    /// Whether a head that has these has `name` among them.
    pub(crate) fn has(self, name: &HeaderName) -> bool {
        self.0 != 0 && Hops::place(name).is_some_and(|at| self.0 & (1 << at) != 0)
    }

    /// The same, and what a proxy claims of the caller stays. Proxies write it with dashes: spelled otherwise it is the caller's own, and
    /// they passed on what they do not know.
    pub(crate) fn without_claims(self) -> Hops {
        Hops(self.alone().0 | self.0 & (1 << Hops::RESPELLED))
    }

    /// The same, and whatever is claimed stays.
    fn alone(self) -> Hops {
        Hops(self.0 & ((1 << HOPS) - 1))
    }

    /// The place of every further `X-Forwarded-`.
    const FURTHER: usize = HOPS + CLAIMED;

    /// The place of every claim that is spelled with `_` for `-`.
    const RESPELLED: usize = Hops::FURTHER + 1;

    fn place(name: &HeaderName) -> Option<usize> {
        // The lengths of those names; few others have one of them.
        let text = name.as_str();
        match text.len() {
            9 if text.starts_with(['f', 'x']) => {
                let place = CLAIMS.iter().position(|claim| claim == name);
                let is_respelled = || is_read_as(text, CLAIMS[1].as_str());
                let place = place.map(|at| HOPS + at);
                place.or_else(|| is_respelled().then_some(Hops::RESPELLED))
            }
            13.. if begins_as(text, "x-forwarded-") => match text {
                "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" => None,
                _ if text.starts_with("x-forwarded-") => Some(Hops::FURTHER),
                _ => Some(Hops::RESPELLED),
            },
            2 | 7 | 10 | 16..=19 => HOP_BY_HOP.iter().position(|hop| hop == name),
            _ => None,
        }
    }
}

/// Whether a name begins so where `_` is read as `-`: CGI, WSGI and their like give both of a name to their programs as one.
pub(crate) fn begins_as(name: &str, beginning: &str) -> bool {
    let is_same = |(byte, wanted): (u8, u8)| byte == wanted || (byte == b'_' && wanted == b'-');
    name.len() >= beginning.len() && name.bytes().zip(beginning.bytes()).all(is_same)
}

/// Whether two names are the same where `_` is read as `-`.
fn is_read_as(name: &str, other: &str) -> bool {
    name.len() == other.len() && begins_as(name, other)
}

/// Removes what is about one connection only.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    strip(headers, Hops::of(headers).alone());
}

fn strip(headers: &mut HeaderMap, hops: Hops) {
    if hops.0 == 0 {
        return;
    }
    for named in named_by_connection(headers, hops) {
        headers.remove(named);
    }
    for (at, name) in HOP_BY_HOP.iter().chain(&CLAIMS).enumerate() {
        if hops.0 & (1 << at) != 0 {
            headers.remove(name);
        }
    }
    // Of these there are many names.
    if hops.0 >> Hops::FURTHER != 0 {
        let of_many: Vec<_> = headers.keys().filter(|name| hops.has(name)).cloned().collect();
        of_many.iter().for_each(|name| drop(headers.remove(name)));
    }
}

/// Whether `Connection` names no header, as it mostly does not.
fn is_plain(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes);
    values.all(|value| {
        value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
    })
}

/// The headers that `Connection` says are about this connection too.
pub(crate) fn named_by_connection(headers: &HeaderMap, hops: Hops) -> Vec<HeaderName> {
    if !hops.has(&CONNECTION) || is_plain(headers) {
        return Vec::new();
    }
    let words =
        headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(is_comma));
    words.filter_map(|word| connection_word(word.trim_ascii())).collect()
}

/// The header that a word of `Connection` names. What frames or routes the message is not its to name: removing that
/// would change what the other end reads.
pub(crate) fn connection_word(word: &[u8]) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(word).ok()?;
    (name != HOST && name != CONTENT_LENGTH && name != TRAILER).then_some(name)
}

fn is_comma(byte: &u8) -> bool {
    *byte == b','
}

/// Whether one of the values, each a list, holds `word`.
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let mut words = headers.get_all(name).iter().flat_map(|v| v.as_bytes().split(is_comma));
    words.any(|found| found.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// The protocol that a request asks to switch to.
pub(crate) fn wanted_upgrade<B>(request: &Request<B>, hops: Hops) -> Option<HeaderValue> {
    if !hops.has(&UPGRADE) || request.version() != Version::HTTP_11 {
        return None;
    }
    let protocol = request.headers().get(UPGRADE)?;
    // Cleartext HTTP/2 by upgrade was never used much and is gone from the standard (RFC 9113, 3.1).
    let is_h2c = has_word(request.headers(), &UPGRADE, "h2c");
    (has_word(request.headers(), &CONNECTION, "upgrade") && !is_h2c).then(|| protocol.clone())
}

/// Whether a caller takes trailers.
pub(crate) fn wants_trailers(headers: &HeaderMap, hops: Hops) -> bool {
    hops.has(&TE) && has_word(headers, &TE, "trailers")
}

/// Whether a field may come after the body: what frames, routes or authenticates a message must come before (RFC 9110,
/// 6.5.1), and what the gateway says of a caller nobody else says.
pub(crate) fn may_trail(name: &HeaderName) -> bool {
    let is_for_heads = matches!(
        *name,
        CONTENT_LENGTH
            | EXPECT
            | HOST
            | TRAILER
            | header::AUTHORIZATION
            | header::CACHE_CONTROL
            | header::CONTENT_ENCODING
            | header::CONTENT_RANGE
            | header::CONTENT_TYPE
            | header::COOKIE
            | header::MAX_FORWARDS
            | header::SET_COOKIE
    );
    !is_for_heads && Hops::place(name).is_none() && !is_ours_to_say(name)
}

/// Whether only the gateway may say this to an upstream, however it is spelled.
pub(crate) fn is_ours_to_say(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with('x')
        && (begins_as(name, "x-tollgate-")
            || begins_as(name, "x-forwarded-")
            || is_read_as(name, names::X_REQUEST_ID.as_str())
            || is_read_as(name, names::X_RATELIMIT_DEGRADED.as_str()))
}

/// Removes what may not come after a body.
pub(crate) fn strip_untrailing(trailers: &mut HeaderMap) {
    if !trailers.keys().all(may_trail) {
        let names: Vec<_> = trailers.keys().filter(|name| !may_trail(name)).cloned().collect();
        for name in names {
            trailers.remove(name);
        }
    }
}

/// Whether a request is a gRPC call, which only HTTP/2 can carry.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2 && tollgate_wire::is_grpc(request.headers())
}

/// Makes a caller's head the upstream's where it is sent as a map, all but the target, which depends on the upstream's
/// protocol. Doing it twice is doing it once.
pub(crate) fn prepare<B>(request: &mut Request<B>, hops: Hops) {
    let wants_trailers = wants_trailers(request.headers(), hops);
    strip(request.headers_mut(), hops);
    if wants_trailers {
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    }
    // We have said 100 ourselves by the time the body is sent on.
    request.headers_mut().remove(EXPECT);
    // `Host` says what `:authority` or an absolute target did (RFC 9112, 3.2.2).
    let authority = request.uri().authority();
    if let Some(Ok(host)) = authority.map(|authority| HeaderValue::from_str(authority.as_str())) {
        request.headers_mut().insert(HOST, host);
    }
}

/// Tells the upstream who called, and how. What somebody else than a trusted proxy says about it is dropped.
pub(crate) fn forwarded(request: &mut Received, told: &mut HeadLines, connection: &Connection) {
    let scheme = HeaderValue::from_static(if connection.is_tls() { "https" } else { "http" });
    if !connection.is_from_proxy() {
        told.set(&X_FORWARDED_FOR, connection.address());
        told.set(&X_FORWARDED_PROTO, &scheme);
        if let Some(authority) = request.uri().authority() {
            told.set_text(&X_FORWARDED_HOST, authority.as_str());
        } else if let Some(host) = request.headers().get(HOST) {
            told.set(&X_FORWARDED_HOST, host);
        } else {
            request.headers_mut().remove(X_FORWARDED_HOST);
        }
        return;
    }
    let authority = request.uri().authority();
    let host = authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    let headers = request.headers_mut();
    let host = host.or_else(|| headers.get(HOST).cloned());
    headers.append(X_FORWARDED_FOR, connection.address().clone());
    if let Entry::Vacant(vacant) = headers.entry(X_FORWARDED_PROTO) {
        vacant.insert(scheme);
    }
    if let (Some(host), Entry::Vacant(vacant)) = (host, headers.entry(X_FORWARDED_HOST)) {
        vacant.insert(host);
    }
}

/// Gives a request the target and version of an HTTP/1.1 upstream.
pub(crate) fn for_http1<B>(request: &mut Request<B>, origin: &Origin) {
    // Only HTTP/1.0 can do without.
    if request.version() == Version::HTTP_10
        && let Entry::Vacant(vacant) = request.headers_mut().entry(HOST)
        && let Ok(host) = HeaderValue::from_str(&origin.authority)
    {
        vacant.insert(host);
    }
    *request.version_mut() = Version::HTTP_11;
    // Most targets are a path already.
    if request.uri().scheme().is_some() || !origin.path.is_empty() {
        let target = target(request.uri(), origin);
        *request.uri_mut() = Uri::from(target);
    }
}

/// Gives a request the target and version of an HTTP/2 upstream.
pub(crate) fn for_http2<B>(request: &mut Request<B>, origin: &Origin) {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if origin.is_https() { Scheme::HTTPS } else { Scheme::HTTP });
    let host = request.headers_mut().remove(HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    parts.authority = authority.or_else(|| Authority::try_from(&*origin.authority).ok());
    parts.path_and_query = Some(target(request.uri(), origin));
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
}

fn target(uri: &Uri, origin: &Origin) -> PathAndQuery {
    let root = || PathAndQuery::from_static("/");
    let own = uri.path_and_query().cloned().unwrap_or_else(root);
    if origin.path.is_empty() || own.path() == "*" {
        return own;
    }
    PathAndQuery::try_from(format!("{}{own}", origin.path)).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut map = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn what_is_about_one_connection_is_removed_and_nothing_else() {
        let mut headers = map(&[
            ("connection", "close, X-Mine"),
            ("connection", "host, content-length , x-other"),
            ("x-mine", "1"),
            ("x-other", "1"),
            ("x-third", "1"),
            ("host", "a"),
            ("content-length", "3"),
            ("keep-alive", "1"),
            ("proxy-connection", "1"),
            ("proxy-authorization", "1"),
            ("proxy-authenticate", "1"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "foo"),
            ("accept-encoding", "gzip"),
            ("forwarded", "for=b"),
        ]);
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        let kept = ["accept-encoding", "content-length", "forwarded", "host", "trailer", "x-third"];
        assert_eq!(left, kept);
    }
}
