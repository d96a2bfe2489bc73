//! Where counters are kept besides the limiter's memory: quotas in the storage, and what nodes share in Redis.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tollgate_engine::{Limiter, SystemClock};
use tollgate_gate::Gate;
use tollgate_policy::shapes;
use tollgate_redis::{SharedCounters, Sharing, SharingState};
use tollgate_storage::{QuotaFailures, Quotas, Store};

use crate::exit::Failure;
use crate::reach;

/// How often quotas that nobody spends are given back what is reserved of them.
const SETTLE_EVERY: Duration = Duration::from_secs(30);

/// How long Redis may take to be told everything at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Who keeps counters elsewhere. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    quotas: Quotas,
    shared: Option<Arc<SharedInRedis>>,
}

/// The counters in Redis, and the thread that talks with it: neither requests nor reloads may hold it up.
#[derive(Debug)]
struct SharedInRedis {
    counters: SharedCounters<SystemClock>,
    runtime: Handle,
    /// Ends the thread when dropped.
    _end: oneshot::Sender<()>,
}

impl Counting {
    /// A gate, and who keeps counters for it. Redis need not be there.
    pub(crate) fn start(
        settings: &shapes::File,
        store: &Store,
    ) -> Result<(Gate, Counting), Failure> {
        let max_keys = usize::try_from(settings.counters.max_keys).unwrap_or(usize::MAX);
        let limiter = Arc::new(Limiter::with_clock(SystemClock::new(), max_keys));
        let quotas = Quotas::new(store.clone(), max_keys, settings.storage.on_error);
        let mut gate = Gate::over(Arc::clone(&limiter)).keeping(Arc::new(quotas.clone()));
        let mut shared = None;
        if settings.rate_limit_sync.enabled {
            let in_redis = SharedInRedis::start(sharing(settings)?, &limiter)?;
            gate = gate.keeping(Arc::new(in_redis.counters.clone()));
            shared = Some(Arc::new(in_redis));
        }
        Ok((gate, Counting { quotas, shared }))
    }

    /// Gives back now and then what is held and not needed, for ever.
    pub(crate) async fn keep_tidy(self) {
        loop {
            tokio::time::sleep(SETTLE_EVERY).await;
            self.quotas.settle_idle();
        }
    }

    /// Gives back exactly what is held and was not spent, and tells what was: after the last request.
    pub(crate) async fn close(&self) {
        if let Err(why) = self.quotas.close().await {
            tracing::error!("what was reserved of quotas and not spent is stranded: {why}");
        }
        if let Some(shared) = &self.shared {
            let counters = shared.counters.clone();
            let closed = shared.runtime.spawn(async move {
                let stranded = tokio::time::timeout(LAST_WORDS, counters.close()).await;
                stranded.is_ok_and(|counters| counters == 0)
            });
            if !closed.await.unwrap_or(false) {
                tracing::error!(
                    "not all that is leased from Redis could be returned, or not in time"
                );
            }
        }
    }

    /// Requests whose quota could not be counted.
    pub(crate) fn quota_failures(&self) -> QuotaFailures {
        self.quotas.failures()
    }

    /// How it goes with Redis, if counters are shared there.
    pub(crate) fn sharing(&self) -> Option<SharingState> {
        self.shared.as_ref().map(|shared| shared.counters.state())
    }
}

impl SharedInRedis {
    fn start(
        sharing: Sharing,
        limiter: &Arc<Limiter<SystemClock>>,
    ) -> Result<SharedInRedis, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let counters = {
            let _here = runtime.enter();
            SharedCounters::start(sharing, limiter)
        };
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("redis".to_owned());
        thread.spawn(move || drop(runtime.block_on(ended)))?;
        Ok(SharedInRedis { counters, runtime: handle, _end: end })
    }
}

fn sharing(settings: &shapes::File) -> Result<Sharing, Failure> {
    let (redis, sync) = (&settings.redis, &settings.rate_limit_sync);
    Ok(Sharing {
        settings: reach::settings(redis)?,
        prefix: redis.prefix.as_str().to_owned(),
        interval: Duration::from_millis(sync.sync_interval_ms),
        fallback: sync.fallback_on_error,
        max_keys: usize::try_from(settings.counters.max_keys).unwrap_or(usize::MAX),
    })
}
