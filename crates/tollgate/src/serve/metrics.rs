//! What a scrape of the whole process sees.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_gateway::Counts;
use tollgate_gateway::law::{FileKeys, Shared};

/// What was counted by the law, the counters and the listener.
#[derive(Debug)]
pub(crate) struct Scraped {
    shared: Arc<Shared<FileKeys>>,
    counts: Arc<Counts>,
}

impl Scraped {
    pub(crate) fn new(shared: &Arc<Shared<FileKeys>>, counts: &Arc<Counts>) -> Scraped {
        Scraped { shared: Arc::clone(shared), counts: Arc::clone(counts) }
    }
}

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.shared.gate().limiter().stats();
        let (held, open) = (stats.held as u64, self.counts.open());
        for (name, help, value) in [
            ("tollgate_counters_held", "Counters in memory", held),
            ("tollgate_connections_open", "Connections of callers that are open", open),
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
            ("tollgate_panics", "Panics while handling a request", self.counts.panics()),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        self.shared.metrics().encode(encoder)
    }
}
