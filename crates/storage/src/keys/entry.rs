//! A key as requests see it, in few bytes.

use std::sync::Arc;

use hashbrown::{Equivalent, HashSet};
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
    /// Id, user and origin with spaces between, which no name has. User is empty where there is none, origin where it
    /// is the id.
    names: Box<str>,
    attached: T,
}

/// What many keys have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Membership {
    tenant: TenantId,
    plan: Option<PlanName>,
}

/// The same of a key that is yet to share one. It hashes as a [`Membership`] does.
#[derive(Hash)]
struct MembershipOf<'a> {
    tenant: &'a TenantId,
    plan: Option<&'a PlanName>,
}

impl Equivalent<Arc<Membership>> for MembershipOf<'_> {
    fn equivalent(&self, shared: &Arc<Membership>) -> bool {
        (self.tenant, self.plan) == (&shared.tenant, shared.plan.as_ref())
    }
}

/// What keys have in common, once.
#[derive(Debug, Default)]
pub(super) struct Memberships(HashSet<Arc<Membership>>);

impl Memberships {
    fn of(&mut self, key: &StoredKey) -> Arc<Membership> {
        let of = MembershipOf { tenant: &key.tenant, plan: key.terms.plan.as_ref() };
        if let Some(known) = self.0.get(&of) {
            return Arc::clone(known);
        }
        let (tenant, plan) = (key.tenant.clone(), key.terms.plan.clone());
        let shared = Arc::new(Membership { tenant, plan });
        self.0.insert(Arc::clone(&shared));
        shared
    }

    /// Forgets what no key has any more.
    pub(super) fn sweep(&mut self) {
        self.0.retain(|membership| Arc::strong_count(membership) > 1);
    }
}

impl<T> KeyEntry<T> {
    pub(super) fn new(key: &StoredKey, shared: &mut Memberships, attached: T) -> KeyEntry<T> {
        let user = key.user.as_ref().map_or("", |user| user.as_str());
        let origin = if key.origin == key.id { "" } else { key.origin.as_str() };
        KeyEntry {
            sha256: *key.sha256.as_bytes(),
            ends_at: key.ends_at(),
            membership: shared.of(key),
            names: [key.id.as_str(), user, origin].join(" ").into(),
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

    fn name(&self, at: usize) -> &str {
        self.names.split(' ').nth(at).unwrap_or_default()
    }

    /// The key's id.
    pub fn id(&self) -> &str {
        self.name(0)
    }

    /// Who holds it.
    pub fn user(&self) -> Option<&str> {
        Some(self.name(1)).filter(|user| !user.is_empty())
    }

    /// The id of the first key in its line of rotations.
    pub fn origin(&self) -> &str {
        let origin = self.name(2);
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
