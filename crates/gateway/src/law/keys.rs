//! Keys as the law asks for them, and those that the file declares. Whoever keeps others implements [`Keys`] over both.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_engine::Time;
use tollgate_gate::OwnLimit;
use tollgate_policy::Sha256;
use tollgate_policy::compile::{KeyInForce, LimitId, Policy};

/// All keys that are in force. Asked on every request, so it must not wait.
pub trait Keys: Send + Sync + 'static {
    /// A key that was found, held as long as its request is under way.
    type Found: FoundKey;

    /// The key with this digest, if there is one that has not ended.
    fn find(&self, sha256: &Sha256, now: Time) -> Option<Self::Found>;
}

/// What the law wants to know of a key.
pub trait FoundKey {
    /// What it is called; not the key itself.
    fn id(&self) -> &str;
    /// The id of its tenant.
    fn tenant(&self) -> &str;
    /// Who holds it.
    fn user(&self) -> Option<&str>;
    /// The name of its plan; its tenant's if it has none.
    fn plan(&self) -> Option<&str>;
    /// Its own limit under a policy, if the policy declares it.
    fn limit(&self, policy: &Policy) -> Option<LimitId>;

    /// Its own limit, if no policy knows that.
    fn own(&self) -> Option<&OwnLimit> {
        None
    }

    /// What it is counted as where it names no user: of a key that was rotated, the first of its line.
    fn counted_as(&self) -> &str {
        self.id()
    }
}

/// The keys that the file declares.
#[derive(Debug, Default)]
pub struct FileKeys(ArcSwap<HashMap<[u8; 32], Arc<FileKey>>>);

/// A key that the file declares.
#[derive(Debug)]
pub struct FileKey {
    id: Box<str>,
    tenant: Box<str>,
    user: Option<Box<str>>,
    plan: Option<Box<str>>,
    ends_at: Option<Time>,
    /// Its place among the file's keys, if it has a limit of its own.
    limited: Option<usize>,
}

impl FileKeys {
    /// The keys of a policy.
    pub fn of(policy: &Policy) -> FileKeys {
        let keys = FileKeys::default();
        keys.replace(policy);
        keys
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.load().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes over all keys of another set, at once.
    pub fn adopt(&self, other: &FileKeys) {
        self.0.store(other.0.load_full());
    }

    fn replace(&self, policy: &Policy) {
        let key = |(place, key): (usize, &KeyInForce)| FileKey {
            id: key.id().into(),
            tenant: policy.tenants().all()[key.tenant()].id().into(),
            user: key.user().map(Into::into),
            plan: key.plan().map(|number| policy.plans()[number].name().into()),
            ends_at: key.expires_at().map(tollgate_policy::Instant::time),
            limited: key.limit().map(|_| place),
        };
        let all = policy.keys().iter().enumerate();
        let all = all.map(|one| (*one.1.sha256().as_bytes(), Arc::new(key(one))));
        self.0.store(Arc::new(all.collect()));
    }
}

impl Keys for FileKeys {
    type Found = Arc<FileKey>;

    fn find(&self, sha256: &Sha256, now: Time) -> Option<Arc<FileKey>> {
        let keys = self.0.load();
        let key = keys.get(sha256.as_bytes())?;
        key.ends_at.is_none_or(|end| now < end).then(|| Arc::clone(key))
    }
}

impl FoundKey for Arc<FileKey> {
    fn id(&self) -> &str {
        &self.id
    }

    fn tenant(&self) -> &str {
        &self.tenant
    }

    fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    fn limit(&self, policy: &Policy) -> Option<LimitId> {
        let is_it = |key: &&KeyInForce| *key.id() == *self.id;
        let there = policy.keys().get(self.limited?).filter(is_it);
        // Elsewhere only if the request began under another file than the key was found in.
        there.or_else(|| policy.keys().iter().find(is_it))?.limit()
    }
}
