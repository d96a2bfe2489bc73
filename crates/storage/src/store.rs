//! The one interface to everything that is kept.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tollgate_core::Time;
use tollgate_policy::{KeyId, TenantId, UserName};

use crate::quota::{Grant, Refund, Reservation};
use crate::request::{Read, Reply, Write};
use crate::usage::{Day, UsageBatch, UsagePage, UsageQuery};
use crate::{
    AuditEntry, Change, Committed, IdempotentAnswer, Object, ObjectKind, Page, PageOf, Revision,
    StoreError, StoredKey, Unavailable,
};

/// Requests that may wait for the writer at once; further ones wait for their turn to wait.
const WAITING_WRITES: usize = 4096;
/// Requests that may wait for a reader at once.
const WAITING_READS: usize = 256;

/// A handle to everything that is kept. Clones are handles to the same.
///
/// It sends messages and waits for their answers, so it never blocks a runtime and needs none of its own. What a method that
/// changes something answers is durable.
#[derive(Clone)]
pub struct Store {
    writes: mpsc::UnboundedSender<Write>,
    reads: mpsc::Sender<Read>,
    room: Arc<Semaphore>,
    readers: usize,
    /// Whether other processes change what is kept, too.
    is_shared: bool,
}

/// What old things to delete, at most [`Tidy::SLICE`] of each kind at once.
#[derive(Clone, Copy, Debug)]
pub struct Tidy {
    /// The time.
    pub now: Time,
    /// The first day of which usage is kept.
    pub usage_from: Day,
    /// The first moment of which audit rows are kept.
    pub audit_from: Time,
}

impl Tidy {
    /// The most rows of a kind that are deleted before others have their turn.
    pub const SLICE: u32 = 2000;
}

/// The other ends of a store's channels.
pub(crate) struct Inbox {
    pub(crate) writes: mpsc::UnboundedReceiver<Write>,
    pub(crate) reads: mpsc::Receiver<Read>,
}

impl Store {
    /// A store whose requests `readers` readers and one writer answer.
    pub(crate) fn new(readers: usize) -> (Store, Inbox) {
        let (writes, written) = mpsc::unbounded_channel();
        let (reads, read) = mpsc::channel(WAITING_READS);
        let room = Arc::new(Semaphore::new(WAITING_WRITES));
        let store = Store { writes, reads, room, readers, is_shared: false };
        (store, Inbox { writes: written, reads: read })
    }

    /// The same where other nodes have it too.
    #[cfg(feature = "redis")]
    pub(crate) fn shared(self) -> Store {
        Store { is_shared: true, ..self }
    }

