//! Opening the store: a thread of its own, with a runtime of its own, so that nobody else's is needed.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tollgate_redis::{Plain, Settings};

use super::feed::{Feed, Place, Watchers};
use super::names::Names;
use super::quotas::{QuotaWrite, Quotas};
use super::reader::Reader;
use super::scripts::OPEN;
use super::values::{list, number};
use super::writer::{ControlWrite, Writer};
use crate::request::{Read, Reply, Write};
use crate::store::Inbox;
use crate::{OpenError, Store, StoredKey};

/// The newest schema that this program knows.
const SCHEMA: i64 = 1;
/// How long opening may take in all.
const OPENING: Duration = Duration::from_secs(10);
/// How long closing waits for what was asked for before.
const CLOSING: Duration = Duration::from_secs(10);
/// Questions that are answered at once.
const AT_ONCE: usize = 64;

/// A store in Redis or Valkey, which many nodes share.
///
/// What its answers promise is what the server promises: a change is durable as its append-only file is, and a failover may lose
/// what the replica had not received.
pub struct InRedis {
    settings: Settings,
    prefix: String,
    watchers: Watchers,
}

impl InRedis {
    /// The store whose names begin with `prefix` there.
    pub fn at(settings: Settings, prefix: &str) -> InRedis {
        let watchers = Watchers { keys: Box::new(|_| ()), objects: Box::new(|| ()) };
        InRedis { settings, prefix: prefix.to_owned(), watchers }
    }

    /// Calls `watch` with every key that changes: by this node before the change is answered, by others within a
    /// second. A change may be told more than once, always as the key is at that moment. It must be quick and must not panic.
    #[must_use]
    pub fn watch_keys(mut self, watch: impl Fn(&StoredKey) + Send + 'static) -> InRedis {
        self.watchers.keys = Box::new(watch);
        self
    }

    /// Calls `watch` after tenants, plans or configuration have changed: by others within a second, and perhaps by this
    /// node. It must be quick and must not panic: wake somebody who reads them and compiles them.
    #[must_use]
    pub fn watch_objects(mut self, watch: impl Fn() + Send + 'static) -> InRedis {
        self.watchers.objects = Box::new(watch);
        self
    }

    /// Opens it. Blocks while it does, so it belongs to the start of a program.
    ///
    /// # Errors
    ///
    /// If Redis cannot be reached, does not allow what is needed, or a newer program wrote the store.
    pub fn open(self) -> Result<Store, OpenError> {
        let (told, opened) = std::sync::mpsc::channel();
        let (store, inbox) = Store::new(1);
        let store = store.shared();
        let work = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(why) => return drop(told.send(Err(unreachable(why)))),
            };
            runtime.block_on(async {
                let opening = tokio::time::timeout(OPENING, self.prepare());
                match opening
                    .await
                    .unwrap_or_else(|_| Err(unreachable("it did not answer in time")))
                {
                    Ok(running) if told.send(Ok(())).is_ok() => running.serve(inbox).await,
                    Ok(_) => (),
                    Err(why) => drop(told.send(Err(why))),
                }
            });
            runtime.shutdown_background();
        };
        let named = thread::Builder::new().name("storage-redis".to_owned());
        named.spawn(work).map_err(unreachable)?;
        opened.recv().map_err(unreachable)?.map(|()| store)
    }

    async fn prepare(self) -> Result<Running, OpenError> {
        let names = Names::new(&self.prefix);
        let timeout = self.settings.longest_wait();
        let plain = Arc::new(Plain::new(self.settings));
        let mut cmd = OPEN.with_keys(&[&names.meta()]);
        cmd.arg(random()?).arg(SCHEMA).arg(names.channel());
        let value = plain.run(&OPEN, cmd, OPENING).await.map_err(unreachable)?;
        let read = || {
            let [schema, epoch, at, by] = list(&value)? else { return None };
            Some((number(schema)?, Place::read(epoch, at, by)?))
        };
        let (found, place) = read().ok_or_else(|| unreachable("it holds another store"))?;
        if found > SCHEMA {
            let file = names.meta().into();
            return Err(OpenError::NewerSchema { file, found, known: SCHEMA });
        }
        // Requests wait for quotas: they have a connection that nothing else holds up.
        let for_quotas = Arc::new(Plain::failing_fast(plain.settings().clone()));
        let writer = random()?;
        let shared = (Arc::clone(&plain), names.clone());
        let feed = Feed::new(shared, writer.clone(), (self.watchers, place));
        Ok(Running {
            feed: Arc::new(feed),
            quotas: Quotas {
                plain: for_quotas,
                patient: Arc::clone(&plain),
                names: names.clone(),
                timeout,
            },
            plain,
            names,
            writer,
        })
    }
}

