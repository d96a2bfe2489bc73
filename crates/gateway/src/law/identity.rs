//! What a request says about itself, and what the upstream is told about its caller.

use http::Uri;
use http::header::{HeaderName, HeaderValue};
use tollgate_gate::Caller;
use tollgate_wire::{HeadLines, names};

use super::keys::FoundKey;
use super::plane::Plane;
use super::record::Record;
use crate::forward::{begins_as, is_ours_to_say};
use crate::received::Received;

const TENANT: HeaderName = HeaderName::from_static("x-tollgate-tenant");
const USER: HeaderName = HeaderName::from_static("x-tollgate-user");
const PLAN: HeaderName = HeaderName::from_static("x-tollgate-plan");

/// The host a request is for, without its port.
pub(crate) fn host<'r>(uri: &'r Uri, header: Option<&'r HeaderValue>) -> &'r str {
    let named = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => header.and_then(|value| value.to_str().ok()).unwrap_or_default(),
    };
    // `[::1]:80` ends its host with the bracket.
    let end = named.bytes().rposition(|byte| matches!(byte, b':' | b']'));
    match end {
        Some(at) if named.as_bytes()[at] == b':' => &named[..at],
        _ => named,
    }
}

/// What the upstream is told of who called. What the caller itself said under these names is removed.
pub(crate) fn tell<F: FoundKey>(
    request: &mut Received,
    plane: &Plane,
    (caller, key): (&Caller<'_>, Option<&F>),
    record: &Record,
) -> HeadLines {
    strip(request);
    let mut told = HeadLines::with_capacity(ROOM);
    let client = caller.client();
    told.set(&TENANT, plane.tenant_value(client.tenant()));
    if let Some(user) = key.and_then(FoundKey::user) {
        told.set_text(&USER, user);
    }
    if let Some(plan) = client.plan() {
        told.set(&PLAN, plane.plan_value(plan));
    }
    told.set_text(&names::X_REQUEST_ID, record.request_id.as_str());
    told
}

/// For all that is told of most callers, how they came included.
const ROOM: usize = 384;

/// Removes what only the gateway may say, however it is spelled. Most requests have none of it, so that is seen first. An
/// `X-Request-Id` need not be removed, for what is told stands in its place; of `X-Forwarded-` whoever forwards knows what may stay.
fn strip(request: &mut Received) {
    let is_ours = |name: &HeaderName| {
        is_ours_to_say(name)
            && *name != names::X_REQUEST_ID
            && !begins_as(name.as_str(), "x-forwarded-")
    };
    if request.headers().keys().any(is_ours) {
        let headers = request.headers_mut();
        let found: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
        for name in found {
            headers.remove(name);
        }
    }
}
