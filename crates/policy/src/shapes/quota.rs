//! Quotas: the balance of a billing period.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_FIGURE, words};
use crate::text::ZoneName;

/// A balance for each calendar period.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// How much a period.
    #[schemars(range(min = 1, max = MAX_FIGURE))]
    pub limit: u64,
    /// The period.
    pub window: QuotaWindow,
    /// Where its days begin.
    #[serde(default)]
    pub time_zone: ZoneName,
    /// Whose balance it is.
    #[serde(default)]
    pub scope: QuotaScope,
    /// What is counted.
    #[serde(default)]
    pub unit: QuotaUnit,
}

words! {
    /// A calendar period.
    QuotaWindow {
        /// A day.
        Day,
        /// A week, from Monday.
        Week,
        /// A month.
        #[default]
        Month,
        /// A year.
        Year,
    }

    /// Whose balance a quota is.
    QuotaScope {
        /// A user's inside a tenant.
        #[default]
        User,
        /// A tenant's.
        Tenant,
    }

    /// What a quota counts.
    QuotaUnit {
        /// Requests.
        #[default]
        Requests,
        /// Their costs.
        Tokens,
    }
}

/// One, or a list of them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// All of them.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

impl<T> Default for OneOrMany<T> {
    fn default() -> OneOrMany<T> {
        OneOrMany::Many(Vec::new())
    }
}
