//! Where counters are kept besides the limiter's memory: quotas in the storage.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Limiter, SystemClock};
use tollgate_gate::Gate;
use tollgate_policy::shapes;
use tollgate_storage::{QuotaFailures, Quotas, Store};

/// How often quotas that nobody spends are given back what is reserved of them.
const SETTLE_EVERY: Duration = Duration::from_secs(30);

/// Who keeps counters elsewhere. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    quotas: Quotas,
}

impl Counting {
    /// A gate, and who keeps counters for it.
    pub(crate) fn start(settings: &shapes::File, store: &Store) -> (Gate, Counting) {
        let max_keys = usize::try_from(settings.counters.max_keys).unwrap_or(usize::MAX);
        let limiter = Arc::new(Limiter::with_clock(SystemClock::new(), max_keys));
        let quotas = Quotas::new(store.clone(), max_keys, settings.storage.on_error);
        let gate = Gate::over(limiter).keeping(Arc::new(quotas.clone()));
        (gate, Counting { quotas })
    }

    /// Gives back now and then what is held and not needed, for ever.
    pub(crate) async fn keep_tidy(self) {
        loop {
            tokio::time::sleep(SETTLE_EVERY).await;
            self.quotas.settle_idle();
        }
    }

    /// Gives back exactly what is held and was not spent: after the last request.
    pub(crate) async fn close(&self) {
        if let Err(why) = self.quotas.close().await {
            tracing::error!("what was reserved of quotas and not spent is stranded: {why}");
        }
    }

    /// Requests whose quota could not be counted.
    pub(crate) fn quota_failures(&self) -> QuotaFailures {
        self.quotas.failures()
    }
}
