//! The whole file.

use super::{
    Auth, Counters, Defaults, Key, Named, Plan, RateLimitSync, Redis, Route, Server, Storage,
    Tenant, Upstream, Usage, section,
};
use crate::text::{PlanName, UpstreamName};

section! {
    /// The configuration of Tollgate. Every section may be left out.
    #[derive(Default)]
    #[schemars(title = "Tollgate configuration")]
    File {
        /// What the gateway listens on.
        pub server: Server,
        /// Who is let in.
        pub auth: Auth,
        /// Where keys, tenants, usage and quotas are kept.
        pub storage: Storage,
        /// Where Redis or Valkey is.
        pub redis: Redis,
        /// How the nodes of a cluster count together.
        pub rate_limit_sync: RateLimitSync,
        /// The counters in memory.
        pub counters: Counters,
        /// What is remembered of past requests.
        pub usage: Usage,
        /// Limits of callers that nothing else limits.
        pub defaults: Defaults,
        /// The services that requests are forwarded to, by name.
        pub upstreams: Named<UpstreamName, Upstream>,
        /// Which requests go where, and what they cost.
        pub routes: Vec<Route>,
        /// Bundles of limits and quotas, by name.
        pub plans: Named<PlanName, Plan>,
        /// The tree of tenants, in any order.
        pub tenants: Vec<Tenant>,
        /// Keys, by their SHA-256; others come from the API.
        pub keys: Vec<Key>,
    }
}
