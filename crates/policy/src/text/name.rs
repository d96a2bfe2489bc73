//! Names that people give to things.

use schemars::JsonSchema;

use super::{Right, Text, own_text};

/// The longest name, in characters.
const LONGEST: usize = 128;

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $type:ident),+ $(,)?) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
        #[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
        pub struct $type(Box<str>);

        impl Text for $type {
            const FORMAT: &'static str = "name";
            const PATTERN: &'static str = "^[A-Za-z0-9._-]{1,128}$";

            fn read(text: &str) -> Result<$type, Right> {
                let is_right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                if (1..=LONGEST).contains(&text.len()) && text.chars().all(is_right) {
                    Ok($type(text.into()))
                } else {
                    Err("write 1 to 128 letters, digits, `.`, `_` or `-`".into())
                }
            }
        }

        own_text!($type);
    )+};
}

names! {
    /// The id of a tenant. The root of the tree is `system`.
    TenantId,
    /// The name of a plan.
    PlanName,
    /// The name of an operation.
    OperationName,
    /// The name of an upstream.
    UpstreamName,
    /// The id of a key, as the API shows it; not the key itself.
    KeyId,
    /// What the names of all entries in Redis begin with.
    RedisPrefix,
}

/// Who holds a key inside a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct UserName(Box<str>);

impl Text for UserName {
    const FORMAT: &'static str = "user-name";
    const PATTERN: &'static str = "^[!-~]{1,128}$";

    fn read(text: &str) -> Result<UserName, Right> {
        if (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(UserName(text.into()))
        } else {
            Err("write 1 to 128 ASCII characters without spaces, such as `ci` or `ann@example.com`"
                .into())
        }
    }
}

/// A few words for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Label(Box<str>);

impl Text for Label {
    const FORMAT: &'static str = "label";
    const PATTERN: &'static str = r"^[^\x00-\x1f\x7f-\x9f]{1,128}$";

    fn read(text: &str) -> Result<Label, Right> {
        let is_short = (1..=LONGEST).contains(&text.chars().take(LONGEST + 1).count());
        if is_short && !text.chars().any(char::is_control) {
            Ok(Label(text.into()))
        } else {
            Err("write 1 to 128 characters on one line".into())
        }
    }
}

own_text!(UserName, Label);
