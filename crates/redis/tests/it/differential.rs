//! The scripts and the core, driven with the same traces, agree exactly.
//!
//! Ten thousand random traces an algorithm, over every rate and capacity that Redis is said to support, with time that
//! stands still, leaps and goes back. Moments are whole microseconds, which is what the server's clock tells; the core's
//! waits, in nanoseconds, are rounded up to them.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_core::{Counter, Decision, Limit, Period, Rate, Receipt, Refusal, Time, Window};
use tollgate_redis::driven::Driven;
use tollgate_redis::{Answer, Charge, Figures};

use crate::servers::{Brand, Server, on_both};

const TRACES: usize = 10_000;

/// How many traces are driven side by side.
const ABREAST: usize = 1000;

/// 2026-01-01T00:00:00Z in microseconds.
const BEGIN: u64 = 1_767_225_600_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// So many microseconds later, a charge of so much.
    Take { after: i64, cost: u64 },
    /// So much later, the charge so many steps ago is given back.
    GiveBack { after: i64, nth: usize },
}

/// A whole number up to `max`, small ones as likely as large ones.
fn scaled(max: u64) -> impl Strategy<Value = u64> {
    (0..=max.ilog2()).prop_flat_map(move |bits| {
        let low = 1u64 << bits;
        low..=(low.saturating_mul(2) - 1).min(max)
    })
}

fn rate() -> impl Strategy<Value = Rate> {
    let window = proptest::sample::select(&Window::ALL[..]);
    window.prop_flat_map(|w| {
        scaled(Rate::MAX_PER_SECOND * w.secs()).prop_map(move |n| Rate::new(n, w))
    })
}

fn steps(limit: &Limit) -> impl Strategy<Value = Vec<Step>> + use<> {
    let capacity = limit.capacity();
    // In proportion to how fast the counter is renewed, so that traces meet its edges.
    let renewal = match limit.rate() {
        Some(rate) => {
            let window = rate.window().nanos() / 1000;
            let refill = u128::from(capacity) * u128::from(window) / u128::from(rate.tokens());
            (refill as u64).clamp(window / 1000, 1 << 50)
        }
        None => 40 * 86_400 * 1_000_000,
    };
    let after = prop_oneof![
        4 => Just(0),
        8 => scaled(renewal).prop_map(|micros| micros as i64),
        3 => (0..=renewal).prop_map(|micros| micros as i64),
        2 => scaled(2 * renewal).prop_map(|micros| micros as i64),
        1 => scaled(renewal.min(1 << 40)).prop_map(|micros| -(micros as i64)),
    ];
    let cost = prop_oneof![
        6 => scaled(capacity),
        4 => 0..=capacity,
        3 => Just(1),
        1 => scaled(u64::MAX),
        1 => Just(0),
    ];
    let step = prop_oneof![
        9 => (after.clone(), cost).prop_map(|(after, cost)| Step::Take { after, cost }),
        2 => (after, 0usize..4).prop_map(|(after, nth)| Step::GiveBack { after, nth }),
    ];
    proptest::collection::vec(step, 1..16)
}

/// One trace on its way: the core's counter and the names Redis knows it by.
struct Trace {
    key: String,
    figures: Figures,
    steps: Vec<Step>,
    counter: Counter,
    now: u64,
    made: Vec<Made>,
}

struct Made {
    cost: u64,
    receipt: Receipt,
    answer: Answer,
    is_back: bool,
}

/// What the core decided, in microseconds.
fn in_micros(decision: Decision) -> Decision {
    let up = |nanos: u128| Duration::from_micros(u64::try_from(nanos.div_ceil(1000)).unwrap());
    let refusal = decision.refusal.map(|refusal| match refusal {
        Refusal::Wait(nanos) => Refusal::Wait(nanos.div_ceil(1000) * 1000),
        Refusal::Never => Refusal::Never,
    });
    let mut standing = decision.standing;
    standing.reset_after = up(standing.reset_after.as_nanos());
    Decision { refusal, standing }
}

impl Trace {
    fn new(nth: usize, limit: Limit, steps: Vec<Step>) -> Trace {
        let figures = Figures::of(&limit).unwrap();
        let key = format!("{}/{nth}", limit.kind().name());
        Trace { key, figures, steps, counter: Counter::new(limit), now: BEGIN, made: Vec::new() }
    }

    fn charge(&self, cost: u64) -> [Charge<'_>; 1] {
        [Charge::new(&self.key, &self.figures).cost(cost)]
    }

    /// The call of its nth step, if it has one.
    fn call(&mut self, nth: usize, driven: &Driven) -> Option<redis::Cmd> {
        match *self.steps.get(nth)? {
            Step::Take { after, cost } => {
                self.now = self.now.saturating_add_signed(after);
                Some(driven.take(&self.charge(cost), self.now))
            }
            Step::GiveBack { after, nth } => {
                self.now = self.now.saturating_add_signed(after);
                let index = self.made.len().checked_sub(nth + 1)?;
                let made = &self.made[index];
                if made.is_back {
                    return None;
                }
                Some(driven.give_back(&self.charge(made.cost), &made.answer, self.now))
            }
        }
    }

