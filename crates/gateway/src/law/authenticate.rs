//! Who is calling.
//!
//! A key is looked for in the configured header, then in `Authorization: Bearer tg_…`; another bearer's token is not ours
//! and goes on to the upstream. A key of ours never does, wherever it was found.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tollgate_engine::Clock;
use tollgate_gate::{Caller, Holder};
use tollgate_policy::compile::{ANONYMOUS, RouteInForce};
use tollgate_policy::shapes::AuthMode;
use tollgate_policy::{ApiKey, Sha256};

use super::Law;
use super::keys::{FoundKey, Keys};
use super::plane::Plane;
use super::record::Recorder;

/// A caller who is not let in.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It has no key, or one that nobody knows, or that has ended: nobody is told which.
    Unknown,
    /// Its address has shown bad keys too often.
    TooOften(Duration),
}

/// Lets a caller in by its key, or without one where none is asked for. The key that was found is left in `held`.
pub(crate) fn authenticate<'k, K: Keys, R: Recorder>(
    law: &Law<K, R>,
    plane: &Plane,
    (request, held): (&mut Request<crate::RequestBody>, &'k OnceCell<K::Found>),
    (route, address): (&RouteInForce, IpAddr),
) -> Result<Caller<'k>, Denied> {
    let auth = plane.auth();
    let is_asked = auth.mode != AuthMode::None && !route.is_open();
    let shown = shown_key(request.headers_mut(), plane, is_asked);
    if !is_asked {
        return Ok(anonymous(law, plane, address));
    }
    let digest = match shown {
        Shown::Nothing if auth.mode == AuthMode::Optional => {
            return Ok(anonymous(law, plane, address));
        }
        Shown::Nothing => return Err(Denied::Unknown),
        Shown::Key(digest) => Some(digest),
        Shown::Mistyped => None,
    };
    let now = law.shared.gate.limiter().clock().now();
    let found = digest.and_then(|digest| law.shared.keys.find(plane.keys(), &digest, now));
    found
        .and_then(|key| by_key(law, plane, held.get_or_init(|| key), address))
        .ok_or_else(|| failed(law, plane, address))
}

fn by_key<'k, K: Keys, R: Recorder>(
    law: &Law<K, R>,
    plane: &Plane,
    key: &'k K::Found,
    address: IpAddr,
) -> Option<Caller<'k>> {
    let policy = plane.in_force().policy();
    let tenant = policy.tenants().number(key.tenant())?;
    let holder = key.user().map_or(Holder::Key(key.counted_as()), Holder::User);
    let caller = law
        .shared
        .gate
        .caller(plane.in_force(), tenant, holder, address)
        .with_plan(key.plan().and_then(|name| policy.plan(name)))
        .with_limit(key.limit(policy))
        .with_own(key.own());
    Some(caller)
}

fn anonymous<K: Keys, R: Recorder>(
    law: &Law<K, R>,
    plane: &Plane,
    address: IpAddr,
) -> Caller<'static> {
    let policy = plane.in_force().policy();
    // Every tree has this tenant, declared or not.
    let tenant = policy.tenants().number(ANONYMOUS).unwrap_or_default();
    law.shared.gate.anonymous(plane.in_force(), tenant, address)
}

/// A bad key costs its address one of its failures. Whoever has none left is told to stay away; a good key is never
/// asked for its address.
fn failed<K: Keys, R: Recorder>(law: &Law<K, R>, plane: &Plane, address: IpAddr) -> Denied {
    law.metrics.unauthorized();
    let limiter = law.shared.gate.limiter();
    let identity = limiter.identity(&tollgate_policy::counted_address(address));
    match limiter.check(plane.failures(), identity, 1) {
        Ok(()) => Denied::Unknown,
        Err(refusal) => Denied::TooOften(refusal.retry_after().unwrap_or_default()),
    }
}

/// What a request shows of a key.
enum Shown {
    Nothing,
    Key(Sha256),
    /// It looks like a key of ours and is none: nothing need be looked up.
    Mistyped,
}

/// Takes every key out of a request's headers, the one that counts and any other: none is ever forwarded.
fn shown_key(headers: &mut HeaderMap, plane: &Plane, is_asked: bool) -> Shown {
    let by_header = key_of_header(headers, plane, is_asked);
    let by_bearer = key_of_bearer(headers);
    by_header.or(by_bearer).unwrap_or(Shown::Nothing)
}

fn key_of_header(headers: &mut HeaderMap, plane: &Plane, is_asked: bool) -> Option<Shown> {
    let name = plane.key_header();
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    let shown = match bearer(first).filter(|_| *name == AUTHORIZATION) {
        _ if values.next().is_some() => Shown::Mistyped,
        Some(token) => read_bytes(token),
        None => read_bytes(first.as_bytes()),
    };
    if is_asked {
        headers.remove(name);
    } else {
        // Where no key is asked for the header is the upstream's, unless it holds a key of ours.
        remove_ours(headers, name, |value| is_ours(value.as_bytes()));
    }
    Some(shown)
}

fn key_of_bearer(headers: &mut HeaderMap) -> Option<Shown> {
    let mut tokens = headers.get_all(AUTHORIZATION).iter().filter_map(our_bearer);
    let token = tokens.next()?;
    let shown = if tokens.next().is_none() { read_bytes(token) } else { Shown::Mistyped };
    remove_ours(headers, &AUTHORIZATION, |value| our_bearer(value).is_some());
    Some(shown)
}

/// Removes the values of a header that are ours, and leaves the others.
fn remove_ours(headers: &mut HeaderMap, name: &HeaderName, is_ours: impl Fn(&HeaderValue) -> bool) {
    if !headers.get_all(name).iter().any(&is_ours) {
        return;
    }
    let all = headers.get_all(name).iter();
    let others: Vec<HeaderValue> = all.filter(|value| !is_ours(value)).cloned().collect();
    headers.remove(name);
    for other in others {
        headers.append(name, other);
    }
}

fn is_ours(key: &[u8]) -> bool {
    key.starts_with(b"tg_")
}

fn read_bytes(key: &[u8]) -> Shown {
    if !is_ours(key) {
        // Somebody else's key, which a file may declare by its digest.
        return Shown::Key(Sha256::of(key));
    }
    ApiKey::read(key).map_or(Shown::Mistyped, |key| Shown::Key(key.sha256()))
}

/// The key of ours that a value of `Authorization` holds.
fn our_bearer(value: &HeaderValue) -> Option<&[u8]> {
    bearer(value).filter(|token| is_ours(token))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(6)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer") && matches!(token, [b' ' | b'\t', ..]);
    is_bearer.then(|| token.trim_ascii())
}
