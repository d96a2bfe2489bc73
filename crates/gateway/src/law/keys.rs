//! Keys as the law asks for them. The control plane fills what is asked; until it does, the file does.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_engine::Time;
use tollgate_policy::Sha256;
use tollgate_policy::compile::{LimitId, Policy};

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
    has_limit: bool,
}

impl FileKeys {
    /// The keys of a policy.
    pub fn of(policy: &Policy) -> FileKeys {
        let keys = FileKeys::default();
        keys.replace(policy);
        keys
    }

    /// Takes over all keys of another set, at once.
    pub fn adopt(&self, other: &FileKeys) {
        self.0.store(other.0.load_full());
    }

    fn replace(&self, policy: &Policy) {
        let key = |key: &tollgate_policy::compile::KeyInForce| FileKey {
            id: key.id().into(),
            tenant: policy.tenants().all()[key.tenant()].id().into(),
            user: key.user().map(Into::into),
            plan: key.plan().map(|number| policy.plans()[number].name().into()),
            ends_at: key.expires_at().map(tollgate_policy::Instant::time),
            has_limit: key.limit().is_some(),
        };
        let all = policy.keys().iter().map(|one| (*one.sha256().as_bytes(), Arc::new(key(one))));
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
        if !self.has_limit {
            return None;
        }
        policy.keys().iter().find(|key| *key.id() == *self.id)?.limit()
    }
}
