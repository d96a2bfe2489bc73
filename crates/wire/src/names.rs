//! The name of every header that is written or read, and which of them are ours alone.

use http::HeaderMap;
use http::header::HeaderName;
use tollgate_core::Span;

pub(crate) static CONTENT_TYPE: HeaderName = http::header::CONTENT_TYPE;
pub(crate) static CACHE_CONTROL: HeaderName = http::header::CACHE_CONTROL;
pub(crate) static RETRY_AFTER: HeaderName = http::header::RETRY_AFTER;

/// Tells one request from every other, on each response.
pub static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The capacity, or the window's limit, of the reported limit.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The largest cost that would pass now.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When it is full again or its window ends, in seconds since the epoch.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// Which limit was skipped by strategy `degrade`: on the forwarded request and on the response.
pub static X_RATELIMIT_DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
/// Milliseconds until a refused request would pass.
pub static X_RATELIMIT_RETRY_AFTER_MS: HeaderName =
    HeaderName::from_static("x-ratelimit-retry-after-ms");
/// The same, under the name that SDKs and gRPC clients look for.
pub static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// IETF: the limits in force, `"user-second";q=100;w=10`.
pub static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// IETF: where they stand, `"user-second";r=47;t=6`.
pub static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// Whether a server wants to be asked again, as some SDKs understand it.
pub static X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// gRPC's status code.
pub static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// gRPC's status message, percent-encoded.
pub static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// gRPC's rich status: a `google.rpc.Status` in base64.
pub static GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Milliseconds after which a gRPC client may retry; negative: never.
pub static GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The three names of one window.
#[derive(Debug)]
pub(crate) struct Triple {
    pub(crate) limit: HeaderName,
    pub(crate) remaining: HeaderName,
    pub(crate) reset: HeaderName,
}

macro_rules! triple {
    ($suffix:literal) => {
        Triple {
            limit: HeaderName::from_static(concat!("x-ratelimit-limit-", $suffix)),
            remaining: HeaderName::from_static(concat!("x-ratelimit-remaining-", $suffix)),
            reset: HeaderName::from_static(concat!("x-ratelimit-reset-", $suffix)),
        }
    };
}

/// In the order of [`Span::ALL`].
static SUFFIXED: [Triple; Span::ALL.len()] = [
    triple!("second"),
    triple!("minute"),
    triple!("hour"),
    triple!("day"),
    triple!("week"),
    triple!("month"),
    triple!("year"),
];

pub(crate) fn suffixed(span: Span) -> &'static Triple {
    &SUFFIXED[span as usize]
}

/// Whether a response header of this name speaks for us, so that an upstream may not set it: everything
/// that a client takes for a limit's figures, and the request's id.
///
/// `Retry-After`, `Cache-Control`, `WWW-Authenticate` and gRPC's own status headers are not among them. They
/// are standard fields of any server's answers: without them an upstream could not say that it is down for
/// maintenance, or that its answer may be cached.
pub fn is_ours(name: &HeaderName) -> bool {
    speaks_of_limits(name) || *name == X_REQUEST_ID
}

fn speaks_of_limits(name: &HeaderName) -> bool {
    let name = name.as_str();
    match name.as_bytes().first() {
        Some(b'x') => name.starts_with("x-ratelimit-"),
        Some(b'r') => {
            // With the fields of the older drafts, `ratelimit-limit` and so on.
            name == "retry-after-ms"
                || name
                    .strip_prefix("ratelimit")
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        }
        _ => false,
    }
}

/// Removes from an upstream's headers or trailers all that [is ours](is_ours). It looks at each name once, and
/// does nothing more where there is nothing to remove.
pub fn strip(headers: &mut HeaderMap) {
    if headers.keys().any(is_ours) {
        strip_found(headers, is_ours);
    }
}

/// Like [`strip`], but leaves the request's id to whoever gave it.
pub fn strip_limits(headers: &mut HeaderMap) {
    if headers.keys().any(speaks_of_limits) {
        strip_found(headers, speaks_of_limits);
    }
}

#[cold]
fn strip_found(headers: &mut HeaderMap, is_meant: fn(&HeaderName) -> bool) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_meant(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_has_its_own_suffix() {
        for span in Span::ALL {
            let names = suffixed(span);
            for name in [&names.limit, &names.remaining, &names.reset] {
                assert!(name.as_str().ends_with(span.name()), "{name} for {span:?}");
            }
        }
    }
}
