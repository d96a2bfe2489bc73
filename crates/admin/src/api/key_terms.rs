//! Keys as requests write them and answers tell them.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_core::Time;
use tollgate_policy::shapes::{Key, RateLimit};
use tollgate_policy::{Instant, Label, PlanName, Sha256, TenantId, UserName};
use tollgate_storage::{KeyTerms, StoredKey};

use crate::fault::Fault;
use crate::times::Moment;

/// The longest grace of a rotation: a year.
const MAX_GRACE: u64 = 31_536_000;

/// A key to be issued.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// Whose it is.
    pub(crate) tenant: TenantId,
    /// Who holds it. A key that names no user is counted on its own.
    #[serde(default)]
    pub(crate) user: Option<UserName>,
    /// What may change later.
    #[serde(flatten)]
    pub(crate) terms: KeyChange,
}

/// What may change of a key, all of it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyChange {
    /// Its plan; its tenant's if left out.
    #[serde(default)]
    pub(crate) plan: Option<PlanName>,
    /// What people call it.
    #[serde(default)]
    pub(crate) name: Option<Label>,
    /// When it ends; never if left out.
    #[serde(default)]
    pub(crate) expires_at: Option<Instant>,
    /// Its own limit, instead of its plan's.
    #[serde(default)]
    pub(crate) rate_limit: Option<RateLimit>,
}

/// What changes of a key. What is left out stays as it is, and what is `null` is gone.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyPatch {
    /// Its plan; its tenant's from now on if null.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "OrNull<PlanName>")]
    plan: Option<Option<PlanName>>,
    /// What people call it.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "OrNull<Label>")]
    name: Option<Option<Label>>,
    /// When it ends; never if null.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "OrNull<Instant>")]
    expires_at: Option<Option<Instant>>,
    /// Its own limit, instead of its plan's; its plan's again if null.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "OrNull<RateLimit>")]
    rate_limit: Option<Option<RateLimit>>,
}

/// How a schema says that something may be `null`: elsewhere it may only be left out.
struct OrNull<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OrNull<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrNull", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<T>(), { "const": null }] })
    }
}

/// Something that is there, even if it is `null`.
fn said<'de, T, D>(value: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(value).map(Some)
}

/// A key's replacement by another.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    /// How long the old key still works beside the new one; 0 ends it at once.
    #[schemars(range(min = 0, max = MAX_GRACE))]
    pub(crate) grace_seconds: u64,
}

impl Rotation {
    pub(crate) fn until(&self, now: Time) -> Time {
        let nanos = self.grace_seconds.saturating_mul(1_000_000_000);
        Time::from_nanos(now.as_nanos().saturating_add(nanos))
    }
}

impl KeyChange {
    /// All terms anew.
    pub(crate) fn terms(self) -> KeyTerms {
        KeyTerms {
            plan: self.plan,
            name: self.name,
            expires_at: self.expires_at.map(Instant::time),
            rate_limit: self.rate_limit,
        }
    }
}

impl KeyPatch {
    /// What it gives the key, to be checked.
    pub(crate) fn said(&self) -> KeyChange {
        KeyChange {
            plan: self.plan.clone().flatten(),
            name: self.name.clone().flatten(),
            expires_at: self.expires_at.flatten(),
            rate_limit: self.rate_limit.clone().flatten(),
        }
    }

    /// These terms where something is said, and the old ones elsewhere.
    pub(crate) fn over(self, old: KeyTerms) -> KeyTerms {
        let ends = |end: Option<Instant>| end.map(Instant::time);
        KeyTerms {
            plan: self.plan.unwrap_or(old.plan),
            name: self.name.unwrap_or(old.name),
            expires_at: self.expires_at.map_or(old.expires_at, ends),
            rate_limit: self.rate_limit.unwrap_or(old.rate_limit),
        }
    }
}

/// What tells a key from what it was before a change. It says nothing by which the key could be found.
pub(crate) fn version_of(key: &StoredKey) -> String {
    let digest = Sha256::of(key.for_audit().to_string().as_bytes()).to_string();
    format!("k{}", &digest[..32])
}

/// A key that has ended before it begins is a mistake.
pub(crate) fn check_expiry(expires_at: Option<Instant>, now: Time) -> Result<(), Fault> {
    match expires_at {
        Some(end) if end.time() <= now => Err(Fault::invalid(
            format!("`expires_at` {end} is past"),
            "write a moment that is to come, or DELETE the key to end it now",
        )),
        _ => Ok(()),
    }
}

/// A key as answers tell it; the key itself only in the answer to its issue.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct KeyTold {
    /// What the API calls it.
    pub(crate) id: String,
    /// The key itself. It is told once and kept nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// `api`, or `file`, where it is read-only here.
    pub(crate) declared_in: String,
    /// Its first characters, to know it by; absent of the file's, which has only a digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_prefix: Option<String>,
    /// Whether it works: `active`, `replaced` (works until `grace_until`), `expired` or `revoked`.
    pub(crate) state: String,
    /// Whose it is.
    pub(crate) tenant: String,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// Its plan; its tenant's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its own limit, instead of its plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateLimit>,
    /// When it was issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Moment>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Moment>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<Moment>,
    /// The first key of its line of rotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// What replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replaced_by: Option<String>,
    /// Until when it works although it was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grace_until: Option<Moment>,
}

impl KeyTold {
    pub(crate) fn of(key: &StoredKey, now: Time) -> KeyTold {
        let state = match key {
            StoredKey { revoked_at: Some(_), .. } => "revoked",
            key if key.ends_at() <= now => "expired",
            StoredKey { replaced_by: Some(_), .. } => "replaced",
            _ => "active",
        };
        KeyTold {
            id: key.id.to_string(),
            declared_in: "api".to_owned(),
            display_prefix: Some(key.display_prefix.clone()),
            state: state.to_owned(),
            tenant: key.tenant.to_string(),
            user: key.user.as_ref().map(ToString::to_string),
            plan: key.terms.plan.as_ref().map(ToString::to_string),
            name: key.terms.name.as_ref().map(ToString::to_string),
            rate_limit: key.terms.rate_limit.clone(),
            created_at: Some(Moment(key.created_at)),
            expires_at: key.terms.expires_at.map(Moment),
            revoked_at: key.revoked_at.map(Moment),
            origin: (key.origin != key.id).then(|| key.origin.to_string()),
            replaced_by: key.replaced_by.as_ref().map(ToString::to_string),
            grace_until: key.grace_until.map(Moment),
            ..KeyTold::default()
        }
    }

    /// A key that the file declares, under the id that it has in force.
    pub(crate) fn of_file(id: &str, key: &Key, now: Time) -> KeyTold {
        let expires_at = key.expires_at.map(Instant::time);
        let state = if expires_at.is_some_and(|end| end <= now) { "expired" } else { "active" };
        KeyTold {
            id: id.to_owned(),
            declared_in: "file".to_owned(),
            state: state.to_owned(),
            tenant: key.tenant.to_string(),
            user: key.user.as_ref().map(ToString::to_string),
            plan: key.plan.as_ref().map(ToString::to_string),
            name: key.name.as_ref().map(ToString::to_string),
            rate_limit: key.rate_limit.clone(),
            expires_at: expires_at.map(Moment),
            ..KeyTold::default()
        }
    }
}
