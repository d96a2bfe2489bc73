//! What a scrape sees.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Metrics;
use super::cells::{Cells, Histogram};

/// Sums of one metric by its labels.
type Sums = BTreeMap<Vec<(&'static str, String)>, u64>;

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let workers = self.workers.lock();
        let (tiers, endpoints) = (self.tiers.lock(), self.endpoints.lock());
        let (mut requests, mut tokens, mut refusals) = (Sums::new(), Sums::new(), Sums::new());
        let mut usage: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        let mut failures = Sums::new();
        for cells in workers.iter() {
            for series in cells.series.lock().iter() {
                let tier = tiers[series.tier].to_string();
                let endpoint = endpoints[series.endpoint].to_string();
                *requests.entry(vec![("tier", tier.clone())]).or_default() += series.requests.get();
                let labels = vec![("tier", tier.clone()), ("endpoint", endpoint)];
                *tokens.entry(labels).or_default() += series.tokens.get();
                let (mean, weight) = series.usage.weighted();
                // Of what costs nothing there is no share.
                if weight > 0.0 {
                    let (sum, weights) = usage.entry(tier).or_default();
                    (*sum, *weights) = (*sum + mean * weight, *weights + weight);
                }
            }
            for one in cells.refusals.lock().iter() {
                let tier = tiers[one.tier].to_string();
                let labels = vec![("tier", tier), ("policy", one.policy.to_string())];
                *refusals.entry(labels).or_default() += one.count.get();
            }
            for (cause, count) in cells.failures.lock().iter() {
                *failures.entry(vec![("cause", cause.as_str().to_owned())]).or_default() += count;
            }
        }
        family(&mut encoder, "rate_limit_requests", "Requests decided", &requests)?;
        family(&mut encoder, "rate_limit_rejections", "Requests refused by a limit", &refusals)?;
        family(&mut encoder, "rate_limit_tokens_consumed", "Tokens charged", &tokens)?;
        shares(&mut encoder, &usage)?;
        family(
            &mut encoder,
            "tollgate_upstream_failures",
            "Requests no upstream answered",
            &failures,
        )?;
        let total = |of: fn(&Cells) -> u64| workers.iter().map(|cells| of(cells)).sum::<u64>();
        for (name, help, count) in [
            (
                "tollgate_backpressure_rejections",
                "Requests refused because too many are pending",
                total(|cells| cells.overloaded.get()),
            ),
            (
                "tollgate_authentication_failures",
                "Requests with a key that is not good",
                total(|cells| cells.unauthorized.get()),
            ),
            (
                "rate_limit_observed_rejections",
                "Requests that a limit which only observes would have refused",
                total(|cells| cells.observed.get()),
            ),
            (
                "tollgate_uncountable_rejections",
                "Requests refused because where they are counted did not answer",
                total(|cells| cells.uncountable.get()),
            ),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let help = "Seconds to decide one request, sampled";
        histogram(
            &mut encoder,
            "rate_limit_decision_seconds",
            help,
            workers.iter().map(|c| &c.decisions),
        )?;
        let help = "Seconds until an upstream began to answer";
        histogram(
            &mut encoder,
            "tollgate_upstream_seconds",
            help,
            workers.iter().map(|c| &c.upstream),
        )
    }
}

fn family(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, sums: &Sums) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, sum) in sums {
        let one = metric.encode_family(labels)?;
        ConstCounter::new(*sum).encode(one)?;
    }
    Ok(())
}

fn shares(
    encoder: &mut DescriptorEncoder<'_>,
    usage: &BTreeMap<String, (f64, f64)>,
) -> fmt::Result {
    let help = "Mean share of the tightest limit in use, sampled";
    let name = "rate_limit_bucket_usage_pct";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (tier, (sum, weights)) in usage {
        let labels = [("tier", tier.as_str())];
        let one = metric.encode_family(&labels)?;
        ConstGauge::new(sum / weights).encode(one)?;
    }
    Ok(())
}

fn histogram<'h>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    of_workers: impl Iterator<Item = &'h Histogram>,
) -> fmt::Result {
    let (mut counts, mut sum, mut bounds) = (Vec::new(), 0.0, &[][..]);
    for one in of_workers {
        bounds = one.bounds();
        counts.resize(bounds.len() + 1, 0);
        counts.iter_mut().zip(one.counts()).for_each(|(all, more)| *all += more);
        sum += one.sum_seconds();
    }
    let total = counts.iter().sum();
    let upper = bounds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = upper.zip(counts).collect();
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)
}
