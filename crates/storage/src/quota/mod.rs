//! Quotas: reserved in blocks before they are spent, so that a crash never gives any back.
//!
//! ```text
//! limit ├──── used ────┤─ unspent ─┤──────── free ────────┤
//!       0                          taken                   limit
//!                      in memory ──┘└── durable
//! ```
//! The store knows only `taken`, and it is durable before anything of it is spent. What is unspent when the process is killed is
//! stranded, so it is kept small: one block, a hundredth of the limit at most.

mod account;
mod block;
mod book;
mod keeper;
mod state;

use tollgate_core::Time;

pub use account::{QuotaAccount, Spent};
pub use block::block;
pub use book::QuotaBook;
pub use keeper::{QuotaFailures, Quotas};
pub use state::{Draw, NotSpent, QuotaPeriod, QuotaStanding};

/// Asks the store for more of a quota.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) name: Box<str>,
    pub(crate) period: QuotaPeriod,
    pub(crate) limit: u64,
    pub(crate) amount: u64,
}

/// What the store gave of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) granted: u64,
    /// All that is taken now, with what was granted.
    pub(crate) taken: u64,
}

/// Gives the store back what was not spent.
#[derive(Clone, Debug)]
pub(crate) struct Refund {
    pub(crate) name: Box<str>,
    pub(crate) begins: Time,
    pub(crate) amount: u64,
}
