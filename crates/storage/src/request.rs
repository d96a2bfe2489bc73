//! The messages between [`Store`](crate::Store) and whatever keeps things. They are made of the domain's own types, so that
//! the embedded database and a server far away can both answer them.

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tollgate_core::Time;
use tollgate_policy::{KeyId, TenantId, UserName};

use crate::quota::{Grant, Refund, Reservation};
use crate::usage::{UsageBatch, UsagePage, UsageQuery};
use crate::{
    AuditEntry, Change, Committed, IdempotentAnswer, Object, ObjectKind, Page, PageOf, Revision,
    StoreError, StoredKey, Tidy, Unavailable,
};

/// A request that changes something. It is durable before it is answered.
pub(crate) enum Write {
    Commit(Vec<Change>, Reply<Committed>, OwnedSemaphorePermit),
    AddUsage(UsageBatch, Reply<()>, OwnedSemaphorePermit),
    Tidy(Tidy, Reply<bool>, OwnedSemaphorePermit),
    /// Needs no permit: an account has at most one on its way.
    Reserve(Reservation, Reply<Grant>),
    Refund(Vec<Refund>, Reply<()>),
    /// Answered when everything before it is.
    Barrier(Reply<()>),
    Close(Reply<()>),
}

/// A request that only reads.
pub(crate) enum Read {
    Key(KeyId, Reply<StoredKey>),
    Keys(Option<TenantId>, PageOf, Reply<Page<StoredKey>>),
    /// All keys of a user that had not ended then.
    KeysOf((TenantId, UserName), Time, Reply<Vec<StoredKey>>),
    /// Sends all keys that had not ended then, in parts.
    AllKeys(Time, mpsc::Sender<Result<Vec<StoredKey>, StoreError>>),
    Object(ObjectKind, String, Reply<Object>),
    Objects(ObjectKind, Reply<Vec<Object>>),
    KeysInForce(ObjectKind, String, Time, Reply<u64>),
    Revision(Reply<Revision>),
    /// Tells watchers what has changed since all keys were read.
    CatchUp(Reply<()>),
    Audit(PageOf, Reply<Page<AuditEntry>>),
    Answer(String, Time, Reply<Option<IdempotentAnswer>>),
    QuotaTaken(String, Time, Reply<u64>),
    Usage(UsageQuery, Reply<UsagePage>),
    Backup(std::path::PathBuf, Reply<()>),
    Close(Reply<()>),
}

/// Answers a request, exactly once: a request that is dropped is answered with [`Unavailable::Closed`].
pub(crate) struct Reply<R>(Option<Told<R>>);

type Told<R> = Box<dyn FnOnce(Result<R, StoreError>) + Send>;

impl<R: Send + 'static> Reply<R> {
    pub(crate) fn to(answer: impl FnOnce(Result<R, StoreError>) + Send + 'static) -> Reply<R> {
        Reply(Some(Box::new(answer)))
    }

    pub(crate) fn channel() -> (Reply<R>, oneshot::Receiver<Result<R, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        // Whoever asked may have gone.
        (Reply::to(|answer| drop(sender.send(answer))), receiver)
    }
}

impl<R> Reply<R> {
    pub(crate) fn send(mut self, answer: Result<R, StoreError>) {
        if let Some(send) = self.0.take() {
            send(answer);
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        if let Some(send) = self.0.take() {
            send(Err(Unavailable::Closed.into()));
        }
    }
}
