//! The file as plain values: one type for each section, every field of it with its default.
//!
//! What is written here is the schema, and the schema is what the validator checks: a field's comment is its
//! description, its range its bounds. Where a field may stand only in some places, those places have a type of
//! their own: a tenant's limit ([`TenantLimit`]) may share and budget, a route's ([`RouteLimit`]) may be a cost
//! alone.

mod auth;
mod defaults;
mod file;
mod key;
mod limit;
mod named;
mod plan;
mod quota;
mod route;
mod server;
mod storage;
mod tenant;
mod terms;
mod upstream;

pub use auth::{Auth, AuthMode, Failures};
pub use defaults::{DefaultLimit, Defaults};
pub use file::File;
pub use key::Key;
pub use limit::{Budget, BudgetMode, RateLimit, RouteLimit, Sharing, TenantLimit};
pub use named::Named;
pub use plan::Plan;
pub use quota::{OneOrMany, Quota, QuotaScope, QuotaUnit, QuotaWindow};
pub use route::{Route, RouteAuth};
pub use server::{Auto, Caps, Server, Tls, Workers};
pub use storage::{
    Counters, Fallback, OnError, RateLimitSync, Redis, RedisMode, Storage, SyncBackend, Usage,
};
pub use tenant::Tenant;
pub use terms::{
    Algorithm, Burst, Consistency, Degrade, Queue, Scope, Strategy, Sustained, Terms, Window,
};
pub use upstream::{Backpressure, Upstream};

/// The largest figure of any field: the largest integer that every JSON reader keeps exact.
pub(crate) const MAX_FIGURE: u64 = 1 << 53;

/// The highest rate of any window: a billion a second, for a day.
pub(crate) const MAX_RATE: u64 = 1_000_000_000 * 86_400;

/// The longest time: a day.
pub(crate) const MAX_MS: u64 = 86_400_000;

/// Words of which one is written.
macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident { $($body:tt)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash,
            serde::Deserialize, serde::Serialize, schemars::JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($body)+ }
    )+};
}

/// A section that may be left out, as may each of its fields: the defaults are those of `Default`.
macro_rules! section {
    ($(#[$attribute:meta])+ $name:ident { $($body:tt)+ }) => {
        #[derive(
            Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
        )]
        #[serde(default, deny_unknown_fields)]
        $(#[$attribute])+
        pub struct $name { $($body)+ }
    };
}

use {section, words};
