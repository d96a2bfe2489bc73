//! How long a server wants a caller to stay away, and whether it wants it back.

use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::{HeaderName, RETRY_AFTER};
use tollgate_core::Time;

use super::value::{duration, number, plausible, until_date};
use super::{LONGEST, MOST_BYTES};
use crate::{names, protobuf};

/// From the finest field to the coarsest: milliseconds, gRPC's, whole seconds.
pub(super) fn after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    millis(headers, &names::RETRY_AFTER_MS)
        .or_else(|| millis(headers, &names::X_RATELIMIT_RETRY_AFTER_MS))
        .or_else(|| millis(headers, &names::GRPC_RETRY_PUSHBACK_MS))
        .or_else(|| retry_info(headers))
        .or_else(|| retry_after(headers, now))
}

/// `x-should-retry`, or gRPC's pushback, which is negative where nothing is to be retried.
pub(super) fn wanted(headers: &HeaderMap) -> Option<bool> {
    match text(headers, &names::X_SHOULD_RETRY) {
        Some(word) if word.eq_ignore_ascii_case("false") => Some(false),
        Some(word) if word.eq_ignore_ascii_case("true") => Some(true),
        _ => {
            let pushback = number(text(headers, &names::GRPC_RETRY_PUSHBACK_MS)?);
            // What is no number asks for no retry either (gRFC A6).
            Some(pushback.is_some_and(|millis| millis >= 0.0))
        }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A delay below zero is none.
fn millis(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    let millis = number(text(headers, name)?).filter(|millis| *millis >= 0.0)?;
    plausible(millis / 1e3)
}

fn retry_after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?;
    match number(text) {
        Some(secs) => plausible(secs).filter(|_| secs >= 0.0),
        None => until_date(text, now).or_else(|| duration(text)),
    }
}

/// Padded or not: senders differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn retry_info(headers: &HeaderMap) -> Option<Duration> {
    let text = text(headers, &names::GRPC_STATUS_DETAILS)?;
    if text.len() > MOST_BYTES {
        return None;
    }
    let status = BASE64.decode(text).ok()?;
    protobuf::retry_delay(&status).filter(|delay| *delay <= LONGEST)
}
