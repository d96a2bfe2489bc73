//! Text that means something: each type is made only of text it understands, and says what would be right
//! of any other.
//!
//! A type's `FORMAT` names it in the schema, and the validator looks its check up by that name; so what the
//! schema promises, what the validator refuses and what the type accepts are one function. Its `PATTERN` is
//! for editors, which cannot run that function: it refuses nothing that the type accepts.

mod digest;
mod file;
mod http;
mod name;
mod network;
mod time;
mod url;

use std::borrow::Cow;
use std::fmt;

pub use digest::Sha256;
pub use file::{AccessLog, FilePath};
pub use http::{HeaderName, Method, RoutePath};
pub use name::{
    KeyId, Label, OperationName, PlanName, RedisPrefix, TenantId, UpstreamName, UserName,
};
pub use network::{Cidr, ListenAddress};
pub use time::{Instant, ZoneName};
pub use url::{Host, HttpUrl, RedisUrl};

use crate::secret;
use crate::words::SHOWN;

/// What would be right, as the end of a sentence: "write …".
pub(crate) type Right = Cow<'static, str>;

/// Text that means something.
pub(crate) trait Text: Sized {
    /// Its name in the schema.
    const FORMAT: &'static str;
    /// A regular expression that all such text matches.
    const PATTERN: &'static str;

    /// What `text` means, or what would be right.
    fn read(text: &str) -> Result<Self, Right>;
}

/// Text that a type does not understand. The message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    found: String,
    right: Right,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}: {}", quoted(&self.found), self.right)
    }
}

impl std::error::Error for TextError {}

/// `text` in quotes, cut where it is long, without secrets.
pub(crate) fn quoted(text: &str) -> String {
    match secret::beginning(text, SHOWN) {
        (all, true) => format!("{all:?}"),
        (some, false) => format!("{some:?}…"),
    }
}

/// Whether the text that the schema calls `format` may be or hold a secret, also where it is wrong.
pub(crate) fn is_secret(format: &str) -> bool {
    [Sha256::FORMAT, RedisUrl::FORMAT].contains(&format)
}

pub(crate) type Check = fn(&str) -> Result<(), Right>;

/// The check of the text that the schema calls `format`.
pub(crate) fn check_of(format: &str) -> Option<Check> {
    const CHECKS: &[(&str, Check)] = &[
        entry::<TenantId>(),
        entry::<UserName>(),
        entry::<Label>(),
        entry::<Sha256>(),
        entry::<ListenAddress>(),
        entry::<Cidr>(),
        entry::<ZoneName>(),
        entry::<Instant>(),
        entry::<Host>(),
        entry::<HttpUrl>(),
        entry::<RedisUrl>(),
        entry::<Method>(),
        entry::<HeaderName>(),
        entry::<RoutePath>(),
        entry::<FilePath>(),
        entry::<AccessLog>(),
    ];
    CHECKS.iter().find(|(name, _)| *name == format).map(|(_, check)| *check)
}

const fn entry<T: Text>() -> (&'static str, Check) {
    (T::FORMAT, |text| T::read(text).map(drop))
}

/// Reading and writing for types that implement [`Text`] and `Display`.
macro_rules! text_value {
    ($($type:ident),+) => {$(
        impl std::str::FromStr for $type {
            type Err = crate::TextError;

            fn from_str(text: &str) -> Result<$type, crate::TextError> {
                crate::text::Text::read(text)
                    .map_err(|right| crate::text::TextError { found: text.to_owned(), right })
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("text")
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

/// As [`text_value`], for types that are their text.
macro_rules! own_text {
    ($($type:ident),+) => {$(
        impl $type {
            /// As it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        crate::text::text_value!($type);
    )+};
}

use {own_text, text_value};
