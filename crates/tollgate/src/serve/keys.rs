//! All keys that requests may show: those that the API issued, and those that the file declares.
//!
//! Stored keys are in a snapshot that is read without a lock and changed by the storage, which tells every change before it
//! answers. What a key has for itself is bound to its counters once, when the key comes, and hangs on its entry.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tollgate_engine::Time;
use tollgate_gate::{Gate, OwnLimit, OwnTerms};
use tollgate_gateway::law::{FileKey, FileKeys, FoundKey, Keys, Shared};
use tollgate_policy::Sha256;
use tollgate_policy::compile::{LimitId, Policy};
use tollgate_storage::{KeyLoader, KeySnapshot, Store, StoreError, StoredKey};

use super::lost_upstreams::LostUpstreams;
use super::predecessors::{Bound, Predecessors, has_predecessors, is_newest};

/// What hangs on a stored key: its own limit, if it has one.
pub(crate) type Own = Option<Box<OwnLimit>>;

/// All keys: the stored ones, which come by [`Watched::begin`], and those of the plane that is asked with.
#[derive(Debug, Default)]
pub(crate) struct AllKeys {
    stored: KeySnapshot<Own>,
    predecessors: Predecessors,
}

impl AllKeys {
    /// How many are stored.
    pub(crate) fn stored(&self) -> usize {
        self.stored.len()
    }

    /// Those that are stored, and not what the file declares.
    pub(crate) fn snapshot(&self) -> &KeySnapshot<Own> {
        &self.stored
    }

    /// Forgets stored keys that have ended.
    pub(crate) fn sweep(&self, now: Time) {
        self.stored.sweep(now);
        self.predecessors.sweep(now);
    }
}

/// Where the storage finds the keys that it tells of. It is opened before there is a policy, and so before there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    keys: Arc<OnceLock<Arc<Shared<AllKeys>>>>,
    /// Woken when other nodes have changed tenants or plans.
    pub(crate) objects: Arc<Notify>,
}

impl Watched {
    /// A key was stored or changed: requests go by that from here on.
    pub(crate) fn changed(&self, key: &StoredKey) {
        if let Some(shared) = self.keys.get() {
            let plane = shared.plane();
            let AllKeys { stored, predecessors } = shared.keys();
            let bind = |key: &StoredKey| {
                let within = (shared.gate(), plane.in_force().policy());
                let bound = predecessors.bound(key);
                stored.apply(&bound.key, own_limit(within, &bound));
            };
            let others = predecessors.note(key);
            bind(key);
            others.iter().for_each(bind);
        }
    }

    /// Fills `shared` with everything that is stored; changes from here on are told there.
    pub(crate) async fn begin(
        &self,
        shared: &Arc<Shared<AllKeys>>,
        (store, now): (&Store, Time),
    ) -> Result<(), StoreError> {
        let (plane, mut loader) = (shared.plane(), KeyLoader::new());
        let policy = plane.in_force().policy();
        let (mut homeless, mut replaced) = (0u64, Vec::new());
        let mut lost = LostUpstreams::default();
        let predecessors = &shared.keys().predecessors;
        let push = |key: StoredKey| {
            // Those go by the terms of whoever replaced them, and come last for that.
            if !is_newest(&key) {
                replaced.push(key);
                return;
            }
            if has_predecessors(&key) {
                predecessors.note(&key);
            }
            let bound = predecessors.bound(&key);
            homeless += u64::from(!has_home(policy, &bound));
            lost.look_at(&bound.key, policy);
            loader.push(&bound.key, own_limit((shared.gate(), policy), &bound));
        };
        store.for_each_key(now, push).await?;
        for key in &replaced {
            // It may have ended, and so not be among those that were told.
            if !predecessors.knows_newest(key)
                && let Some(newest) = store.newest_of_line(key).await?
            {
                predecessors.note(&newest);
            }
            predecessors.note(key);
            let bound = predecessors.bound(key);
            homeless += u64::from(!has_home(policy, &bound));
            lost.look_at(&bound.key, policy);
            loader.push(&bound.key, own_limit((shared.gate(), policy), &bound));
        }
        // Of most lines no other key works any more.
        predecessors.sweep(now);
        shared.keys().stored.fill(loader);
        if homeless > 0 {
            tracing::warn!(
                keys = homeless,
                "keys name tenants or plans that are gone: without their tenant they are not let in, without their \
                 plan they have their tenant's"
            );
        }
        lost.said().for_each(|what| tracing::warn!("{what}"));
        // Nobody else has begun to watch with this.
        drop(self.keys.set(Arc::clone(shared)));
        // What other nodes changed while keys were read.
        store.catch_up().await
    }
}

/// Whether there are the tenant and the plan that a key goes by.
fn has_home(policy: &Policy, Bound { key, .. }: &Bound<'_>) -> bool {
    let has_plan = key.terms.plan.as_ref().is_none_or(|plan| policy.plan(plan.as_str()).is_some());
    policy.tenants().number(key.tenant.as_str()).is_some() && has_plan
}

/// The limit that a key is to have for itself, bound to its counters. They are its whole line's: one that was replaced must not put its
/// successor back under its figures.
fn own_limit((gate, policy): (&Gate, &Policy), bound: &Bound<'_>) -> Own {
    let key = &*bound.key;
    // Requests do not find it any more.
    if key.revoked_at.is_some() {
        return None;
    }
    let rate_limit = key.terms.rate_limit.as_ref()?;
    let terms = OwnTerms { id: key.id.as_str(), origin: key.origin.as_str(), rate_limit };
    let own = match bound.has_lines_terms {
        true => gate.own_limit(policy, terms),
        false => gate.own_limit_of_line(policy, terms),
    };
    if own.is_none() {
        tracing::error!(key = %key.id, "the key's own rate_limit is impossible: its plan's is charged instead");
    }
    own.map(Box::new)
}

/// A key that was found.
#[derive(Debug)]
pub(crate) enum Found {
    Stored(tollgate_storage::FoundKey<Own>),
    File(Arc<FileKey>),
}

impl Keys for AllKeys {
    type Found = Found;

    /// Whatever is wrong with a key, it is looked for in both places.
    fn find(&self, file: &FileKeys, sha256: &Sha256, now: Time) -> Option<Found> {
        let stored = self.stored.find(sha256, now).map(Found::Stored);
        stored.or_else(|| file.find(sha256, now).map(Found::File))
    }
}

impl FoundKey for Found {
    fn id(&self) -> &str {
        match self {
            Found::Stored(key) => key.id(),
            Found::File(key) => FoundKey::id(key),
        }
    }

    fn tenant(&self) -> &str {
        match self {
            Found::Stored(key) => key.tenant().as_str(),
            Found::File(key) => FoundKey::tenant(key),
        }
    }

    fn user(&self) -> Option<&str> {
        match self {
            Found::Stored(key) => key.user(),
            Found::File(key) => FoundKey::user(key),
        }
    }

    fn plan(&self) -> Option<&str> {
        match self {
            Found::Stored(key) => key.plan().map(tollgate_policy::PlanName::as_str),
            Found::File(key) => FoundKey::plan(key),
        }
    }

    fn limit(&self, policy: &Policy) -> Option<LimitId> {
        match self {
            Found::Stored(_) => None,
            Found::File(key) => key.limit(policy),
        }
    }

    fn own(&self) -> Option<&OwnLimit> {
        match self {
            Found::Stored(key) => key.attached().as_deref(),
            Found::File(_) => None,
        }
    }

    fn counted_as(&self) -> &str {
        match self {
            Found::Stored(key) => key.origin(),
            Found::File(key) => FoundKey::id(key),
        }
    }
}
