//! `/v1/tenants` and `/v1/plans`: things that the file may declare too.
//!
//! Both are handled by the same code. A change is checked by compiling the whole policy with it: what is accepted here is what
//! a fresh start would accept.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_core::Time;
use tollgate_policy::compile::Made;
use tollgate_policy::shapes::File;
use tollgate_storage::{Change, Expect, Object, ObjectKind};

use super::Actor;
use crate::answer::{Answer, Asked, Id, PageAsked, PageTold, Text, json, with_etag};
use crate::control::{Control, made, told};
use crate::data_plane::Notice;
use crate::fault::Fault;
use crate::idempotency::{Idempotency, Told};
use crate::if_match::{IfMatch, must_match};
use crate::times::Moment;

/// Something that the file may declare and the API may make.
pub(crate) trait Declared:
    Clone + JsonSchema + Serialize + DeserializeOwned + Send + Sync + 'static
{
    const KIND: ObjectKind;
    /// Where the API has them.
    const PATH: &'static str;

    fn id(&self) -> &str;
    /// The file's.
    fn of_file(file: &File) -> Vec<Self>;
    /// Puts it into what the API made, in the place of what has its id.
    fn put(self, made: &mut Made);
    /// Takes it out.
    fn take(made: &mut Made, id: &str);
    /// What would be left without it.
    fn dependents(file: &File, made: &Made, id: &str) -> Vec<String>;
}

/// A tenant or a plan as answers tell it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Told")]
pub(crate) struct ObjectTold<T> {
    #[serde(flatten)]
    pub(crate) shape: T,
    /// `file`, where it is read-only here, or `api`.
    pub(crate) declared_in: String,
    /// When it last changed; nothing if the file declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<Moment>,
    /// What deserves a look since this change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) warnings: Vec<Notice>,
}

impl<T: Declared> ObjectTold<T> {
    fn of_file(shape: T) -> ObjectTold<T> {
        ObjectTold { shape, declared_in: "file".to_owned(), updated_at: None, warnings: vec![] }
    }

    fn made(shape: T, at: Time) -> ObjectTold<T> {
        let updated_at = Some(Moment(at));
        ObjectTold { shape, declared_in: "api".to_owned(), updated_at, warnings: vec![] }
    }

    fn stored(object: &Object) -> Result<ObjectTold<T>, Fault> {
        Ok(ObjectTold::made(object.read()?, object.updated_at))
    }
}

pub(super) fn routes<T: Declared>(path: &str) -> Router<Arc<Control>> {
    let one = get(read::<T>).put(replace::<T>).delete(remove::<T>);
    Router::new()
        .route(path, get(list::<T>).post(create::<T>))
        .route(&format!("{path}/{{id}}"), one)
}

fn named<T: Declared>(id: &str) -> String {
    format!("{} {id}", T::KIND.name())
}

fn is_in_file<T: Declared>(file: &File, id: &str) -> bool {
    T::of_file(file).iter().any(|one| one.id() == id)
}

/// The cursor is the last id of a page.
async fn list<T: Declared>(
    State(control): State<Arc<Control>>,
    Asked(page): Asked<PageAsked>,
) -> Answer {
    let rows = page.rows()?;
    let file = control.declared().await?;
    let mut all: Vec<ObjectTold<T>> =
        T::of_file(&file).into_iter().map(ObjectTold::of_file).collect();
    for object in control.store.objects(T::KIND).await? {
        all.push(ObjectTold::stored(&object)?);
    }
    all.sort_by(|one, other| one.shape.id().cmp(other.shape.id()));
    let after = page.cursor.as_deref().unwrap_or_default();
    let mut items: Vec<ObjectTold<T>> =
        all.into_iter().filter(|one| one.shape.id() > after).take(rows + 1).collect();
    let has_more = items.len() > rows;
    items.truncate(rows);
    let next = items.last().filter(|_| has_more).map(|one| one.shape.id().to_owned());
    Ok(json(StatusCode::OK, &PageTold { items, next }))
}

async fn read<T: Declared>(State(control): State<Arc<Control>>, Id(id): Id) -> Answer {
    let file = control.declared().await?;
    if let Some(shape) = T::of_file(&file).into_iter().find(|one| one.id() == id) {
        return Ok(json(StatusCode::OK, &ObjectTold::of_file(shape)));
    }
    let object = control.store.object(T::KIND, &id).await?;
    Ok(with_etag(json(StatusCode::OK, &ObjectTold::<T>::stored(&object)?), object.version))
}

async fn create<T: Declared>(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    headers: HeaderMap,
    body: Text,
) -> Answer {
    let asked: T = body.read()?;
    let idempotency = Idempotency::of(&headers, &format!("POST {}", T::PATH), &body.0)?;
    idempotency.once(&control, make(&control, &actor, (asked, &idempotency))).await
}

