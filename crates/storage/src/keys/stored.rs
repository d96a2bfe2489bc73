//! What is stored of an API key. The key itself never is.

use std::fmt;

use serde_json::{Value, json};
use tollgate_core::Time;
use tollgate_policy::shapes::RateLimit;
use tollgate_policy::{ApiKey, KeyId, Label, PlanName, Sha256, TenantId, UserName, fill_base62};

/// Of a key's id, what follows `key_`: 95 bits, so that no two ever meet.
const ID_DIGITS: usize = 16;

/// A key to be issued.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyDraft {
    /// Whose it is.
    pub tenant: TenantId,
    /// Who holds it.
    pub user: Option<UserName>,
    /// What may change later.
    pub terms: KeyTerms,
}

/// What may change of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyTerms {
    /// Its plan; its tenant's if none.
    pub plan: Option<PlanName>,
    /// What people call it.
    pub name: Option<Label>,
    /// When it ends; never if none.
    pub expires_at: Option<Time>,
    /// Its own limit, instead of its plan's.
    pub rate_limit: Option<RateLimit>,
}

/// What is stored of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredKey {
    /// What the API calls it.
    pub id: KeyId,
    /// The first key of which this is a successor by rotation; its own id if none. Whoever is counted per key is
    /// counted by this, so a rotation renews no quota.
    pub origin: KeyId,
    /// The digest of the whole key.
    pub sha256: Sha256,
    /// The key's first characters, for people.
    pub display_prefix: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// Who holds it.
    pub user: Option<UserName>,
    /// What may change.
    pub terms: KeyTerms,
    /// When it was issued.
    pub created_at: Time,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// What replaced it.
    pub replaced_by: Option<KeyId>,
    /// Until when it still works although it was replaced.
    pub grace_until: Option<Time>,
}

/// The system gave no random bytes.
#[derive(Debug)]
pub struct MintError(getrandom::Error);

impl fmt::Display for MintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no key can be made without random bytes from the system: {}", self.0)
    }
}

impl std::error::Error for MintError {}

impl KeyDraft {
    /// A new key, and what to store of it.
    ///
    /// # Errors
    ///
    /// If the system gives no random bytes.
    pub fn mint(self, now: Time) -> Result<(ApiKey, StoredKey), MintError> {
        self.mint_from(now, getrandom::fill).map_err(MintError)
    }

    /// As [`mint`](KeyDraft::mint), of what `fill` fills bytes with.
    ///
    /// # Errors
    ///
    /// What `fill` fails with.
    pub fn mint_from<E>(
        self,
        now: Time,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(ApiKey, StoredKey), E> {
        let key = ApiKey::mint(&mut fill)?;
        let id = new_id(&mut fill)?;
        let stored = StoredKey {
            origin: id.clone(),
            id,
            sha256: key.sha256(),
            display_prefix: key.display_prefix().to_owned(),
            tenant: self.tenant,
            user: self.user,
            terms: self.terms,
            created_at: now,
            revoked_at: None,
            replaced_by: None,
            grace_until: None,
        };
        Ok((key, stored))
    }
}

fn new_id<E>(fill: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<KeyId, E> {
    let mut id = *b"key_0000000000000000";
    let at = id.len() - ID_DIGITS;
    fill_base62(&mut id[at..], fill)?;
    let text = std::str::from_utf8(&id).expect("base 62 is ASCII");
    Ok(text.parse().expect("letters, digits and _ make an id"))
}

impl StoredKey {
    /// A key that is to take this one's place, and what to store of it.
    ///
    /// # Errors
    ///
    /// If the system gives no random bytes.
    pub fn mint_successor(&self, now: Time) -> Result<(ApiKey, StoredKey), MintError> {
        let draft = KeyDraft {
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            terms: self.terms.clone(),
        };
        let (key, mut stored) = draft.mint(now)?;
        stored.origin = self.origin.clone();
        Ok((key, stored))
    }

    /// The moment from which on it does not work; [`Time::EPOCH`] if it is revoked.
    pub fn ends_at(&self) -> Time {
        if self.revoked_at.is_some() {
            return Time::EPOCH;
        }
        let ends = [self.terms.expires_at, self.grace_until];
        ends.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// What an audit row may say of it: nothing by which a key could be found.
    pub fn for_audit(&self) -> Value {
        json!({
            "id": self.id,
            "display_prefix": self.display_prefix,
            "tenant": self.tenant,
            "user": self.user,
            "plan": self.terms.plan,
            "name": self.terms.name,
            "rate_limit": self.terms.rate_limit,
            "expires_at": self.terms.expires_at.map(Time::as_nanos),
            "revoked_at": self.revoked_at.map(Time::as_nanos),
            "replaced_by": self.replaced_by,
            "grace_until": self.grace_until.map(Time::as_nanos),
        })
    }
}
