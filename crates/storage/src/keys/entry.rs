//! A key as requests see it, in few bytes.

use std::sync::Arc;

use tollgate_core::Time;
use tollgate_policy::{PlanName, Sha256, TenantId};

use super::StoredKey;

/// A key as requests see it, with whatever a later layer attached to it.
///
/// Tenant and plan are shared by all keys that have them; the texts that are a key's own are one allocation.
#[derive(Debug)]
pub struct KeyEntry<T> {
    sha256: [u8; 32],
    ends_at: Time,
    membership: Arc<Membership>,
    /// Id, user and origin, one after another; origin is empty where it is the id.
    names: Box<str>,
    id_len: u8,
    user_len: u8,
    attached: T,
}

/// What many keys have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    pub(super) tenant: TenantId,
    pub(super) plan: Option<PlanName>,
}

impl<T> KeyEntry<T> {
    pub(super) fn new(key: &StoredKey, membership: Arc<Membership>, attached: T) -> KeyEntry<T> {
        let user = key.user.as_ref().map_or("", |user| user.as_str());
        let origin = if key.origin == key.id { "" } else { key.origin.as_str() };
        let short = |text: &str| u8::try_from(text.len()).expect("names have at most 128 bytes");
        KeyEntry {
            sha256: *key.sha256.as_bytes(),
            ends_at: key.ends_at(),
            membership,
            names: [key.id.as_str(), user, origin].concat().into(),
            id_len: short(key.id.as_str()),
            user_len: short(user),
            attached,
        }
    }

    /// The same key with something else attached.
    pub(super) fn with<U>(&self, attached: U) -> KeyEntry<U> {
        KeyEntry {
            sha256: self.sha256,
            ends_at: self.ends_at,
            membership: Arc::clone(&self.membership),
            names: self.names.clone(),
            id_len: self.id_len,
            user_len: self.user_len,
            attached,
        }
    }

    pub(super) fn proof(&self) -> (&[u8; 32], Time) {
        (&self.sha256, self.ends_at)
    }

    /// The digest of the whole key.
    pub fn sha256(&self) -> Sha256 {
        Sha256::from_bytes(self.sha256)
    }

    /// The key's id.
    pub fn id(&self) -> &str {
        &self.names[..usize::from(self.id_len)]
    }

    /// Who holds it.
    pub fn user(&self) -> Option<&str> {
        let from = usize::from(self.id_len);
        let user = &self.names[from..from + usize::from(self.user_len)];
        (!user.is_empty()).then_some(user)
    }

    /// The id of the first key in its line of rotations.
    pub fn origin(&self) -> &str {
        let origin = &self.names[usize::from(self.id_len) + usize::from(self.user_len)..];
        if origin.is_empty() { self.id() } else { origin }
    }

    /// Whose it is.
    pub fn tenant(&self) -> &TenantId {
        &self.membership.tenant
    }

    /// Its plan.
    pub fn plan(&self) -> Option<&PlanName> {
        self.membership.plan.as_ref()
    }

    /// When it ends.
    pub fn ends_at(&self) -> Time {
        self.ends_at
    }

    /// What a later layer attached.
    pub fn attached(&self) -> &T {
        &self.attached
    }
}
