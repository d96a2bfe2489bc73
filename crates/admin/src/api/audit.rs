//! `/v1/audit`: who changed what, newest first.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tollgate_core::Time;
use tollgate_storage::AuditEntry;

use crate::answer::{Answer, Asked, PageAsked, PageTold, json};
use crate::control::Control;
use crate::times::Moment;

/// A row of the audit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EntryTold {
    /// When.
    at: Moment,
    /// Who.
    actor: String,
    /// What was done: `key.issue`, `plan.replace`.
    action: String,
    /// To what: `key key_3f…`.
    subject: String,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// What it is since.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

impl From<AuditEntry> for EntryTold {
    fn from(entry: AuditEntry) -> EntryTold {
        let AuditEntry { at, actor, action, subject, before, after } = entry;
        EntryTold { at: Moment(Time::from_nanos(at)), actor, action, subject, before, after }
    }
}

pub(super) async fn list(
    State(control): State<Arc<Control>>,
    Asked(page): Asked<PageAsked>,
) -> Answer {
    let page = control.store.audit(page.page()?).await?;
    let items: Vec<EntryTold> = page.rows.into_iter().map(EntryTold::from).collect();
    let next = page.next.map(|cursor| cursor.to_string());
    Ok(json(StatusCode::OK, &PageTold { items, next }))
}
