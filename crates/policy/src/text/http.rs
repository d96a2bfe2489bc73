//! What requests are told apart by.

use schemars::JsonSchema;

use super::{Right, Text, own_text};

/// The method of a request, in capitals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Method(Box<str>);

impl Text for Method {
    const FORMAT: &'static str = "http-method";
    const PATTERN: &'static str = "^[A-Z][A-Z-]{0,31}$";

    fn read(text: &str) -> Result<Method, Right> {
        let is_right = |text: &str| {
            (1..=32).contains(&text.len())
                && text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        };
        if is_right(text) {
            return Ok(Method(text.into()));
        }
        let upper = text.to_ascii_uppercase();
        Err(if is_right(&upper) {
            format!("methods are in capitals: write `{upper}`").into()
        } else {
            "write a method such as `GET` or `POST`".into()
        })
    }
}

/// The name of a header, in small letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct HeaderName(Box<str>);

impl Text for HeaderName {
    const FORMAT: &'static str = "header-name";
    const PATTERN: &'static str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$";

    fn read(text: &str) -> Result<HeaderName, Right> {
        // A token of RFC 9110, section 5.6.2.
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&b);
        if (1..=128).contains(&text.len()) && text.bytes().all(is_token) {
            Ok(HeaderName(text.to_ascii_lowercase().into()))
        } else {
            Err("write the name of a header, such as `x-api-key`".into())
        }
    }
}

/// The pattern of a route's path: exact segments, `{param}`, a trailing `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct RoutePath(Box<str>);

impl Text for RoutePath {
    const FORMAT: &'static str = "route-path";
    const PATTERN: &'static str = "^/[!\"$->@-~]{0,1023}$";

    fn read(text: &str) -> Result<RoutePath, Right> {
        let is_right = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
        if !text.starts_with('/') {
            Err("a path begins with `/`: write for example `/v1/items/{id}` or `/*`".into())
        } else if text.len() > 1024 {
            Err("write at most 1024 characters".into())
        } else if !text.bytes().all(is_right) {
            Err("write a path without `?`, `#` and spaces, other characters percent-encoded".into())
        } else {
            Ok(RoutePath(text.into()))
        }
    }
}

own_text!(Method, HeaderName, RoutePath);
