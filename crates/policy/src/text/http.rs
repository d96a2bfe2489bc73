//! What requests are told apart by.

use schemars::JsonSchema;

use super::{Right, Text, own_text};
use crate::routes::normalise;

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
    // Segments between slashes: exact ones, of which each `%` is an encoding, or a parameter. At the end there may be a `*`.
    const PATTERN: &'static str =
        r#"^((/(([!"$&-)+-.0->@-[\]-z|~]|%[0-9A-Fa-f]{2})*|\{[A-Za-z0-9_.-]+\}))+(/\*)?|/\*)$"#;

    fn read(text: &str) -> Result<RoutePath, Right> {
        let is_right = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
        if !text.starts_with('/') {
            return Err("a path begins with `/`: write for example `/v1/items/{id}` or `/*`".into());
        }
        if text.len() > 1024 {
            return Err("write at most 1024 characters".into());
        }
        if !text.bytes().all(is_right) {
            return Err(
                "write a path without `?`, `#` and spaces, other characters percent-encoded".into(),
            );
        }
        let mut segments = text[1..].split('/').peekable();
        while let Some(segment) = segments.next() {
            check_segment(segment, segments.peek().is_none())?;
        }
        Ok(RoutePath(text.into()))
    }
}

/// What is no pattern must not be taken for one: a route that is for more than was meant lets in who was to be kept out.
fn check_segment(segment: &str, is_last: bool) -> Result<(), Right> {
    let between = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    match between {
        Some(name) if !name.is_empty() && name.bytes().all(is_name) => return Ok(()),
        None if segment == "*" && is_last => return Ok(()),
        None if segment.contains('*') => {
            let help = "`*` stands alone at the end, for all that is below: write `/v1/*`, `{name}` for one segment between \
                        others, or `%2A` for the character";
            return Err(help.into());
        }
        _ if segment.contains(['{', '}']) => {
            let help = "a parameter is a whole segment, and its name has letters, digits, `_`, `-` and `.`: write `{name}`, or `%7B` \
                        and `%7D` for the characters";
            return Err(help.into());
        }
        _ => {}
    }
    match normalise(&format!("/{segment}")) {
        Ok(normal) if normal == "/" && !segment.is_empty() => {
            Err("requests are matched without `.` and `..`: write the path without them".into())
        }
        Ok(_) => Ok(()),
        Err(bad) => Err(format!("no request with such a path is served: {bad}").into()),
    }
}

own_text!(Method, HeaderName, RoutePath);
