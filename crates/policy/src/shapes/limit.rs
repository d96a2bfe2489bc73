//! The `rate_limit` object, by where it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{MAX_FIGURE, MAX_RATE, Sustained, Terms, section, words};

/// A limit of a plan, an operation, a key, an upstream, or a default.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-misplaced" = {
    "sharing": "only a tenant's `rate_limit` has it",
    "budget": "only a tenant's `rate_limit` has it",
}, "x-help" = "only on a route may a `rate_limit` be a `cost` alone"))]
pub struct RateLimit {
    /// How fast, in the long run.
    pub sustained: Sustained,
    /// Tokens a request consumes from this limit where its route states no cost.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MAX_FIGURE), extend("x-help" = "only a route's cost may be 0"))]
    pub cost: u64,
    /// What it says besides.
    #[serde(flatten)]
    pub terms: Terms,
}

/// A tenant's limit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-help" = "only on a route may a `rate_limit` be a `cost` alone"))]
pub struct TenantLimit {
    /// What the tenants below see of this limit.
    #[serde(default)]
    pub sharing: Sharing,
    /// How fast, in the long run.
    pub sustained: Sustained,
    /// What this tenant and all below it may spend together.
    #[serde(default)]
    pub budget: Budget,
    /// Tokens a request consumes from this limit where its route states no cost.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MAX_FIGURE), extend("x-help" = "only a route's cost may be 0"))]
    pub cost: u64,
    /// What it says besides.
    #[serde(flatten)]
    pub terms: Terms,
}

/// A route's limit, or its cost alone.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "minProperties" = 1,
    "dependentRequired" = {
        "algorithm": ["sustained"],
        "burst": ["sustained"],
        "scope": ["sustained"],
        "strategy": ["sustained"],
        "response_headers": ["sustained"],
        "queue": ["sustained"],
        "degrade": ["sustained"],
        "consistency": ["sustained"],
    },
    "x-misplaced" = {
        "sharing": "only a tenant's `rate_limit` has it",
        "budget": "only a tenant's `rate_limit` has it",
    },
    "x-help" = "a route's `rate_limit` is a `cost` alone, or a limit with `sustained`"
))]
pub struct RouteLimit {
    /// How fast, in the long run. Without it the route has a cost and no limit of its own.
    #[serde(default)]
    pub sustained: Option<Sustained>,
    /// Tokens a request consumes from every limit it meets; if left out, each limit's own cost. 0 is free:
    /// neither limits nor quotas count it.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_FIGURE))]
    pub cost: Option<u64>,
    /// What it says besides; the defaults where it has no `sustained`.
    #[serde(flatten)]
    pub terms: Terms,
}

/// A cost alone is written alone: its terms mean nothing, and would be refused.
impl Serialize for RouteLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            sustained: Option<&'a Sustained>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cost: Option<u64>,
            #[serde(flatten)]
            terms: Option<&'a Terms>,
        }
        let sustained = self.sustained.as_ref();
        let terms = sustained.map(|_| &self.terms);
        Written { sustained, cost: self.cost, terms }.serialize(serializer)
    }
}

fn one() -> u64 {
    1
}

words! {
    /// What the tenants below see of a limit.
    Sharing {
        /// Nothing.
        #[default]
        Private,
        /// Its figures: each tenant below has them for itself, unless its own are lower.
        Inherit,
        /// Its figures, and all together are charged to this limit as well.
        Enforce,
    }

    /// How a budget is given to the tenants below.
    BudgetMode {
        /// There is none.
        #[default]
        Unlimited,
        /// Their rates must sum to at most the total, times the overcommit ratio.
        Allocated,
        /// First come, first served.
        Shared,
    }
}

section! {
    /// What a tenant and all below it may spend together.
    Budget {
        /// How it is given to the tenants below.
        pub mode: BudgetMode,
        /// Tokens a `sustained.window`; the sustained rate's if left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = MAX_RATE))]
        pub total: Option<u64>,
        /// How far the rates of the tenants below may exceed the total, mode `allocated`.
        #[schemars(range(min = 1.0, max = 2.0))]
        pub overcommit_ratio: f64,
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { mode: BudgetMode::Unlimited, total: None, overcommit_ratio: 1.0 }
    }
}
