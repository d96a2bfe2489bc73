//! Usage: requests, refusals and tokens by tenant, key, route, plan and day.

mod query;
mod recorder;

pub use query::{Day, Grouping, NotADay, UsageQuery, UsageRow};
pub use recorder::{Caller, UsageBatch, UsageRecorder, Use};
pub(crate) use recorder::{Subject, Totals};
