//! Everything that must outlive the process: keys, tenants, plans, quota balances, usage and the audit.
//!
//! ```text
//!  admin ──Change──▶┐                                       ┌─▶ reader threads ──▶ answers
//!  quotas ─blocks──▶├─ Store ══ messages ══▶ Embedded ──────┤
//!  usage ──batches─▶┘                                       └─▶ writer thread: one transaction, one fsync for
//!                                                               all that wait, then all are answered
//! ```
//! [`Store`] is the one interface; it speaks in the domain's own types. [`Embedded`] keeps everything in an SQLite database that any
//! SQLite tool can open. With the feature `redis`, `InRedis` answers the same messages from Redis or Valkey, for nodes that keep
//! nothing themselves. What requests need is in memory: all keys in a [`KeySnapshot`], quotas in a
//! [`QuotaBook`] that spends only what is already written down, usage in a [`UsageRecorder`] a worker.

mod change;
mod error;
mod keys;
mod quota;
#[cfg(feature = "redis")]
mod redis;
mod request;
mod sqlite;
mod store;
mod usage;

pub use change::{
    AuditEntry, Change, Committed, Cursor, Expect, IdempotentAnswer, Object, ObjectKind, Page,
    PageOf, Revision, Version,
};
pub use error::{OpenError, StoreError, Unavailable};
pub use keys::{
    FoundKey, KeyDraft, KeyEntry, KeyLoader, KeySnapshot, KeyTerms, MintError, StoredKey,
};
pub use quota::{
    Draw, NotSpent, QuotaAccount, QuotaBook, QuotaFailures, QuotaPeriod, QuotaStanding, Quotas,
    Spent, block,
};
#[cfg(feature = "redis")]
pub use redis::InRedis;
pub use sqlite::Embedded;
pub use store::{Store, Tidy};
pub use usage::{
    Caller, Day, Grouping, NotADay, UsageBatch, UsageCursor, UsagePage, UsageQuery, UsageRecorder,
    UsageRow, Use,
};
