//! Routes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RouteLimit;
use crate::text::{Host, Method, OperationName, RoutePath, UpstreamName};

/// Which requests go where, and what they cost.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Exact segments, `{param}`, a trailing `*`. The most specific route wins.
    pub path: RoutePath,
    /// The methods it is for; all if left out. Where no route of a path names HEAD, it goes with GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub methods: Option<Vec<Method>>,
    /// The hosts it is for; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub hosts: Option<Vec<Host>>,
    /// Where its requests go: the name of one of `upstreams`.
    pub upstream: UpstreamName,
    /// The kind of work, which a plan may limit on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationName>,
    /// `none` lets everybody in, without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<RouteAuth>,
    /// Its cost, and perhaps a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RouteLimit>,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteAuth {
    /// Everybody: no key is asked for.
    None,
}
