//! Plans.

use super::{Named, OneOrMany, Quota, RateLimit, section};
use crate::text::OperationName;

section! {
    /// A named bundle of limits and quotas.
    #[derive(Default)]
    Plan {
        /// The plan's limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rate_limit: Option<RateLimit>,
        /// Limits of operations, by name, besides the plan's own.
        pub operations: Named<OperationName, RateLimit>,
        /// The balance of a period, or several.
        pub quota: OneOrMany<Quota>,
    }
}
