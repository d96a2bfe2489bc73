//! Lists of keys: the file's first, then the API's in the order of their issue.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tollgate_policy::shapes::Key;
use tollgate_policy::{Sha256, TenantId};
use tollgate_storage::PageOf;

use super::key_terms::{KeyTold, version_of};
use crate::answer::{Answer, Asked, Id, PageAsked, PageTold, json, with_etag};
use crate::control::Control;
use crate::fault::Fault;

/// Which keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeysAsked {
    tenant: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

/// Where a cursor into the file's keys begins; others are the storage's.
const OF_FILE: char = 'f';

pub(super) async fn list(
    State(control): State<Arc<Control>>,
    Asked(KeysAsked { tenant, cursor, limit }): Asked<KeysAsked>,
) -> Answer {
    let tenant: Option<TenantId> = match tenant.map(|id| id.parse()).transpose() {
        Ok(tenant) => tenant,
        // What is no name has no keys.
        Err(_) => {
            return Ok(json(StatusCode::OK, &PageTold::<KeyTold> { items: vec![], next: None }));
        }
    };
    let rows = PageAsked { cursor: None, limit }.rows()?;
    let mut items = Vec::new();
    let mut after = None;
    match cursor.as_deref().unwrap_or("f0").strip_prefix(OF_FILE) {
        Some(from) => {
            let from: usize = from.parse().map_err(|_| tollgate_storage::StoreError::BadCursor)?;
            let is_asked =
                |key: &KeyTold| tenant.as_ref().is_none_or(|id| id.as_str() == key.tenant);
            let of_file = of_file(&control).await?;
            items.extend(of_file.into_iter().filter(is_asked).skip(from).take(rows));
            if items.len() == rows {
                // Whether anything follows is the next page's to say.
                let next = Some(format!("{OF_FILE}{}", from.saturating_add(rows)));
                return Ok(json(StatusCode::OK, &PageTold { items, next }));
            }
        }
        None => after = cursor.as_deref().map(str::parse).transpose()?,
    }
    let page = PageOf { after, limit: rows - items.len() };
    let page = control.store.keys(tenant, page).await?;
    let now = control.now();
    items.extend(page.rows.iter().map(|key| KeyTold::of(key, now)));
    let next = page.next.map(|cursor| cursor.to_string());
    Ok(json(StatusCode::OK, &PageTold { items, next }))
}

pub(super) async fn read(State(control): State<Arc<Control>>, id: Id) -> Answer {
    if let Some(declared) = of_file(&control).await?.into_iter().find(|key| key.id == id.0) {
        return Ok(json(StatusCode::OK, &declared));
    }
    let key = control.store.key(id.name("key")?).await?;
    Ok(with_etag(json(StatusCode::OK, &KeyTold::of(&key, control.now())), version_of(&key)))
}

/// Every key that the file declares.
async fn of_file(control: &Control) -> Result<Vec<KeyTold>, Fault> {
    let (file, in_force, now) = (control.declared().await?, control.in_force(), control.now());
    // By digest and not by place: a reload may come between the two looks.
    let ids: HashMap<&Sha256, &str> =
        in_force.policy().keys().iter().map(|key| (key.sha256(), key.id())).collect();
    let told = |key: &Key| Some(KeyTold::of_file(ids.get(&key.sha256)?, key, now));
    Ok(file.keys.iter().filter_map(told).collect())
}
