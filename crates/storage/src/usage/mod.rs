//! Usage: requests, refusals and tokens by tenant, key, route, plan and day.

mod query;
mod recorder;
mod sums;

pub use query::{Day, Grouping, NotADay, UsageCursor, UsagePage, UsageQuery, UsageRow};
pub use recorder::{Caller, UsageBatch, UsageRecorder, Use};
pub(crate) use recorder::{Subject, Totals};
pub(crate) use sums::{FirstSums, Ranks};
