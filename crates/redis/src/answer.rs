//! What a script answered, worked out with the same formulas as in core's algorithms, in microseconds.
//!
//! A script decides and writes; it returns its counters as it left them. What remains, how long to wait and the
//! verdict follow from that here, in integers of 128 bits.

use std::time::Duration;

use tollgate_engine::{Decision, Refusal, Standing, Strategy, Time, Verdict};

use crate::figures::{Figures, Shape};
use crate::owed::InView;

/// A counter as a script left it: the three figures that its algorithm tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) one: i64,
    pub(crate) two: i64,
    pub(crate) three: i64,
}

/// Where a counter stands at `now`, in microseconds.
pub(crate) fn standing(figures: &Figures, left: Left, now: i64) -> Standing {
    let limit = figures.capacity();
    let used = |count: i64| limit.saturating_sub(unsigned(count));
    let (remaining, reset) = match figures.shape {
        Shape::Bucket { per_us, per_token, paced } => {
            let missing = missing(limit, per_token, left);
            let remaining = match paced {
                true if missing > 0 => 0,
                true => limit,
                false => unsigned(left.one),
            };
            (remaining, micros(missing, per_us))
        }
        Shape::Fixed(window) => (used(left.one), unsigned(left.two + window as i64 - now)),
        Shape::Quota => (used(left.one), unsigned(left.two - now)),
        Shape::Log(window) => {
            let reset = if left.two == 0 { 0 } else { left.two + window as i64 - now };
            (used(left.one), unsigned(reset))
        }
        Shape::Sliding(window) => {
            let windows = match (left.two, left.one) {
                (0, 0) => 0,
                (_, 0) => 1,
                _ => 2,
            };
            let end = left.three + windows * window as i64;
            let reset = if windows == 0 { 0 } else { end - now };
            let faded = u128::from(unsigned(left.two)) * u128::from(window - elapsed(left, now));
            let faded = faded.div_ceil(u128::from(window)) as u64;
            (used(left.one).saturating_sub(faded), unsigned(reset))
        }
    };
    Standing { limit, remaining, reset_after: Duration::from_micros(reset) }
}

/// How long until a counter is new again of which so much is left, or which is so much in debt.
pub(crate) fn renewed_after(figures: &Figures, rest: i64, now: Time) -> Duration {
    let micros = match figures.shape {
        Shape::Bucket { per_us, per_token, .. } => {
            let left = Left { one: rest, two: 0, three: 0 };
            micros(missing(figures.capacity(), per_token, left), per_us)
        }
        _ => InView::of(figures, now).lasts(now).unwrap_or(0),
    };
    Duration::from_micros(micros)
}

/// Why `cost` was refused.
pub(crate) fn refusal(figures: &Figures, left: Left, cost: u64, now: i64) -> Refusal {
    let limit = figures.capacity();
    if cost > limit {
        return Refusal::Never;
    }
    let wait = match figures.shape {
        Shape::Bucket { per_us, per_token, paced } => {
            let wanted = if paced { limit } else { cost };
            micros(missing(wanted, per_token, left), per_us)
        }
        Shape::Fixed(window) => unsigned(left.two + window as i64 - now),
        Shape::Quota => unsigned(left.two - now),
        Shape::Log(_) => unsigned(left.three - now),
        Shape::Sliding(window) => {
            let fades_to = |count: u64, room: u64| {
                let visible =
                    (u128::from(room) * u128::from(window)).checked_div(u128::from(count));
                let visible = visible.and_then(|v| u64::try_from(v).ok()).unwrap_or(u64::MAX);
                window.saturating_sub(visible)
            };
            let room = limit - cost;
            let (count, previous) = (unsigned(left.one), unsigned(left.two));
            let passes_at = match room.checked_sub(count) {
                Some(free) => unsigned(left.three) + fades_to(previous, free),
                None => unsigned(left.three) + window + fades_to(count, room),
            };
            passes_at.saturating_sub(unsigned(now))
        }
    };
    Refusal::Wait(wait.max(1).saturating_mul(1000))
}

/// Units of 1/`per_token` that a bucket lacks to `wanted` tokens; nothing if it has more.
fn missing(wanted: u64, per_token: u64, left: Left) -> u128 {
    let lacking = (i128::from(wanted) - i128::from(left.one)) * i128::from(per_token);
    u128::try_from(lacking - i128::from(left.two)).unwrap_or(0)
}

/// Microseconds in which so many units come, rounded up.
fn micros(units: u128, per_us: u64) -> u64 {
    u64::try_from(units.div_ceil(u128::from(per_us))).unwrap_or(u64::MAX)
}

fn elapsed(left: Left, now: i64) -> u64 {
    unsigned(now - left.three)
}

/// Times that have passed and counts in debt are nothing.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// What became of a chain, and where its counters stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    verdict: Verdict,
    decided_at: Time,
    pub(crate) parts: Vec<Part>,
}

/// What one charge was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) decision: Decision,
    pub(crate) left: Left,
    /// The server's time of the decision, in microseconds.
    pub(crate) at: i64,
    pub(crate) is_charged: bool,
    pub(crate) is_known: bool,
}

impl Part {
    /// One that nobody could be asked about, of a chain that is refused whatever it would be answered.
    pub(crate) fn unknown(figures: &Figures) -> Part {
        let limit = figures.capacity();
        let standing = Standing { limit, remaining: 0, reset_after: Duration::ZERO };
        Part {
            decision: Decision { refusal: None, standing },
            left: Left { one: 0, two: 0, three: 0 },
            at: 0,
            is_charged: false,
            is_known: false,
        }
    }
}

impl Answer {
    pub(crate) fn new(
        parts: Vec<Part>,
        strategies: impl Iterator<Item = Strategy> + Clone,
    ) -> Answer {
        let refusals = parts.iter().map(|part| part.decision.refusal);
        let verdict = Verdict::of(strategies.zip(refusals));
        let last = parts.iter().map(|part| part.at).max().unwrap_or(0);
        Answer { verdict, decided_at: Time::from_nanos(unsigned(last).saturating_mul(1000)), parts }
    }

    /// What becomes of the request.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// When it was decided, by the server's clock.
    pub fn decided_at(&self) -> Time {
        self.decided_at
    }

    /// What each charge was answered, in order.
    pub fn decisions(&self) -> impl ExactSizeIterator<Item = Decision> + '_ {
        self.parts.iter().map(|part| part.decision)
    }

    /// Whether the charge at `index` was answered. Of a chain that one slot of a cluster has refused, others may not be: their
    /// [decisions](Answer::decisions) say nothing.
    pub fn is_known(&self, index: usize) -> bool {
        self.parts.get(index).is_some_and(|part| part.is_known)
    }

    /// Whether the charge at `index` was made.
    pub fn is_charged(&self, index: usize) -> bool {
        self.parts.get(index).is_some_and(|part| part.is_charged)
    }
}
