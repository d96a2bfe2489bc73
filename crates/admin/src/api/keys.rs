//! `/v1/keys`: issue, change, rotate, revoke.
//!
//! A change is durable and in force before it is answered: the storage tells the snapshot that requests read before it
//! answers here.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use tollgate_core::Time;
use tollgate_policy::compile::Policy;
use tollgate_policy::shapes::{Plan, RateLimit};
use tollgate_policy::{ApiKey, KeyId, PlanName, TenantId};
use tollgate_storage::{Change, KeyDraft, KeyTerms, StoredKey};

use super::Actor;
use super::key_terms::{KeyChange, KeyPatch, KeyTold, NewKey, Rotation, check_expiry, version_of};
use crate::answer::{Answer, Id, Text, json as answer, with_etag};
use crate::control::{Control, made, told};
use crate::data_plane::{ConfigText, NotReady, Notice};
use crate::fault::{Fault, errors};
use crate::idempotency::{Idempotency, Told};
use crate::if_match::{IfMatch, must_match};

/// A key that may be changed here.
async fn find(control: &Control, id: &Id) -> Result<StoredKey, Fault> {
    if control.in_force().policy().keys().iter().any(|key| key.id() == id.0) {
        return Err(Fault::read_only(&format!("key {}", id.0)));
    }
    Ok(control.store.key(id.name("key")?).await?)
}

pub(super) async fn issue(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    headers: HeaderMap,
    body: Text,
) -> Answer {
    let asked: NewKey = body.read()?;
    let idempotency = Idempotency::of(&headers, "POST /v1/keys", &body.0)?;
    idempotency.once(&control, issued(&control, &actor, (asked, &idempotency))).await
}

async fn issued(
    control: &Control,
    actor: &str,
    (asked, idempotency): (NewKey, &Idempotency),
) -> Answer {
    let NewKey { tenant, user, terms } = asked;
    let _nothing_vanishes = control.steady().await;
    let now = control.now();
    check(control, Some(&tenant), &terms).await?;
    let needs = control.needs(Some(&tenant), terms.plan.as_ref()).await?;
    let draft = KeyDraft { tenant, user, terms: terms.terms() };
    let (key, stored) = draft.mint(now).map_err(|why| unminted(&why))?;
    let minted = Minted::new(key, &stored, now);
    let audit = control.audit(actor, "key.issue", &subject(&stored.id));
    let mut changes = vec![told(audit, None, Some(stored.for_audit()))];
    changes.extend(needs);
    changes.push(Change::IssueKey(Box::new(stored)));
    minted.store(control, changes, idempotency).await
}

pub(super) async fn rotate(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (id, headers): (Id, HeaderMap),
    body: Text,
) -> Answer {
    let rotation: Rotation = body.read()?;
    let what = format!("POST /v1/keys/{}/rotate", id.0);
    let idempotency = Idempotency::of(&headers, &what, &body.0)?;
    let of_turn = idempotency.clone();
    let work = |control: Arc<Control>| async move {
        rotated(&control, (&actor, &id), (rotation, &of_turn)).await
    };
    idempotency.once(&control, control.in_turn(work)).await
}

/// To the end even if the caller hangs up: the next change is made from what this one leaves.
async fn rotated(
    control: &Control,
    (actor, id): (&str, &Id),
    (rotation, idempotency): (Rotation, &Idempotency),
) -> Answer {
    let (old, now) = (find(control, id).await?, control.now());
    if old.revoked_at.is_none() && old.replaced_by.is_none() && old.ends_at() <= now {
        return Err(Fault::conflict(format!("key {} has expired: issue a new one", old.id)));
    }
    let (key, successor) = old.mint_successor(now).map_err(|why| unminted(&why))?;
    let minted = Minted::new(key, &successor, now);
    let grace_until = rotation.until(now);
    let audit = control.audit(actor, "key.rotate", &subject(&old.id));
    let mut changes = vec![told(audit, Some(old.for_audit()), Some(successor.for_audit()))];
    changes.push(Change::RotateKey { id: old.id, successor: Box::new(successor), grace_until });
    minted.store(control, changes, idempotency).await
}

pub(super) async fn replace(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (id, headers): (Id, HeaderMap),
    body: Text,
) -> Answer {
    let asked: KeyChange = body.read()?;
    let expected = IfMatch::of(&headers)?.ok_or_else(must_match);
    update(&control, (actor, id), (asked.clone(), expected), |_| asked.terms()).await
}

pub(super) async fn change(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (id, headers): (Id, HeaderMap),
    body: Text,
) -> Answer {
    let asked: KeyPatch = body.read()?;
    let expected = Ok(IfMatch::of(&headers)?.unwrap_or(IfMatch::Whatever));
    update(&control, (actor, id), (asked.said(), expected), |old| asked.over(old)).await
}

/// Gives a key other terms, to the end even if the caller hangs up: the next change is made from what this one leaves.
async fn update(
    control: &Arc<Control>,
    (actor, id): (String, Id),
    (said, expected): (KeyChange, Result<IfMatch, Fault>),
    terms: impl FnOnce(KeyTerms) -> KeyTerms + Send + 'static,
) -> Answer {
    let work = |control: Arc<Control>| async move {
        updated(&control, (&actor, &id), (said, expected), terms).await
    };
    control.in_turn(work).await
}

