//! Decides one request: a chain of rate limits, taken all or nothing.
//!
//! A [`Limiter`] holds counters for millions of identities in bounded memory. What they are charged under is a
//! [`Rule`]: a [`Limit`] where it stands. The charges of one request make a [`Chain`], and the limiter's
//! [`Verdict`] on it is one point in time for everybody: a refused request has charged nothing, and nobody
//! is refused because of a charge that is given back.
//!
//! ```
//! use tollgate_engine::{Chain, Charge, Limit, Limiter, Period, Rate, Verdict};
//!
//! # fn main() -> Result<(), tollgate_engine::LimitError> {
//! let limiter = Limiter::new();
//! let user = limiter.define("plan:free", Limit::token_bucket(Rate::per_second(10)).burst(100).build()?);
//! let month = limiter.define("quota", Limit::quota(10_000, Period::Month, "UTC")?);
//!
//! let alice = limiter.identity("alice");
//! let mut chain = Chain::new();
//! chain.push(Charge::new(&user, alice).cost(10));
//! chain.push(Charge::new(&month, alice));
//!
//! assert_eq!(limiter.take(&mut chain), Verdict::Admitted);
//! let tightest = chain.tightest().unwrap();
//! assert_eq!(chain.rule(tightest).name(), "plan:free");
//! assert_eq!(chain.standing(tightest).remaining, 90);
//! # Ok(())
//! # }
//! ```
//!
//! Whoever wants three tiers and nothing else takes [`ThreeTier`]; whoever wants requests to wait rather than
//! be refused, a [`Queue`]. Tests move a [`FakeClock`].

mod absorb;
mod backpressure;
mod cell;
mod chain;
mod clock;
mod counters;
mod eviction;
mod give_back;
mod identity;
mod limiter;
mod locked;
mod queue;
mod rules;
mod slots;
mod sweep;
mod sync;
mod table;
mod take;
mod three_tier;

pub use absorb::Before;
pub use backpressure::{Backpressure, Pending};
pub use chain::{Chain, Charge, Strategy, Verdict};
pub use clock::{Clock, FakeClock, SystemClock};
pub use identity::Identity;
pub use limiter::{Limiter, Stats};
pub use queue::{Arrival, Patience, Queue, QueueRefusal, Turn, Waiting};
pub use rules::Rule;
pub use three_tier::{ThreeTier, Tier, TierRefusal, Tiers};
pub use tollgate_core::{
    Decision, Kind, Limit, LimitError, Period, PolicyName, Rate, Receipt, Refusal, Scope, Span,
    Standing, Time, Window,
};