async fn make<T: Declared>(
    control: &Control,
    actor: &str,
    (asked, idempotency): (T, &Idempotency),
) -> Answer {
    let turn = control.turn().await;
    let (file, mut made) = (control.declared().await?, made(&control.store).await?);
    if is_in_file::<T>(&file, asked.id()) {
        return Err(Fault::read_only(&named::<T>(asked.id())));
    }
    if control.store.object(T::KIND, asked.id()).await.is_ok() {
        let detail = format!("There is a {} already.", named::<T>(asked.id()));
        return Err(Fault::conflict(detail));
    }
    asked.clone().put(&mut made);
    let ready = control.prepare(made).await?;
    let now = control.now();
    let mut changes = changes_of(control, (actor, "create", now), (None, &asked), Expect::Absent)?;
    let warnings = control.new_warnings(&ready);
    let shown = ObjectTold { warnings, ..ObjectTold::made(asked, now) };
    let location = format!("{}/{}", T::PATH, shown.shape.id());
    let told = Told::made(location, turn.next_version(), &shown);
    idempotency.remember(&mut changes, &told, now);
    control.commit(turn, changes, ready).await?;
    Ok(told.response())
}

async fn replace<T: Declared>(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (Id(id), headers): (Id, HeaderMap),
    body: Text,
) -> Answer {
    let asked: T = body.read()?;
    let expected = IfMatch::of(&headers)?;
    let turn = control.turn().await;
    if is_in_file::<T>(&*control.declared().await?, &id) {
        return Err(Fault::read_only(&named::<T>(&id)));
    }
    let old = control.store.object(T::KIND, &id).await?;
    let expected = expected.ok_or_else(must_match)?;
    if asked.id() != id {
        let message = format!("the body is of `{}` and the address of `{id}`", asked.id());
        return Err(Fault::invalid(message, "a name cannot be changed: create another"));
    }
    let expect = found(&old, &expected)?;
    let mut made = made(&control.store).await?;
    asked.clone().put(&mut made);
    let ready = control.prepare(made).await?;
    let before = Some(old.read::<Value>()?);
    let now = control.now();
    let changes = changes_of(&control, (&actor, "replace", now), (before, &asked), expect)?;
    let warnings = control.new_warnings(&ready);
    let committed = control.commit(turn, changes, ready).await?;
    let shown = ObjectTold { warnings, ..ObjectTold::made(asked, now) };
    Ok(versioned(json(StatusCode::OK, &shown), &committed))
}

async fn remove<T: Declared>(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    (Id(id), headers): (Id, HeaderMap),
) -> Answer {
    let expected = IfMatch::of(&headers)?.unwrap_or(IfMatch::Whatever);
    let turn = control.turn().await;
    let file = control.declared().await?;
    if is_in_file::<T>(&file, &id) {
        return Err(Fault::read_only(&named::<T>(&id)));
    }
    let old = control.store.object(T::KIND, &id).await?;
    let expect = found(&old, &expected)?;
    let mut made = made(&control.store).await?;
    let dependents = T::dependents(&file, &made, &id);
    if !dependents.is_empty() {
        let what = named::<T>(&id);
        let detail =
            format!("{what} is still used by {}: change them first.", dependents.join(", "));
        return Err(Fault::conflict(detail).member("dependents", dependents));
    }
    T::take(&mut made, &id);
    let ready = control.prepare(made).await?;
    let audit = control.audit(&actor, &format!("{}.delete", T::KIND.name()), &named::<T>(&id));
    let audit = told(audit, Some(old.read::<Value>()?), None);
    let remove = Change::Remove { kind: T::KIND, id, expect, at: control.now() };
    control.commit(turn, vec![remove, audit], ready).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What the storage is to find, if what is there now is what was expected.
fn found(old: &Object, expected: &IfMatch) -> Result<Expect, Fault> {
    expected.check(&old.version.to_string())?;
    Ok(match expected {
        IfMatch::Whatever => Expect::Present,
        IfMatch::Tags(_) => Expect::Version(old.version),
    })
}

fn changes_of<T: Declared>(
    control: &Control,
    (actor, done, at): (&str, &str, Time),
    (before, after): (Option<Value>, &T),
    expect: Expect,
) -> Result<Vec<Change>, Fault> {
    let written = serde_json::to_value(after).map_err(|why| Fault::bad_request(why.to_string()))?;
    let (kind, id) = (T::KIND, after.id().to_owned());
    let action = format!("{}.{done}", kind.name());
    let audit = control.audit(actor, &action, &named::<T>(&id));
    let put = Change::Put { kind, id, body: written.to_string(), expect, at };
    Ok(vec![put, told(audit, before, Some(written))])
}

fn versioned(response: Response, committed: &tollgate_storage::Committed) -> Response {
    match committed.versions.first() {
        Some(version) => with_etag(response, version),
        None => response,
    }
}
