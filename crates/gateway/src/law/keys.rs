//! Keys as the law asks for them, and those that the file declares. Whoever keeps others implements [`Keys`] over both.
//!
//! The file's keys are part of the plane that its tenants and plans are part of: a request that had the one of the old file and
//! the other of the new would be turned away with a good key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use tollgate_engine::Time;
use tollgate_gate::OwnLimit;
use tollgate_policy::Sha256;
use tollgate_policy::compile::{KeyInForce, LimitId, Policy};

/// All keys that are in force. Asked on every request, so it must not wait.
pub trait Keys: Send + Sync + 'static {
    /// A key that was found, held as long as its request is under way.
    type Found: FoundKey;

    /// The key with this digest, if there is one that has not ended, here or among the file's.
    fn find(&self, file: &FileKeys, sha256: &Sha256, now: Time) -> Option<Self::Found>;
}

/// Nobody keeps others than the file's.
impl Keys for () {
    type Found = Arc<FileKey>;

    fn find(&self, file: &FileKeys, sha256: &Sha256, now: Time) -> Option<Arc<FileKey>> {
        file.find(sha256, now)
    }
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
pub struct FileKeys(HashMap<[u8; 32], Arc<FileKey>, BuildHasherDefault<Spread>>);

/// A digest is spread evenly by itself, and whoever is looked up does not choose who is declared.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// How long a digest is.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

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
    pub(super) fn of(policy: &Policy) -> FileKeys {
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
        FileKeys(all.collect())
    }

    /// The key with this digest, if there is one that has not ended.
    pub fn find(&self, sha256: &Sha256, now: Time) -> Option<Arc<FileKey>> {
        let key = self.0.get(sha256.as_bytes())?;
        key.ends_at.is_none_or(|end| now < end).then(|| Arc::clone(key))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        policy.keys().get(self.limited?)?.limit()
    }
}
