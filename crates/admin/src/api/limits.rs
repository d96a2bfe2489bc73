//! `/v1/limits`: live counters, and making one new again.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_policy::TenantId;
use tollgate_storage::{PageOf, StoredKey};

use super::Actor;
use crate::answer::{Answer, Asked, Text, json};
use crate::control::Control;
use crate::fault::Fault;
use crate::live::{LiveLimit, OwnTerms, Whose};

/// Whose counters, as a query says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsAsked {
    tenant: Option<String>,
    user: Option<String>,
    key: Option<String>,
    plan: Option<String>,
    route: Option<String>,
    ip: Option<String>,
}

/// Which counter to make new again.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetAsked {
    /// Whose counter: the same as `GET /v1/limits` was asked with.
    tenant: String,
    /// The user.
    #[serde(default)]
    user: Option<String>,
    /// The id of a key.
    #[serde(default)]
    key: Option<String>,
    /// The plan.
    #[serde(default)]
    plan: Option<String>,
    /// Method and path: `POST /v1/x`.
    #[serde(default)]
    route: Option<String>,
    /// The caller's address.
    #[serde(default)]
    ip: Option<String>,
    /// The counter's name, as `GET /v1/limits` told it.
    counter: String,
}

/// Live counters, as an answer tells them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitsTold {
    /// Whose they are, with what was found out beside the question.
    whose: Whose,
    /// Every limit that such a request meets, in the order of its chain.
    items: Vec<LiveLimit>,
}

pub(super) async fn read(
    State(control): State<Arc<Control>>,
    Asked(asked): Asked<LimitsAsked>,
) -> Answer {
    let Some(tenant) = asked.tenant else {
        return Err(Fault::bad_request(
            "Say whose limits: `?tenant=` and perhaps `user=`, `route=`.",
        ));
    };
    let ip = asked.ip.as_deref().map(address).transpose()?;
    let LimitsAsked { user, key, plan, route, .. } = asked;
    let whose = found(&control, Whose { tenant, user, key, plan, route, ip, own: None }).await?;
    let question = whose.clone();
    let items = control.ask(move |plane| plane.limits(&question)).await??;
    Ok(json(StatusCode::OK, &LimitsTold { whose, items }))
}

pub(super) async fn reset(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    body: Text,
) -> Answer {
    let asked: ResetAsked = body.read()?;
    let ip = asked.ip.as_deref().map(address).transpose()?;
    let ResetAsked { tenant, user, key, plan, route, counter, .. } = asked;
    let whose = found(&control, Whose { tenant, user, key, plan, route, ip, own: None }).await?;
    let audit = control.audit(&actor, "limit.reset", &format!("counter {counter}"));
    let missing =
        Fault::not_found(&format!("counter `{counter}` among the limits of such a request"));
    let (question, name) = (whose.clone(), counter.clone());
    let is_there = control.ask(move |plane| {
        plane.limits(&question).map(|all| all.iter().any(|one| one.counter == name))
    });
    if !is_there.await?? {
        return Err(missing);
    }
    control.store.commit(vec![audit]).await?;
    match control.ask(move |plane| plane.reset(&whose, &counter)).await?? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(missing),
    }
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    text.parse().map_err(|_| Fault::bad_request("`ip` is an address, such as `203.0.113.7`."))
}

/// The question with what a stored key tells: of a key its user, plan and limit, of a user the plan and limit of its only key.
async fn found(control: &Control, mut whose: Whose) -> Result<Whose, Fault> {
    if let Some(id) = &whose.key {
        // A key of the file is not stored; the data plane knows it.
        if let Ok(id) = id.parse()
            && let Ok(key) = control.store.key(id).await
        {
            if key.tenant.as_str() != whose.tenant {
                return Err(Fault::not_found(&format!(
                    "key {} of tenant {}",
                    key.id, whose.tenant
                )));
            }
            whose.key = Some(key.origin.to_string());
            whose.own = own_terms(&key);
            whose.user = whose.user.or_else(|| key.user.map(|user| user.to_string()));
            whose.plan = whose.plan.or_else(|| key.terms.plan.map(|plan| plan.to_string()));
        }
        return Ok(whose);
    }
    let (Some(user), None) = (&whose.user, &whose.plan) else { return Ok(whose) };
    let Ok(tenant) = whose.tenant.parse::<TenantId>() else { return Ok(whose) };
    let page = PageOf { after: None, limit: PageOf::MOST };
    let page = control.store.keys(Some(tenant), page).await?;
    let now = control.now();
    let is_users = |key: &&StoredKey| {
        key.ends_at() > now && key.user.as_ref().is_some_and(|one| one.as_str() == user)
    };
    let mut keys = page.rows.iter().filter(is_users);
    if let Some(first) = keys.next()
        && let others = keys.collect::<Vec<_>>()
        && others.iter().all(|other| other.terms.plan == first.terms.plan)
    {
        whose.plan = first.terms.plan.as_ref().map(ToString::to_string);
        // Keys of one line share their counters; others have each its own.
        let is_one_line = others.iter().all(|other| other.origin == first.origin);
        whose.own = own_terms(first).filter(|_| is_one_line);
    }
    Ok(whose)
}

fn own_terms(key: &StoredKey) -> Option<OwnTerms> {
    let rate_limit = key.terms.rate_limit.clone()?;
    Some(OwnTerms { id: key.id.to_string(), origin: key.origin.to_string(), rate_limit })
}
