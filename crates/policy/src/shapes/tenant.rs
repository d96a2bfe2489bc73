//! Tenants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OneOrMany, Quota, TenantLimit};
use crate::text::{PlanName, TenantId};

/// A node of the tree of tenants.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its id; `system` is the root.
    pub id: TenantId,
    /// The tenant above it; `system` if left out. `system` itself has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TenantId>,
    /// The plan of its keys that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// Its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<TenantLimit>,
    /// The balance of a period, or several.
    #[serde(default)]
    pub quota: OneOrMany<Quota>,
}
