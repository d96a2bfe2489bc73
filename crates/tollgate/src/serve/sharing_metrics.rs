//! What a scrape sees of Redis, where counters are shared there.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_redis::SharingState;

pub(crate) fn encode(encoder: &mut DescriptorEncoder<'_>, state: &SharingState) -> fmt::Result {
    for (name, help, value) in [
        (
            "tollgate_redis_up",
            "Whether Redis can be asked: 0 while the circuit breaker is open",
            f64::from(u8::from(state.is_up)),
        ),
        (
            "tollgate_nodes",
            "Nodes that count together, when they were last counted",
            state.nodes as f64,
        ),
        ("tollgate_hybrid_counters", "Hybrid counters in use here", state.hybrid_in_use as f64),
        (
            "tollgate_hybrid_staleness_seconds",
            "The longest that a charge made on another node stays unknown here: two intervals and the longest round trip of the last one or two minutes",
            state.staleness.as_secs_f64(),
        ),
        (
            "tollgate_hybrid_overshoot_bound",
            "What others consumed of one hybrid counter in that time, at most, in the last one or two minutes: no more is admitted above its limit",
            state.overshoot as f64,
        ),
    ] {
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    for (name, help, value) in [
        (
            "tollgate_redis_breaker_opened",
            "How often the circuit breaker before Redis opened",
            state.times_opened,
        ),
        (
            "tollgate_redis_fallbacks",
            "Charges that `fallback_on_error` decided because Redis could not be asked",
            state.fallbacks,
        ),
        (
            "tollgate_hybrid_unshared",
            "Charges of hybrid counters that other nodes are not told of: more than `counters.max_keys` are in use",
            state.unshared,
        ),
    ] {
        let counter = ConstCounter::new(value);
        counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
    }
    let (name, help) = ("tollgate_redis_seconds", "Seconds that calls to Redis took");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let buckets = &state.took.buckets;
    let total = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(state.took.seconds, total, buckets, None)
}
