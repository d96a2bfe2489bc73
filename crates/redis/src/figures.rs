//! A limit as the scripts take it.
//!
//! Lua's numbers are doubles. The scripts keep every number they compute with below 2⁵³ for all rates and
//! capacities that [`Limit`] allows, by splitting spans and products; only one thing is out of their range: a bucket
//! that takes so long to refill that its moments are no exact numbers of microseconds.

use tollgate_core::remote::{OutOfRange, supports};
use tollgate_core::{Kind, Limit};

/// A limit that Redis can count, with its figures ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    limit: Limit,
    pub(crate) shape: Shape,
    /// The scripts' letter for the algorithm.
    pub(crate) letter: &'static str,
    /// What a counter's `limit` field shows, and is compared by when figures change.
    pub(crate) text: String,
    /// What is sent for it with every charge, but for a quota's calendar.
    pub(crate) sent: [u64; 3],
}

/// What an answer is worked out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `per_us` tokens come every `per_token` microseconds, in lowest terms.
    Bucket {
        per_us: u64,
        per_token: u64,
        paced: bool,
    },
    /// Windows of so many microseconds.
    Fixed(u64),
    Sliding(u64),
    Log(u64),
    Quota,
}

impl Figures {
    /// Prepares a limit.
    pub fn of(limit: &Limit) -> Result<Figures, OutOfRange> {
        supports(limit)?;
        let name = limit.kind().name();
        let capacity = limit.capacity();
        let Some(rate) = limit.rate() else {
            let (period, zone) = limit.calendar().unwrap_or((tollgate_core::Period::Day, "UTC"));
            let text = format!("{name} {capacity} {} {zone}", period.name());
            return Ok(Figures {
                limit: limit.clone(),
                shape: Shape::Quota,
                letter: "q",
                text,
                sent: [0; 3],
            });
        };
        let window = rate.window().nanos() / 1000;
        let of = |shape, letter| Figures {
            limit: limit.clone(),
            shape,
            letter,
            text: format!("{name} {capacity} {window}us"),
            sent: [window, 0, 0],
        };
        match limit.kind() {
            Kind::FixedWindow => Ok(of(Shape::Fixed(window), "f")),
            Kind::SlidingWindow => Ok(of(Shape::Sliding(window), "s")),
            Kind::SlidingWindowLog => Ok(of(Shape::Log(window), "l")),
            Kind::TokenBucket | Kind::LeakyBucket | Kind::Gcra | Kind::Quota => {
                let divisor = gcd(rate.tokens(), window);
                let (per_us, per_token) = (rate.tokens() / divisor, window / divisor);
                let refill =
                    (u128::from(capacity) * u128::from(per_token)).div_ceil(u128::from(per_us));
                let paced = limit.is_paced();
                let name = if paced { "paced_leaky_bucket" } else { name };
                Ok(Figures {
                    limit: limit.clone(),
                    shape: Shape::Bucket { per_us, per_token, paced },
                    letter: if paced { "p" } else { "b" },
                    text: format!("{name} {capacity} {per_us}/{per_token}us"),
                    sent: [per_us, per_token, refill as u64],
                })
            }
        }
    }

    /// The limit they are of.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.limit.capacity()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
