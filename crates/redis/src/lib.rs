//! Rate limits that many nodes share, counted in Redis or Valkey.
//!
//! [`Strict`] asks Redis for every request: a whole chain of limits is decided all or nothing by one script, on the
//! server's own clock, with the same arithmetic as [`tollgate_core`]. What a limit needs for that is prepared once, as
//! [`Figures`]; limits that Redis cannot count exactly are refused there, in words. [`Leases`] take slices of a counter's
//! tokens, which a node
//! spends by itself. With [`Hybrid`] nodes decide by themselves and tell one another soon after.

mod abandoned;
mod answer;
mod calendar;
mod calls;
mod command;
#[doc(hidden)]
pub mod driven;
mod error;
mod figures;
mod held;
mod hybrid;
mod keeper;
mod latencies;
mod lease;
mod ledger;
mod link;
mod moving;
mod newest;
mod nodes;
mod owed;
mod pipeline;
mod plain;
mod scripts;
mod settings;
mod shards;
mod slice;
mod slot;
mod slots;
mod strict;

pub use answer::Answer;
pub use command::Charge;
pub use error::Unavailable;
pub use figures::Figures;
pub use hybrid::Hybrid;
pub use keeper::{SharedCounters, Sharing, SharingState};
pub use latencies::Took;
pub use lease::Leases;
pub use plain::{Lua, Plain, Subscription};
pub use settings::{BadUrl, Mode, Settings};
pub use strict::Strict;
pub use tollgate_core::remote::{NotLeased, OutOfRange, supports};
