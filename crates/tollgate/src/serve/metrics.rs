//! What a scrape of the whole process sees.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_gateway::Counts;
use tollgate_gateway::law::Shared;

use super::books::StorageState;
use super::counting::Counting;
use super::keys::AllKeys;
use super::sharing_metrics;

/// What was counted by the law, the counters, the listener and the storage.
#[derive(Debug)]
pub(crate) struct Scraped {
    pub(crate) shared: Arc<Shared<AllKeys>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) storage: Arc<StorageState>,
    pub(crate) counting: Counting,
}

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.shared.gate().limiter().stats();
        let (held, open) = (stats.held as u64, self.counts.open());
        let keys = (self.shared.keys().stored() + self.shared.plane().keys().len()) as u64;
        for (name, help, value) in [
            ("tollgate_counters_held", "Counters in memory", held),
            ("tollgate_connections_open", "Connections of callers that are open", open),
            ("tollgate_keys_held", "API keys in memory, of the API and of the file", keys),
            (
                "tollgate_storage_up",
                "Whether the storage took what it was last given",
                u64::from(self.storage.works()),
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            (
                "tollgate_counters_evicted",
                "Counters forgotten because they equalled new ones",
                stats.evicted,
            ),
            ("tollgate_counters_overflowed", "Charges to an overflow counter", stats.overflowed),
            ("tollgate_connections", "Connections of callers accepted", self.counts.accepted()),
            (
                "tollgate_connections_over_cap",
                "Connections refused: too many",
                self.counts.over_cap(),
            ),
            ("tollgate_connection_timeouts", "Connections ended: too slow", self.counts.timeouts()),
            (
                "tollgate_quotas_uncounted",
                "Requests that passed although their quota could not be counted",
                self.counting.quota_failures().uncounted,
            ),
            (
                "tollgate_usage_lost",
                "Requests not counted as used, because the storage did not work",
                self.storage.lost(),
            ),
            ("tollgate_panics", "Panics while handling a request", self.counts.panics()),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        if let Some(state) = self.counting.sharing() {
            sharing_metrics::encode(&mut encoder, &state)?;
        }
        self.shared.metrics().encode(encoder)
    }
}