    /// The same step in the core.
    fn check(&mut self, nth: usize, driven: &Driven, value: &redis::Value) {
        let now = Time::from_nanos(self.now * 1000);
        match self.steps[nth] {
            Step::Take { cost, .. } => {
                let expected = self.counter.peek(cost, now);
                let answer = driven.answer(value, &self.charge(cost));
                let answer = answer.unwrap_or_else(|| panic!("{value:?} to {:?}", self.steps[nth]));
                let is_charged = expected.is_allowed() && cost > 0;
                assert_eq!(answer.is_charged(0), is_charged, "{} {self:?} step {nth}", self.key);
                if is_charged {
                    let receipt = self.counter.charge(cost, now);
                    self.made.push(Made { cost, receipt, answer: answer.clone(), is_back: false });
                }
                let got = answer.decisions().next().unwrap();
                assert_eq!(got, in_micros(expected), "{self:?} step {nth}");
            }
            Step::GiveBack { nth: back, .. } => {
                let index = self.made.len() - back - 1;
                self.made[index].is_back = true;
                self.counter.give_back(self.made[index].receipt, now);
            }
        }
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}\n{:?}\nnow {}", self.figures, self.steps, self.now)
    }
}

/// Drives random traces of `limit` through a server and the core.
fn agree(brand: Brand, limit: impl Strategy<Value = Limit>) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    // The same traces every time: a failure can be looked into.
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let trace = limit.prop_flat_map(|limit| (Just(limit.clone()), steps(&limit)));
    let (mut driven_steps, mut refused) = (0, 0);
    for first in (0..TRACES).step_by(ABREAST) {
        let mut traces: Vec<Trace> = (first..first + ABREAST)
            .map(|nth| {
                let (limit, steps) = trace.new_tree(&mut runner).unwrap().current();
                Trace::new(nth, limit, steps)
            })
            .collect();
        for nth in 0..16 {
            let mut pipe = redis::pipe();
            let mut asked = Vec::new();
            for (index, trace) in traces.iter_mut().enumerate() {
                if let Some(cmd) = trace.call(nth, &driven) {
                    pipe.add_command(cmd);
                    asked.push(index);
                }
            }
            if asked.is_empty() {
                continue;
            }
            let values: Vec<redis::Value> = pipe.query(&mut connection).unwrap();
            for (index, value) in asked.into_iter().zip(&values) {
                traces[index].check(nth, &driven, value);
                driven_steps += 1;
                refused += usize::from(
                    matches!(value, redis::Value::Array(all) if all[1] == redis::Value::Int(1)),
                );
            }
        }
        redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    }
    // The traces are worth something only if they meet both answers often.
    assert!(
        driven_steps > 5 * TRACES && refused > driven_steps / 10,
        "{refused} of {driven_steps}"
    );
}

fn buckets(make: fn(Rate) -> tollgate_core::LimitBuilder) -> impl Strategy<Value = Limit> {
    (rate(), prop_oneof![scaled(1 << 53), scaled(1000)])
        .prop_map(move |(rate, capacity)| make(rate).burst(capacity).build().unwrap())
        .prop_filter("in range", |limit| tollgate_redis::supports(limit).is_ok())
}

fn token_buckets_agree(brand: Brand) {
    agree(brand, buckets(Limit::token_bucket));
}

fn leaky_buckets_agree(brand: Brand) {
    agree(
        brand,
        prop_oneof![
            buckets(Limit::leaky_bucket),
            buckets(|rate| Limit::leaky_bucket(rate).paced())
        ],
    );
}

fn gcra_agrees(brand: Brand) {
    agree(brand, buckets(Limit::gcra));
}

fn fixed_windows_agree(brand: Brand) {
    agree(brand, rate().prop_map(|rate| Limit::fixed_window(rate).build().unwrap()));
}

fn sliding_windows_agree(brand: Brand) {
    agree(brand, rate().prop_map(|rate| Limit::sliding_window(rate).build().unwrap()));
}

fn logs_agree(brand: Brand) {
    let window = proptest::sample::select(&Window::ALL[..]);
    let rate = (scaled(65_536), window).prop_map(|(n, w)| Rate::new(n, w));
    agree(brand, rate.prop_map(|rate| Limit::sliding_window_log(rate).build().unwrap()));
}

fn quotas_agree(brand: Brand) {
    let zone = proptest::sample::select(
        &["UTC", "Europe/Vienna", "America/Sao_Paulo", "Asia/Kolkata"][..],
    );
    let period = proptest::sample::select(&Period::ALL[..]);
    agree(
        brand,
        (scaled(1 << 53), period, zone).prop_map(|(n, p, z)| Limit::quota(n, p, z).unwrap()),
    );
}

on_both! {
    token_buckets => token_buckets_agree;
    leaky_buckets => leaky_buckets_agree;
    gcra => gcra_agrees;
    fixed_windows => fixed_windows_agree;
    sliding_windows => sliding_windows_agree;
    logs => logs_agree;
    quotas => quotas_agree;
}