/// Its quota is counted by who holds it and not by its plan, so what was used stays used.
async fn updated(
    control: &Control,
    (actor, id): (&str, &Id),
    (said, expected): (KeyChange, Result<IfMatch, Fault>),
    terms: impl FnOnce(KeyTerms) -> KeyTerms,
) -> Answer {
    let (old, now) = (find(control, id).await?, control.now());
    expected?.check(&version_of(&old))?;
    check(control, None, &said).await?;
    let mut new = old.clone();
    new.terms = terms(new.terms);
    if let Some(by) = &old.replaced_by
        && (&new.terms.plan, &new.terms.rate_limit) != (&old.terms.plan, &old.terms.rate_limit)
    {
        return Err(Fault::conflict(format!(
            "key {} was replaced by {by}, whose plan and limit count for both: change that one",
            old.id
        )));
    }
    // What a key that had ended goes by may be gone, and is needed again if it works again. One that was replaced goes by its line's plan.
    let line = control.store.newest_of_line(&new).await?;
    let (tenant, plan) = match new.ends_at() > now {
        true => (Some(&new.tenant), line.as_ref().unwrap_or(&new).terms.plan.as_ref()),
        false => (None, said.plan.as_ref()),
    };
    check_names(control.in_force().policy(), tenant, plan)?;
    let needs = control.needs(tenant, plan).await?;
    let audit = control.audit(actor, "key.change", &subject(&old.id));
    let audit = told(audit, Some(old.for_audit()), Some(new.for_audit()));
    let update = Change::UpdateKey { id: old.id, terms: Box::new(new.terms.clone()) };
    control.store.commit([needs, vec![audit, update]].concat()).await?;
    Ok(with_etag(answer(StatusCode::OK, &KeyTold::of(&new, now)), version_of(&new)))
}

pub(super) async fn revoke(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (id, headers): (Id, HeaderMap),
) -> Answer {
    let expected = IfMatch::of(&headers)?.unwrap_or(IfMatch::Whatever);
    let _nothing_vanishes = control.steady().await;
    let (key, now) = (find(&control, &id).await?, control.now());
    expected.check(&version_of(&key))?;
    let audit = control.audit(&actor, "key.revoke", &subject(&key.id));
    let audit = told(audit, Some(key.for_audit()), None);
    control.store.commit(vec![audit, Change::RevokeKey { id: key.id, at: now }]).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn subject(id: &KeyId) -> String {
    format!("key {id}")
}

fn unminted(why: &tollgate_storage::MintError) -> Fault {
    NotReady::Failed(why.to_string()).into()
}

/// What a key is to be must be possible.
async fn check(
    control: &Control,
    tenant: Option<&TenantId>,
    asked: &KeyChange,
) -> Result<(), Fault> {
    check_expiry(asked.expires_at, control.now())?;
    check_names(control.in_force().policy(), tenant, asked.plan.as_ref())?;
    check_limit(control, asked.rate_limit.as_ref()).await
}

/// A key names a tenant and a plan that exist.
fn check_names(
    policy: &Policy,
    tenant: Option<&TenantId>,
    plan: Option<&PlanName>,
) -> Result<(), Fault> {
    if let Some(tenant) = tenant.filter(|id| policy.tenants().number(id.as_str()).is_none()) {
        let message = format!("there is no tenant `{tenant}`");
        return Err(Fault::invalid(
            message,
            "name one that GET /v1/tenants lists, or create it first",
        ));
    }
    if let Some(plan) = plan.filter(|name| policy.plan(name.as_str()).is_none()) {
        let message = format!("there is no plan `{plan}`");
        return Err(Fault::invalid(
            message,
            "name one that GET /v1/plans lists, or create it first",
        ));
    }
    Ok(())
}

/// The plan that a key's own limit is checked as.
const STAND_IN: &str = "rate_limit.of.the.key";

/// A key's own limit is right if a plan's would be: it is compiled as one, and forgotten.
async fn check_limit(control: &Control, limit: Option<&RateLimit>) -> Result<(), Fault> {
    let Some(limit) = limit else { return Ok(()) };
    let name: PlanName = STAND_IN
        .parse()
        .map_err(|why: tollgate_policy::TextError| Fault::bad_request(why.to_string()))?;
    let plan = Plan { rate_limit: Some(limit.clone()), ..Plan::default() };
    let mut made = made(&control.store).await?;
    made.plans = made.plans.into_iter().chain([(name, plan)]).collect();
    let ready = control.ask(move |plane| plane.prepare(ConfigText::InForce, made)).await?;
    match ready {
        // Nobody has made such a plan, and nobody is told of it.
        Err(NotReady::Faults(faults)) if faults.budgets.is_empty() => {
            let said = |text: String| {
                let text = text.replace(&format!("plan `{STAND_IN}` of the API: "), "");
                text.replace(&format!("plan:{STAND_IN}"), "the key's own `rate_limit`")
            };
            let notices = errors(&faults.diagnostics).into_iter();
            let notices = notices.map(|one| Notice { message: said(one.message), ..one });
            Err(Fault::faulty(&faults.diagnostics, &notices.collect::<Vec<_>>()))
        }
        other => other.map(drop).map_err(Fault::of_change),
    }
}

/// A key that is to be issued.
struct Minted {
    key: ApiKey,
    /// What is answered, without the key: that is what may be remembered.
    told: Told,
    at: Time,
}

impl Minted {
    fn new(key: ApiKey, stored: &StoredKey, at: Time) -> Minted {
        let location = format!("/v1/keys/{}", stored.id);
        let told = Told::made(location, Some(version_of(stored)), &KeyTold::of(stored, at));
        Minted { key, told, at }
    }

    /// Makes the changes that issue it, and tells it once: whoever asks again is answered the same without it.
    async fn store(
        self,
        control: &Control,
        mut changes: Vec<Change>,
        idempotency: &Idempotency,
    ) -> Answer {
        idempotency.remember(&mut changes, &self.told, self.at);
        control.store.commit(changes).await?;
        Ok(self.told.with_secret("key", self.key.as_str()).response())
    }
}
