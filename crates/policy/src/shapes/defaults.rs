//! Limits of callers that nothing else limits.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Burst, RateLimit, Scope, Sustained, Terms, Window, section};

section! {
    /// Limits of callers that nothing else limits. The built-in ones are only for a caller for whom nothing is
    /// configured at all; those written here apply to every caller without a limit of that tier.
    #[derive(Default)]
    Defaults {
        /// The limit of a client without a limit of its own, by key or plan.
        #[serde(skip_serializing_if = "DefaultLimit::is_built_in")]
        #[schemars(extend("default" = Defaults::built_in_client()))]
        pub client: DefaultLimit,
        /// The limit of a tenant without one, by itself or from above.
        #[serde(skip_serializing_if = "DefaultLimit::is_built_in")]
        #[schemars(extend("default" = Defaults::built_in_tenant()))]
        pub tenant: DefaultLimit,
    }
}

impl Defaults {
    /// The built-in limit of a client.
    pub fn built_in_client() -> RateLimit {
        limit(50, 100, Scope::User)
    }

    /// The built-in limit of a tenant.
    pub fn built_in_tenant() -> RateLimit {
        limit(500, 1000, Scope::Tenant)
    }
}

fn limit(rate: u64, capacity: u64, scope: Scope) -> RateLimit {
    RateLimit {
        sustained: Sustained { rate, window: Window::Second },
        cost: 1,
        terms: Terms { burst: Some(Burst { capacity }), scope, ..Terms::default() },
    }
}

/// A limit that is built in, and that a file may replace or switch off.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DefaultLimit {
    /// The file does not mention it.
    #[default]
    BuiltIn,
    /// The file says `null`: there is none.
    Off,
    /// The file gives another.
    Given(Box<RateLimit>),
}

impl DefaultLimit {
    /// Whether the file does not mention it.
    pub fn is_built_in(&self) -> bool {
        *self == DefaultLimit::BuiltIn
    }
}

impl<'de> Deserialize<'de> for DefaultLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DefaultLimit, D::Error> {
        Ok(match Option::deserialize(deserializer)? {
            Some(limit) => DefaultLimit::Given(limit),
            None => DefaultLimit::Off,
        })
    }
}

impl Serialize for DefaultLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            DefaultLimit::Given(limit) => limit.serialize(serializer),
            DefaultLimit::BuiltIn | DefaultLimit::Off => serializer.serialize_none(),
        }
    }
}

impl JsonSchema for DefaultLimit {
    fn schema_name() -> Cow<'static, str> {
        "DefaultLimit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A limit, or `null` to have none.",
            "anyOf": [generator.subschema_for::<RateLimit>(), { "const": null }],
        })
    }
}
