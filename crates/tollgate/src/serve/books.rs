//! What requests used, from the workers to the storage.
//!
//! ```text
//! worker: counts alone ──every 50 ms──▶ channel ──▶ bookkeeper: adds up ──▶ storage (one batch under way)
//! ```
//! The bookkeeper always listens, also while the storage is slow or does not work; then it adds up what comes, in
//! bounded memory, until the storage takes it. It ends when the last worker has handed over its last count.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tollgate_engine::Time;
use tollgate_gateway::law::{FoundKey, Outcome, Plane, Record, Recorder};
use tollgate_storage::{Caller, Store, StoreError, UsageBatch, UsageRecorder, Use};

use super::access_log::AccessLog;
use super::refused::{Gathered, Refusals};

/// Before the storage is asked again that did not work.
const PAUSE: Duration = Duration::from_millis(500);
/// How often it is asked again when there is nothing left to do but to stop.
const LAST_TRIES: u32 = 5;

/// What one worker hands over.
#[derive(Debug)]
pub(crate) struct Page {
    usage: UsageBatch,
    refused: Gathered,
}

/// One worker's own book, in which it counts its requests.
#[derive(Debug)]
pub(crate) struct Book {
    log: Arc<AccessLog>,
    usage: RefCell<UsageRecorder>,
    refused: RefCell<Gathered>,
    to: UnboundedSender<Page>,
}

impl Book {
    pub(crate) fn new(log: &Arc<AccessLog>, to: &UnboundedSender<Page>) -> Book {
        Book {
            log: Arc::clone(log),
            usage: RefCell::default(),
            refused: RefCell::default(),
            to: to.clone(),
        }
    }
}

impl Recorder for Book {
    fn wants_details(&self) -> bool {
        self.log.wants_details()
    }

    fn record<F: FoundKey>(
        &self,
        record: &Record,
        (key, plane): (Option<&F>, &Plane),
        now: impl FnOnce() -> Time,
    ) {
        // Whoever was turned away before anybody knew who it was used nothing of anybody's.
        if let (Some(tenant), Some(route)) = (record.tenant, record.route) {
            let policy = plane.in_force().policy();
            let caller = Caller {
                tenant: policy.tenants().all()[tenant].id(),
                key: key.map_or("", FoundKey::id),
                route: policy.routes()[route].name(),
                plan: record.plan.map_or("", |number| policy.plans()[number].name()),
            };
            let refused = matches!(record.outcome, Outcome::Refused { .. });
            let tokens = record.spent();
            self.usage.borrow_mut().count(caller, Use { refused, tokens }, record.began);
        }
        self.refused.borrow_mut().gather(record, (key, plane));
        self.log.record(record, (key, plane), now);
    }

    fn hand_over(&self) {
        let (mut usage, mut refused) = (self.usage.borrow_mut(), self.refused.borrow_mut());
        if !usage.is_empty() || !refused.is_empty() {
            let page = Page { usage: usage.drain(), refused: std::mem::take(&mut *refused) };
            // Nobody listens any more only if the process was told twice to stop.
            drop(self.to.send(page));
        }
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// How the storage does, for metrics.
#[derive(Debug)]
pub(crate) struct StorageState {
    works: AtomicBool,
    lost: AtomicU64,
}

impl StorageState {
    pub(crate) fn new() -> Arc<StorageState> {
        Arc::new(StorageState { works: AtomicBool::new(true), lost: AtomicU64::new(0) })
    }

    /// Whether it took what it was last given.
    pub(crate) fn works(&self) -> bool {
        self.works.load(Relaxed)
    }

    /// Requests that could not be counted.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn note(&self, added: &Result<(), StoreError>) {
        let did_work = self.works.swap(added.is_ok(), Relaxed);
        match added {
            Err(why) if did_work => {
                tracing::error!("usage cannot be stored and waits in memory: {why}");
            }
            Ok(()) if !did_work => tracing::info!("usage is stored again"),
            _ => {}
        }
    }
}

/// Adds up what workers hand over, and stores it.
#[derive(Debug)]
pub(crate) struct Bookkeeper {
    pub(crate) store: Store,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) state: Arc<StorageState>,
}

/// The end of the books.
#[derive(Debug)]
pub(crate) struct Ended(oneshot::Receiver<()>);

impl Ended {
    pub(crate) async fn wait(self) {
        // Nothing is ever sent: it is closed in the end.
        let _ = self.0.await;
    }
}

type Writing = Pin<Box<dyn Future<Output = (UsageBatch, Result<(), StoreError>)> + Send>>;

impl Bookkeeper {
    /// Keeps the books on a thread of its own, until all workers have ended and what they handed over is stored. Whoever asks
    /// the control plane for much must not hold it up: what is not yet stored is lost in a crash.
    pub(crate) fn start(self, pages: UnboundedReceiver<Page>) -> io::Result<Ended> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (has_ended, ended) = oneshot::channel();
        thread::Builder::new().name("books".to_owned()).spawn(move || {
            runtime.block_on(self.keep(pages));
            drop(has_ended);
        })?;
        Ok(Ended(ended))
    }

    /// Until all workers have ended and what they handed over is stored.
    async fn keep(self, mut pages: UnboundedReceiver<Page>) {
        let mut waiting = UsageRecorder::new();
        let (mut writing, mut is_open, mut pause, mut tries): (Option<Writing>, _, _, _) =
            (None, true, None, LAST_TRIES);
        loop {
            if writing.is_none() && pause.is_none() && !waiting.is_empty() {
                writing = Some(self.write(waiting.drain()));
            }
            if !is_open && writing.is_none() && waiting.is_empty() {
                return;
            }
            tokio::select! {
                page = pages.recv(), if is_open => match page {
                    Some(Page { usage, refused }) => {
                        waiting.restore(usage);
                        self.refusals.remember(refused);
                        self.state.lost.store(waiting.lost(), Relaxed);
                    }
                    None => is_open = false,
                },
                (batch, added) = done(&mut writing) => {
                    writing = None;
                    self.state.note(&added);
                    if added.is_err() {
                        waiting.restore(batch);
                        pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
                        if !is_open {
                            tries -= 1;
                            if tries == 0 {
                                tracing::error!("usage that could not be stored is lost");
                                return;
                            }
                        }
                    }
                },
                () = done(&mut pause) => pause = None,
            }
        }
    }

    fn write(&self, batch: UsageBatch) -> Writing {
        let store = self.store.clone();
        Box::pin(async move {
            let added = store.add_usage(batch.clone()).await;
            (batch, added)
        })
    }
}

/// The end of what is under way; never, if nothing is.
async fn done<F: Future + Unpin>(under_way: &mut Option<F>) -> F::Output {
    match under_way {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
