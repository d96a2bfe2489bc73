//! Six exact rate-limiting algorithms as pure functions.
//!
//! A [`Limit`] is an algorithm with figures that make sense. It is asked and charged through one
//! interface, [`Algorithm`]: `(state, cost, now) → (state, decision)`. Nothing here reads a clock, does I/O or
//! keeps anything to itself; a store decides where states live.
//!
//! | algorithm | admits | state |
//! |---|---|---|
//! | token bucket, leaky bucket, GCRA | at most `capacity + rate · T` in every interval of length `T` | 16 bytes |
//! | fixed window | at most the rate in each aligned window | 16 bytes |
//! | sliding window | at most the rate by a two-counter estimate | 16 bytes |
//! | sliding window log | at most the rate in any window | a log |
//! | quota | at most the limit in each calendar period of a time zone | 16 bytes |
//!
//! All arithmetic is on integers and exact: nothing drifts, and a caller that waits as long as it is told
//! passes. A [`Counter`] puts a limit and one state together for whoever needs no store.

mod algorithm;
mod counter;
mod decision;
mod error;
mod fixed_window;
mod flat;
mod limit;
mod meter;
mod name;
mod quota;
mod rate;
pub mod remote;
mod sliding_log;
mod sliding_window;
mod state;
mod time;

pub use algorithm::{Algorithm, Receipt};
pub use counter::Counter;
pub use decision::{Decision, Refusal, Standing};
pub use error::LimitError;
pub use flat::Flat;
pub use limit::{Form, Kind, Limit, LimitBuilder, MAX_CAPACITY, MAX_LOG_RATE};
pub use name::{PolicyName, Scope, Span};
pub use quota::Period;
pub use rate::Rate;
pub use sliding_log::{Log, SlidingLog};
pub use state::State;
pub use time::{Time, Window};
