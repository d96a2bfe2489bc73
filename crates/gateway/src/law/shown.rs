//! What the law wants to know of a request's headers, found in one look at each.
//!
//! To look a name up in the map is to hash it, and four are asked for, some twice. Most requests have a dozen headers, most of
//! other lengths.

use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What a request shows.
#[derive(Debug, Default)]
pub(crate) struct Shown<'h> {
    /// The first `Host`.
    pub(crate) host: Option<&'h HeaderValue>,
    /// The first value of the header that keys are shown in.
    pub(crate) key: Option<&'h HeaderValue>,
    pub(crate) has_more_keys: bool,
    /// The first key of ours in `Authorization: Bearer`.
    pub(crate) bearer: Option<&'h [u8]>,
    pub(crate) has_more_bearers: bool,
    /// The values of `X-Forwarded-For`, of which there is seldom more than one.
    pub(crate) forwarded: SmallVec<[&'h [u8]; 2]>,
}

impl<'h> Shown<'h> {
    pub(crate) fn of(headers: &'h HeaderMap, key_header: &HeaderName) -> Shown<'h> {
        let mut shown = Shown::default();
        let key_length = key_header.as_str().len();
        for (name, value) in headers {
            let length = name.as_str().len();
            if length == key_length && name == key_header {
                shown.has_more_keys = shown.key.is_some();
                shown.key.get_or_insert(value);
            }
            match length {
                4 if name == HOST => drop(shown.host.get_or_insert(value)),
                13 if name == AUTHORIZATION => {
                    if let Some(token) = our_bearer(value) {
                        shown.has_more_bearers = shown.bearer.is_some();
                        shown.bearer.get_or_insert(token);
                    }
                }
                15 if name == FORWARDED_FOR => shown.forwarded.push(value.as_bytes()),
                _ => (),
            }
        }
        shown
    }
}

/// Whether it looks like a key of ours.
pub(crate) fn is_ours(key: &[u8]) -> bool {
    key.starts_with(b"tg_")
}

/// The key of ours that a value of `Authorization` holds.
pub(crate) fn our_bearer(value: &HeaderValue) -> Option<&[u8]> {
    bearer(value).filter(|token| is_ours(token))
}

pub(crate) fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(6)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer") && matches!(token, [b' ' | b'\t', ..]);
    is_bearer.then(|| token.trim_ascii())
}
