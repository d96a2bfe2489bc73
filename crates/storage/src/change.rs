//! What the control plane changes: lists of changes, each list all or nothing and durable before it is answered.
//!
//! A list usually is the change itself, its audit row and what to answer to the same `Idempotency-Key` again. One
//! list is one atomic step for any store: a savepoint of a transaction, or a script.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_core::Time;
use tollgate_policy::{KeyId, Sha256};

use crate::{KeyTerms, StoreError, StoredKey, Unavailable};

/// One change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Stores a new key.
    IssueKey(Box<StoredKey>),
    /// Gives a key other terms.
    UpdateKey {
        /// Which key.
        id: KeyId,
        /// All of its terms.
        terms: Box<KeyTerms>,
    },
    /// Stores a key's successor; both work until the grace ends.
    RotateKey {
        /// The key that is replaced. It must be in force and not replaced yet.
        id: KeyId,
        /// What takes its place.
        successor: Box<StoredKey>,
        /// Until when the old one works.
        grace_until: Time,
    },
    /// Ends a key at once.
    RevokeKey {
        /// Which key.
        id: KeyId,
        /// When.
        at: Time,
    },
    /// Stores a tenant, a plan or a configuration.
    Put {
        /// What it is.
        kind: ObjectKind,
        /// Its id.
        id: String,
        /// Its shape, as JSON.
        body: String,
        /// What must be there before.
        expect: Expect,
        /// When.
        at: Time,
    },
    /// Removes one. A tenant or plan with keys in force stays.
    Remove {
        /// What it is.
        kind: ObjectKind,
        /// Its id.
        id: String,
        /// What must be there before.
        expect: Expect,
        /// When. A key that has ended by then is not in force.
        at: Time,
    },
    /// Refuses the list unless the API keeps this object: whoever names it found it there, and another node may have removed it.
    Needs {
        /// What it is.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// Refuses the list unless all tenants, plans and configuration are as they were then: it was checked against them.
    Unchanged(Revision),
    /// Adds a row to the audit.
    Audit(AuditEntry),
    /// Remembers what was answered.
    Remember(Box<IdempotentAnswer>),
}

/// What has been committed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    /// Every key that changed, as it is stored now.
    pub keys: Vec<StoredKey>,
    /// The version of each object put, in order.
    pub versions: Vec<Version>,
}

/// The kinds of objects that the API keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A tenant.
    Tenant,
    /// A plan.
    Plan,
    /// A part of the configuration.
    Config,
}

impl ObjectKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectKind::Tenant => "tenant",
            ObjectKind::Plan => "plan",
            ObjectKind::Config => "config",
        }
    }
}

/// What must be there before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: it is new.
    Absent,
    /// Something, at whatever version.
    Present,
    /// This version: nobody changed it since it was read.
    Version(Version),
    /// Something or nothing.
    Anything,
}

/// The version of an object. No two objects ever have the same, so a removed object that is made again is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl FromStr for Version {
    type Err = StoreError;

    /// The version that `Display` wrote, as in an `If-Match` header without its quotes.
    fn from_str(text: &str) -> Result<Version, StoreError> {
        let number = text.strip_prefix('v').and_then(|digits| digits.parse().ok());
        number
            .map(Version)
            .ok_or_else(|| StoreError::NotFound { what: format!("version {text:?}") })
    }
}

/// The state of all tenants, plans and configuration together: another after each change of any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// The version of the first object that a list with [`Change::Unchanged`] of this puts.
    pub const fn next(self) -> Version {
        Version(self.0.saturating_add(1))
    }
}

/// A stored tenant, plan or configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Its shape, as JSON.
    pub body: String,
    /// Its version.
    pub version: Version,
    /// When it last changed.
    pub updated_at: Time,
}

impl Object {
    /// Its shape.
    ///
    /// # Errors
    ///
    /// If the body is not of this shape.
    pub fn read<S: DeserializeOwned>(&self) -> Result<S, StoreError> {
        serde_json::from_str(&self.body).map_err(|why| {
            let how = format!("{} {} does not read: {why}", self.kind.name(), self.id);
            Unavailable::Damaged(how).into()
        })
    }
}

/// Who changed what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When, in nanoseconds since the epoch.
    pub at: u64,
    /// Who: a token's name or an address, never a secret.
    pub actor: String,
    /// What was done: `key.issue`, `plan.replace`.
    pub action: String,
    /// To what: `key key_3f…`.
    pub subject: String,
    /// What it was before, as JSON without secrets.
    pub before: Option<serde_json::Value>,
    /// What it is now, as JSON without secrets.
    pub after: Option<serde_json::Value>,
}

/// What was answered to an `Idempotency-Key`, without any secret.
#[derive(Clone, Debug, PartialEq)]
pub struct IdempotentAnswer {
    /// The key that the caller sent.
    pub key: String,
    /// The digest of the request, so that the same key with another request is known.
    pub fingerprint: Sha256,
    /// The status.
    pub status: u16,
    /// The body, and whatever else of the answer is to be told again.
    pub body: String,
    /// When it was answered.
    pub at: Time,
}

impl IdempotentAnswer {
    /// How long it is remembered.
    pub const KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
    /// How many are remembered at most: the oldest are forgotten for new ones.
    pub const MOST: u32 = 100_000;
}

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) i64);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:x}", self.0)
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Cursor, StoreError> {
        let digits = text.strip_prefix('c').ok_or(StoreError::BadCursor)?;
        i64::from_str_radix(digits, 16).map(Cursor).map_err(|_| StoreError::BadCursor)
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// Where the next page begins; nothing if this is the last.
    pub next: Option<Cursor>,
}

/// Which part of a list.
#[derive(Clone, Debug, Default)]
pub struct PageOf {
    /// Where it begins; at the beginning if nothing.
    pub after: Option<Cursor>,
    /// How many rows at most; 1 to [`PageOf::MOST`].
    pub limit: usize,
}

impl PageOf {
    /// The longest page.
    pub const MOST: usize = 1000;

    pub(crate) fn rows(&self) -> usize {
        self.limit.clamp(1, PageOf::MOST)
    }
}
