//! The API under `/v1`, one file a resource.

mod audit;
mod config;
mod declared;
mod key_lists;
mod key_terms;
mod keys;
mod limits;
mod plans;
mod refusals;
mod tenants;
mod usage;

pub(crate) use audit::EntryTold;
pub(crate) use config::InForceTold;
pub(crate) use declared::ObjectTold;
pub(crate) use key_terms::{KeyChange, KeyPatch, KeyTold, NewKey, Rotation};
pub(crate) use limits::{LimitsTold, ResetAsked};
pub(crate) use plans::PlanBody;
pub(crate) use usage::UsageTold;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::control::Control;

/// The largest body but for a configuration.
const MAX_BODY: usize = 256 * 1024;

/// Everything that changes or tells something, without its guard.
pub(crate) fn routes() -> Router<Arc<Control>> {
    let config = get(config::read).put(config::replace);
    Router::new()
        .route("/v1/keys", get(key_lists::list).post(keys::issue))
        .route(
            "/v1/keys/{id}",
            get(key_lists::read).put(keys::replace).patch(keys::change).delete(keys::revoke),
        )
        .route("/v1/keys/{id}/rotate", post(keys::rotate))
        .merge(declared::routes::<tollgate_policy::shapes::Tenant>("/v1/tenants"))
        .merge(declared::routes::<PlanBody>("/v1/plans"))
        .route("/v1/usage", get(usage::read))
        .route("/v1/limits", get(limits::read))
        .route("/v1/limits/reset", post(limits::reset))
        .route("/v1/audit", get(audit::list))
        .route("/v1/refusals/{id}", get(refusals::read))
        .route("/v1/config/reload", post(config::reload))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .route("/v1/config", config.layer(DefaultBodyLimit::max(tollgate_policy::MAX_BYTES)))
}

/// Who asks, as the audit calls it.
#[derive(Clone, Debug)]
pub(crate) struct Actor(pub(crate) String);
