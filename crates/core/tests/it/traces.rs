//! Random figures and random traffic, at every scale at once.

use proptest::prelude::*;
use tollgate_core::{Kind, Limit, MAX_CAPACITY, Period, Rate, Time, Window};

pub const KINDS: [Kind; 6] = [
    Kind::TokenBucket,
    Kind::SlidingWindow,
    Kind::SlidingWindowLog,
    Kind::FixedWindow,
    Kind::LeakyBucket,
    Kind::Gcra,
];

/// 2026-01-01T00:00:00Z, where traces begin.
pub const BEGIN: Time = Time::from_secs(1_767_225_600);

/// A whole number up to `max`, small ones as likely as large ones.
pub fn scaled(max: u64) -> impl Strategy<Value = u64> {
    (0..=max.ilog2()).prop_flat_map(move |bits| {
        let low = 1u64 << bits;
        low..=(low.saturating_mul(2) - 1).min(max)
    })
}

pub fn window() -> impl Strategy<Value = Window> {
    proptest::sample::select(&Window::ALL[..])
}

/// From one a day to 10⁹ a second.
pub fn rate() -> impl Strategy<Value = Rate> {
    window().prop_flat_map(|w| {
        scaled(Rate::MAX_PER_SECOND * w.secs()).prop_map(move |n| Rate::new(n, w))
    })
}

/// A token bucket, leaky bucket or GCRA over the whole range that is promised.
pub fn meter() -> impl Strategy<Value = (Rate, u64, Limit)> {
    let kinds = [Kind::TokenBucket, Kind::LeakyBucket, Kind::Gcra];
    (proptest::sample::select(kinds.to_vec()), rate(), scaled(1_000_000_000)).prop_map(
        |(kind, rate, capacity)| {
            (rate, capacity, Limit::of(kind, rate).burst(capacity).build().unwrap())
        },
    )
}

/// Any of the six, or a leaky bucket that releases evenly.
pub fn limit() -> impl Strategy<Value = Limit> {
    let small = (window(), scaled(65_536)).prop_map(|(w, n)| Rate::new(n, w));
    prop_oneof![
        3 => meter().prop_map(|(.., limit)| limit),
        1 => (rate(), scaled(1_000_000_000)).prop_map(|(rate, capacity)| {
            Limit::leaky_bucket(rate).burst(capacity).paced().build().unwrap()
        }),
        1 => rate().prop_map(|rate| Limit::fixed_window(rate).build().unwrap()),
        2 => rate().prop_map(|rate| Limit::sliding_window(rate).build().unwrap()),
        2 => small.prop_map(|rate| Limit::sliding_window_log(rate).build().unwrap()),
    ]
}

/// One request: so long after the one before, so costly.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub after: u64,
    pub cost: u64,
}

const DAY: u64 = 86_400 * 1_000_000_000;
const YEAR: u64 = 365 * DAY;

/// Requests from nanoseconds to a year apart, many at the same moment, with costs to 2³².
pub fn steps(capacity: u64) -> impl Strategy<Value = Vec<Step>> {
    steps_after(prop_oneof![2 => Just(0), 5 => scaled(DAY), 1 => Just(YEAR)], capacity)
}

/// Requests at most `span` nanoseconds apart.
pub fn steps_within(capacity: u64, span: u64) -> impl Strategy<Value = Vec<Step>> {
    steps_after(prop_oneof![2 => Just(0), 5 => scaled(span)], capacity)
}

/// Nanoseconds in which an empty bucket is full again, up to a year.
pub fn refilled_in(rate: Rate, capacity: u64) -> u64 {
    let nanos =
        u128::from(capacity) * u128::from(rate.window().nanos()) / u128::from(rate.tokens());
    u64::try_from(nanos).map_or(YEAR, |nanos| nanos.clamp(1, YEAR))
}

fn steps_after(
    after: impl Strategy<Value = u64>,
    capacity: u64,
) -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![8 => scaled(capacity), 1 => Just(1), 1 => scaled(1 << 32)];
    let step = (after, cost).prop_map(|(after, cost)| Step { after, cost });
    proptest::collection::vec(step, 1..60)
}

/// A limit with traffic in proportion to it.
pub fn limit_and_steps() -> impl Strategy<Value = (Limit, Vec<Step>)> {
    limit().prop_flat_map(|limit| {
        let steps = steps(limit.capacity());
        (Just(limit), steps)
    })
}

pub fn quota() -> impl Strategy<Value = Limit> {
    let zone = proptest::sample::select(&["UTC", "Europe/Vienna", "Pacific/Apia"][..]);
    (scaled(MAX_CAPACITY), proptest::sample::select(&Period::ALL[..]), zone)
        .prop_map(|(limit, period, zone)| Limit::quota(limit, period, zone).unwrap())
}

/// All seven.
pub fn limit_or_quota_and_steps() -> impl Strategy<Value = (Limit, Vec<Step>)> {
    prop_oneof![8 => limit().boxed(), 2 => quota().boxed()].prop_flat_map(|limit| {
        let steps = steps(limit.capacity());
        (Just(limit), steps)
    })
}

pub fn later(time: Time, nanos: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}

pub fn earlier(time: Time, nanos: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_sub(nanos))
}
