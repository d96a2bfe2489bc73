//! Keys that the file declares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RateLimit;
use crate::text::{Instant, KeyId, Label, PlanName, Sha256, TenantId, UserName};

/// An API key, of which the file knows only the SHA-256.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// What the API calls it; made of its SHA-256 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<KeyId>,
    /// Whose it is.
    pub tenant: TenantId,
    /// Who holds it. A key that names no user is counted on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserName>,
    /// Its plan; its tenant's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// When it ends; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// The SHA-256 of the whole key.
    pub sha256: Sha256,
    /// Its own limit, instead of its plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}