impl fmt::Debug for InRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InRedis").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "stands in map_err")]
fn unreachable(why: impl fmt::Display) -> OpenError {
    OpenError::Unreachable { why: why.to_string() }
}

fn random() -> Result<String, OpenError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(unreachable)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Everything that works while the store is open.
struct Running {
    plain: Arc<Plain>,
    names: Names,
    feed: Arc<Feed>,
    quotas: Quotas,
    /// What this process is called beside its calls.
    writer: String,
}

impl Running {
    /// Hands requests to whoever answers them, until told to close or nobody can ask any more.
    async fn serve(self, inbox: Inbox) {
        let Running { plain, names, feed, quotas, writer } = self;
        let (to_writer, from_control) = mpsc::unbounded_channel();
        let (to_quotas, from_spenders) = mpsc::unbounded_channel();
        let shared = (Arc::clone(&plain), names.clone(), Arc::clone(&feed));
        tokio::spawn(Writer::new(shared, writer, from_control).run());
        tokio::spawn(quotas.run(from_spenders));
        tokio::spawn(Arc::clone(&feed).follow());
        tokio::spawn(Arc::clone(&feed).listen());
        tokio::spawn(read(Reader { plain, names, feed }, inbox.reads));

        let mut writes = inbox.writes;
        let lanes = Lanes { to_writer, to_quotas };
        let mut closing = None;
        while closing.is_none()
            && let Some(write) = writes.recv().await
        {
            closing = lanes.hand_on(write);
        }
        // Later requests are dropped with the channel, and so answered.
        drop(writes);
        let (reply, finished) = Reply::channel();
        lanes.barrier(reply);
        let _ = tokio::time::timeout(CLOSING, finished).await;
        if let Some(reply) = closing {
            reply.send(Ok(()));
        }
    }
}

async fn read(reader: Reader, mut requests: mpsc::Receiver<Read>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(request) = requests.recv().await {
        let is_last = matches!(request, Read::Close(_));
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let reader = reader.clone();
        tokio::spawn(async move {
            reader.answer(request).await;
            drop(permit);
        });
        if is_last {
            return;
        }
    }
}

/// Those who write: quotas apart, because requests wait for them.
struct Lanes {
    to_writer: mpsc::UnboundedSender<ControlWrite>,
    to_quotas: mpsc::UnboundedSender<QuotaWrite>,
}

impl Lanes {
    /// Hands a request on; answers the one that closes.
    fn hand_on(&self, write: Write) -> Option<Reply<()>> {
        let to_writer = |write| drop(self.to_writer.send(write));
        match write {
            Write::Commit(changes, reply, permit) => {
                to_writer(ControlWrite::Commit(changes, reply, permit));
            }
            Write::AddUsage(batch, reply, permit) => {
                to_writer(ControlWrite::AddUsage(batch, reply, permit));
            }
            Write::Tidy(what, reply, permit) => to_writer(ControlWrite::Tidy(what, reply, permit)),
            Write::Reserve(wanted, reply) => {
                drop(self.to_quotas.send(QuotaWrite::Reserve(wanted, Instant::now(), reply)));
            }
            Write::Refund(refunds, reply) => {
                drop(self.to_quotas.send(QuotaWrite::Refund(refunds, reply)));
            }
            Write::Barrier(reply) => self.barrier(reply),
            Write::Close(reply) => return Some(reply),
        }
        None
    }

    /// Answers when both have done what was asked of them before.
    fn barrier(&self, reply: Reply<()>) {
        let (first, written) = oneshot::channel();
        let (second, spent) = oneshot::channel();
        let told = |sender: oneshot::Sender<_>| Reply::to(|done| drop(sender.send(done)));
        drop(self.to_writer.send(ControlWrite::Barrier(told(first))));
        drop(self.to_quotas.send(QuotaWrite::Barrier(told(second))));
        tokio::spawn(async move {
            if let (Ok(written), Ok(spent)) = (written.await, spent.await) {
                reply.send(written.and(spent));
            }
        });
    }
}
