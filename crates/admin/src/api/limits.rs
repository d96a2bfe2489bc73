//! `/v1/limits`: live counters, and making one new again.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_policy::compile::{KeyInForce, Policy};
use tollgate_storage::{StoreError, StoredKey};

use super::Actor;
use crate::answer::{Answer, Asked, Text, json};
use crate::control::Control;
use crate::fault::Fault;
use crate::idempotency::{Idempotency, Told};
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
    headers: HeaderMap,
    body: Text,
) -> Answer {
    let asked: ResetAsked = body.read()?;
    let idempotency = Idempotency::of(&headers, "POST /v1/limits/reset", &body.0)?;
    // In a turn, so that of the same request twice one is done, and the other finds its answer.
    let reset = |control: Arc<Control>| async move {
        if let Some(earlier) = idempotency.replay(&control).await? {
            return Ok(earlier);
        }
        renew(&control, &actor, asked).await?;
        Ok(idempotency.done(&control, Told::nothing()).await)
    };
    control.in_turn(reset).await
}

/// Makes a counter new again.
async fn renew(control: &Control, actor: &str, asked: ResetAsked) -> Result<(), Fault> {
    let ip = asked.ip.as_deref().map(address).transpose()?;
    let ResetAsked { tenant, user, key, plan, route, counter, .. } = asked;
    let whose = found(control, Whose { tenant, user, key, plan, route, ip, own: None }).await?;
    let audit = control.audit(actor, "limit.reset", &format!("counter {counter}"));
    let (question, name) = (whose.clone(), counter.clone());
    let is_there = control.ask(move |plane| {
        plane.limits(&question).map(|all| all.iter().any(|one| one.counter == name))
    });
    if !is_there.await?? {
        let what = format!("counter `{counter}` among the limits of such a request");
        return Err(Fault::not_found(&what));
    }
    control.store.commit(vec![audit]).await?;
    let failed = format!("`{counter}` could not be made new: whoever keeps it does not answer.");
    match control.ask(move |plane| plane.reset(&whose, &counter)).await?? {
        true => Ok(()),
        false => Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, failed)),
    }
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    text.parse().map_err(|_| Fault::bad_request("`ip` is an address, such as `203.0.113.7`."))
}

/// The question with what its key tells: of a key its user, plan and limit, of a user the plan and limit of its only key. What
/// else the file says of a key the data plane knows.
async fn found(control: &Control, mut whose: Whose) -> Result<Whose, Fault> {
    if let Some(id) = whose.key.clone() {
        let Some(key) = stored_key(control, &whose.tenant, &id).await? else {
            whose.user = whose.user.or_else(|| user_of(control, &whose.tenant, &id));
            return Ok(whose);
        };
        whose.key = Some(key.origin.to_string());
        let newest = newest(control, &key).await?;
        whose.own = own_terms(&newest);
        whose.user = whose.user.or_else(|| key.user.map(|user| user.to_string()));
        whose.plan = whose.plan.or_else(|| newest.terms.plan.map(|plan| plan.to_string()));
        return Ok(whose);
    }
    let (Some(user), None) = (&whose.user, &whose.plan) else { return Ok(whose) };
    // What is no name holds no keys.
    let (Ok(tenant), Ok(user)) = (whose.tenant.parse(), user.parse()) else { return Ok(whose) };
    let keys = control.store.keys_of(tenant, user, control.now()).await?;
    let Some(first) = keys.first() else { return Ok(whose) };
    // Keys of one line share their counters, by what its newest key says; others have each its own.
    if keys.iter().all(|key| key.origin == first.origin) {
        let newest = newest(control, first).await?;
        whose.own = own_terms(&newest);
        whose.plan = newest.terms.plan.map(|plan| plan.to_string());
        return Ok(whose);
    }
    let mut plans = Vec::new();
    for key in &keys {
        plans.push(newest(control, key).await?.terms.plan);
    }
    plans.dedup();
    if let [plan] = &plans[..] {
        whose.plan = plan.as_ref().map(ToString::to_string);
    }
    Ok(whose)
}

/// The key whose terms count for a whole line of rotations; the key itself where its line is not whole, as requests go by.
async fn newest(control: &Control, key: &StoredKey) -> Result<StoredKey, Fault> {
    Ok(control.store.newest_of_line(key).await?.unwrap_or_else(|| key.clone()))
}

/// A tenant's key, if the storage has it; nothing if the file does, which the data plane knows.
async fn stored_key(control: &Control, tenant: &str, id: &str) -> Result<Option<StoredKey>, Fault> {
    let missing = || Fault::not_found(&format!("key {id} of tenant {tenant}"));
    if let Ok(id) = id.parse() {
        match control.store.key(id).await {
            Ok(key) if key.tenant.as_str() == tenant => return Ok(Some(key)),
            Ok(_) => return Err(missing()),
            Err(StoreError::NotFound { .. }) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let in_force = control.in_force();
    // Of a tenant that does not exist the data plane says which would be right.
    if in_force.policy().tenants().number(tenant).is_none() {
        return Ok(None);
    }
    declared_key(in_force.policy(), tenant, id).map(|_| None).ok_or_else(missing)
}

/// A tenant's key, if the file has it.
fn declared_key<'p>(policy: &'p Policy, tenant: &str, id: &str) -> Option<&'p KeyInForce> {
    let number = policy.tenants().number(tenant)?;
    policy.keys().iter().find(|key| key.id() == id && key.tenant() == number)
}

/// Who holds a key of the file: its requests are counted as that user's.
fn user_of(control: &Control, tenant: &str, id: &str) -> Option<String> {
    let in_force = control.in_force();
    let key = declared_key(in_force.policy(), tenant, id)?;
    key.user().map(str::to_owned)
}

fn own_terms(key: &StoredKey) -> Option<OwnTerms> {
    let rate_limit = key.terms.rate_limit.clone()?;
    Some(OwnTerms { id: key.id.to_string(), origin: key.origin.to_string(), rate_limit })
}
