//! Who is calling.
//!
//! A key is looked for in the configured header, then in `Authorization: Bearer tg_…`; another bearer's token is not ours
//! and goes on to the upstream. A key of ours never does, wherever it was found.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tollgate_engine::Time;
use tollgate_gate::{Caller, Holder};
use tollgate_policy::compile::{ANONYMOUS, RouteInForce};
use tollgate_policy::shapes::AuthMode;
use tollgate_policy::{ApiKey, Sha256};

use super::Law;
use super::keys::{FoundKey, Keys};
use super::plane::Plane;
use super::record::Recorder;
use super::shown::{Shown, bearer, is_ours, our_bearer};
use crate::received::Received;

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
    (key, held, now): (Key, &'k OnceCell<K::Found>, Time),
    address: IpAddr,
) -> Result<Caller<'k>, Denied> {
    let digest = match key {
        Key::NotAsked => return Ok(anonymous(law, plane, address)),
        Key::None if plane.auth().mode == AuthMode::Optional => {
            return Ok(anonymous(law, plane, address));
        }
        Key::None => return Err(Denied::Unknown),
        Key::Digest(digest) => Some(digest),
        Key::Mistyped => None,
    };
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

/// Whether a route asks for a key.
fn is_asked(plane: &Plane, route: &RouteInForce) -> bool {
    plane.auth().mode != AuthMode::None && !route.is_open()
}

/// The key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    /// Nobody wants to see one.
    NotAsked,
    None,
    Digest(Sha256),
    /// It looks like a key of ours and is none: nothing need be looked up.
    Mistyped,
}

/// The key that counts: the one in the header that keys are shown in, else a bearer's.
pub(crate) fn key_of(shown: &Shown<'_>, plane: &Plane, route: &RouteInForce) -> Key {
    if !is_asked(plane, route) {
        return Key::NotAsked;
    }
    let key_header = plane.key_header();
    if let Some(first) = shown.key {
        return match bearer(first).filter(|_| *key_header == AUTHORIZATION) {
            _ if shown.has_more_keys => Key::Mistyped,
            Some(token) => read_bytes(token),
            None => read_bytes(first.as_bytes()),
        };
    }
    match shown.bearer {
        None => Key::None,
        Some(_) if shown.has_more_bearers => Key::Mistyped,
        Some(token) => read_bytes(token),
    }
}

/// Takes every key out of a request's headers, the one that counts and any other: none is ever forwarded. Most have them in a
/// header that nobody else is to see, and stay as they came.
pub(crate) fn strip_keys<'p>(
    request: &mut Received,
    plane: &'p Plane,
    route: &RouteInForce,
) -> Option<&'p HeaderName> {
    let name = plane.key_header();
    let is_hidden = is_asked(plane, route);
    if !is_hidden {
        // Where no key is asked for the header is the upstream's, unless it holds a key of ours.
        remove_ours(request, name, |value| is_ours(value.as_bytes()));
    }
    remove_ours(request, &AUTHORIZATION, |value| our_bearer(value).is_some());
    is_hidden.then_some(name)
}

/// Removes the values of a header that are ours, and leaves the others.
fn remove_ours(request: &mut Received, name: &HeaderName, is_ours: impl Fn(&HeaderValue) -> bool) {
    if !request.headers().get_all(name).iter().any(&is_ours) {
        return;
    }
    let headers = request.headers_mut();
    let all = headers.get_all(name).iter();
    let others: Vec<HeaderValue> = all.filter(|value| !is_ours(value)).cloned().collect();
    headers.remove(name);
    for other in others {
        headers.append(name, other);
    }
}

fn read_bytes(key: &[u8]) -> Key {
    if !is_ours(key) {
        // Somebody else's key, which a file may declare by its digest.
        return Key::Digest(Sha256::of(key));
    }
    ApiKey::read(key).map_or(Key::Mistyped, |key| Key::Digest(key.sha256()))
}