    /// Whether what it said a while ago may have been changed by somebody else.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Makes all of `changes`, or none.
    ///
    /// # Errors
    ///
    /// If one of them cannot be made, or the storage does not work.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Committed, StoreError> {
        self.write(|reply, permit| Write::Commit(changes, reply, permit)).await
    }

    /// Adds what has been used.
    ///
    /// # Errors
    ///
    /// If the storage does not work; then nothing was added.
    pub async fn add_usage(&self, batch: UsageBatch) -> Result<(), StoreError> {
        self.write(|reply, permit| Write::AddUsage(batch, reply, permit)).await
    }

    /// Deletes a slice of what is too old, and answers whether more is left.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn tidy(&self, what: Tidy) -> Result<bool, StoreError> {
        self.write(|reply, permit| Write::Tidy(what, reply, permit)).await
    }

    /// Waits until everything that was asked for before has been answered.
    ///
    /// # Errors
    ///
    /// If the storage is closed.
    pub async fn barrier(&self) -> Result<(), StoreError> {
        let (reply, answer) = Reply::channel();
        self.send(Write::Barrier(reply));
        received(answer.await)
    }

    /// One key.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], or the storage does not work.
    pub async fn key(&self, id: KeyId) -> Result<StoredKey, StoreError> {
        self.read(|reply| Read::Key(id, reply)).await
    }

    /// The last key of a key's line of rotations, which may have ended; nothing if somebody took one of that line out of the storage.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn newest_of_line(&self, key: &StoredKey) -> Result<Option<StoredKey>, StoreError> {
        let mut newest = key.clone();
        while let Some(by) = newest.replaced_by {
            newest = match self.key(by).await {
                Ok(key) => key,
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(why) => return Err(why),
            };
        }
        Ok(Some(newest))
    }

    /// Keys in the order of their issue: all, or a tenant's.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn keys(
        &self,
        tenant: Option<TenantId>,
        page: PageOf,
    ) -> Result<Page<StoredKey>, StoreError> {
        self.read(|reply| Read::Keys(tenant, page, reply)).await
    }

    /// All keys that a user of a tenant holds and that had not ended at `now`, in the order of their issue.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn keys_of(
        &self,
        tenant: TenantId,
        user: UserName,
        now: Time,
    ) -> Result<Vec<StoredKey>, StoreError> {
        self.read(|reply| Read::KeysOf((tenant, user), now, reply)).await
    }

    /// Calls `each` with every key that had not ended at `now`.
    ///
    /// # Errors
    ///
    /// If the storage does not work; `each` may then have seen some keys.
    pub async fn for_each_key(
        &self,
        now: Time,
        mut each: impl FnMut(StoredKey),
    ) -> Result<(), StoreError> {
        let (sender, mut parts) = mpsc::channel(4);
        self.reads.send(Read::AllKeys(now, sender)).await.map_err(|_| Unavailable::Closed)?;
        while let Some(part) = parts.recv().await {
            part?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// Tells watchers again what others have changed since the last [`for_each_key`](Store::for_each_key) began. Whoever fills a
    /// snapshot with what was read calls this next: what changed meanwhile would be lost. With the embedded database nobody else
    /// can have changed anything.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        self.read(Read::CatchUp).await
    }

    /// The state of all tenants, plans and configuration. To be asked for before they are read, and put into the list of
    /// changes that was checked against them, as [`Change::Unchanged`].
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        self.read(Read::Revision).await
    }

    /// One tenant, plan or configuration.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], or the storage does not work.
    pub async fn object(&self, kind: ObjectKind, id: &str) -> Result<Object, StoreError> {
        let id = id.to_owned();
        self.read(|reply| Read::Object(kind, id, reply)).await
    }

    /// How many keys that had not ended at `now` are this tenant's or go by this plan, whoever declared it. In Redis one that has expired counts
    /// until the next [`tidy`](Store::tidy).
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn keys_in_force(
        &self,
        kind: ObjectKind,
        id: &str,
        now: Time,
    ) -> Result<u64, StoreError> {
        let id = id.to_owned();
        self.read(|reply| Read::KeysInForce(kind, id, now, reply)).await
    }

    /// All objects of a kind, by id.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn objects(&self, kind: ObjectKind) -> Result<Vec<Object>, StoreError> {
        self.read(|reply| Read::Objects(kind, reply)).await
    }

    /// Audit rows, newest first.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn audit(&self, page: PageOf) -> Result<Page<AuditEntry>, StoreError> {
        self.read(|reply| Read::Audit(page, reply)).await
    }

    /// What was answered to this `Idempotency-Key` not too long before `now`.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn answer_to(
        &self,
        idempotency_key: &str,
        now: Time,
    ) -> Result<Option<IdempotentAnswer>, StoreError> {
        let key = idempotency_key.to_owned();
        self.read(|reply| Read::Answer(key, now, reply)).await
    }

    /// What has been taken of a quota in the period that begins then, spent or reserved.
    ///
    /// # Errors
    ///
    /// If the storage does not work.
    pub async fn quota_taken(&self, name: &str, begins: Time) -> Result<u64, StoreError> {
        let name = name.to_owned();
        self.read(|reply| Read::QuotaTaken(name, begins, reply)).await
    }

    /// What has been used: as many rows as are asked for, and where the next begin.
    ///
    /// # Errors
    ///
    /// [`StoreError::BadCursor`], or the storage does not work.
    pub async fn usage(&self, query: UsageQuery) -> Result<UsagePage, StoreError> {
        self.read(|reply| Read::Usage(query, reply)).await
    }

    /// Copies everything, as it is at one moment, to a new file. Others go on reading and writing meanwhile.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be written.
    pub async fn backup(&self, file: &Path) -> Result<(), StoreError> {
        let file = file.to_owned();
        self.read(|reply| Read::Backup(file, reply)).await
    }

    /// Finishes what was asked for before, closes the database and frees it for another process.
    ///
    /// # Errors
    ///
    /// If it was closed already.
    pub async fn close(&self) -> Result<(), StoreError> {
        for _ in 0..self.readers {
            self.read(Read::Close).await?;
        }
        let (reply, answer) = Reply::channel();
        self.send(Write::Close(reply));
        received(answer.await)
    }

    pub(crate) fn reserve(&self, reservation: Reservation, reply: Reply<Grant>) {
        self.send(Write::Reserve(reservation, reply));
    }

    pub(crate) fn refund(&self, refunds: Vec<Refund>, reply: Reply<()>) {
        self.send(Write::Refund(refunds, reply));
    }

    /// A message that nobody receives is dropped, and so answered.
    fn send(&self, write: Write) {
        drop(self.writes.send(write));
    }

    async fn write<R: Send + 'static>(
        &self,
        request: impl FnOnce(Reply<R>, OwnedSemaphorePermit) -> Write,
    ) -> Result<R, StoreError> {
        let permit = Arc::clone(&self.room).acquire_owned().await;
        let (reply, answer) = Reply::channel();
        self.send(request(reply, permit.map_err(|_| Unavailable::Closed)?));
        received(answer.await)
    }

    async fn read<R: Send + 'static>(
        &self,
        request: impl FnOnce(Reply<R>) -> Read,
    ) -> Result<R, StoreError> {
        let (reply, answer) = Reply::channel();
        self.reads.send(request(reply)).await.map_err(|_| Unavailable::Closed)?;
        received(answer.await)
    }
}

fn received<R>(
    answer: Result<Result<R, StoreError>, oneshot::error::RecvError>,
) -> Result<R, StoreError> {
    answer.unwrap_or(Err(StoreError::Unavailable(Unavailable::Closed)))
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("is_open", &!self.writes.is_closed()).finish()
    }
}
