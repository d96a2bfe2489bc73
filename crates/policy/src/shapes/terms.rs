//! What every rate limit says, wherever it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_FIGURE, MAX_MS, MAX_RATE, section, words};
use crate::text::UpstreamName;

/// How fast, in the long run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sustained {
    /// Tokens a window.
    #[schemars(range(min = 1, max = MAX_RATE))]
    pub rate: u64,
    /// What the rate is counted in.
    #[serde(default)]
    pub window: Window,
}

/// How much at once.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The most tokens that can be spent at once after a rest.
    #[schemars(range(min = 1, max = MAX_FIGURE))]
    pub capacity: u64,
}

words! {
    /// What a rate is counted in.
    Window {
        /// A second.
        #[default]
        Second,
        /// A minute.
        Minute,
        /// An hour.
        Hour,
        /// A day.
        Day,
    }

    /// How a limit counts.
    Algorithm {
        /// Tokens are refilled at the rate, up to the capacity.
        #[default]
        TokenBucket,
        /// The previous window counts by the share of it still in view.
        SlidingWindow,
        /// Every request of the last window is remembered; the rate is at most 65,536.
        SlidingWindowLog,
        /// Each window, aligned to UTC, has the limit anew.
        FixedWindow,
        /// A bucket that leaks at the rate; with strategy `queue` it lets requests out evenly.
        LeakyBucket,
        /// The generic cell rate algorithm.
        Gcra,
    }

    /// Whose requests share one counter.
    Scope {
        /// Everybody's.
        Global,
        /// A tenant's.
        #[default]
        Tenant,
        /// A user's inside a tenant; a key's where it names no user.
        User,
        /// An IP address's; of IPv6, a /64's.
        Ip,
        /// A route's.
        Route,
    }

    /// What happens to a request above the limit.
    Strategy {
        /// It is refused with 429.
        #[default]
        Reject,
        /// It waits its turn, within the bounds of `queue`.
        Queue,
        /// It is forwarded, marked as degraded.
        Degrade,
        /// Nothing: what would have happened is counted and reported.
        Observe,
    }

    /// How the nodes of a cluster count together; all but `local` need `rate_limit_sync`.
    Consistency {
        /// Each node alone, the full limit on each.
        #[default]
        Local,
        /// Each node decides, and tells the others every sync interval.
        Hybrid,
        /// Redis decides every request.
        Strict,
        /// A node takes a slice of tokens and spends it alone.
        Lease,
    }
}

/// What a limit says besides its rate and cost. Every field may be left out.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Terms {
    /// How it counts.
    pub algorithm: Algorithm,
    /// How much at once; the sustained rate's tokens if left out. The window algorithms have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Whose requests share one counter.
    pub scope: Scope,
    /// What happens to a request above the limit.
    pub strategy: Strategy,
    /// Whether responses tell of limits. `false` on any limit of a request silences all its limit headers
    /// but `Retry-After`.
    pub response_headers: bool,
    /// The bounds of strategy `queue`.
    pub queue: Queue,
    /// What strategy `degrade` does.
    pub degrade: Degrade,
    /// How the nodes of a cluster count together; `hybrid` where `rate_limit_sync` is on, else `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Consistency>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            algorithm: Algorithm::default(),
            burst: None,
            scope: Scope::default(),
            strategy: Strategy::default(),
            response_headers: true,
            queue: Queue::default(),
            degrade: Degrade::default(),
            consistency: None,
        }
    }
}

section! {
    /// The bounds of strategy `queue`.
    Queue {
        /// The longest wait, in milliseconds. One known to be longer refuses at once.
        #[schemars(range(min = 1, max = MAX_MS))]
        pub max_wait_ms: u64,
        /// The most requests that wait, for each counter and tenant.
        #[schemars(range(min = 1, max = 1_000_000))]
        pub max_depth: u64,
    }
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { max_wait_ms: 1000, max_depth: 100 }
    }
}

section! {
    /// What strategy `degrade` does.
    #[derive(Default)]
    Degrade {
        /// Where it forwards to; the same upstream if left out. Requests that are degraded to another one are not charged to
        /// that one's `rate_limit`; its `backpressure` counts.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub upstream: Option<UpstreamName>,
    }
}
