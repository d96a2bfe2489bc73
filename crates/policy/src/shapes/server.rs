//! What the gateway listens on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_FIGURE, MAX_MS, section};
use crate::text::{AccessLog, Cidr, FilePath, ListenAddress};

section! {
    /// What the gateway listens on, and how much of it it takes.
    Server {
        /// Where callers come: HTTP/1.1 and HTTP/2.
        pub listen: ListenAddress,
        /// Where operators come: admin API, metrics, health.
        pub admin_listen: ListenAddress,
        /// Whether others than this machine may reach it without TLS: its token crosses the network in the clear then.
        pub admin_exposed: bool,
        /// The certificate operators are shown; without it, no TLS there.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub admin_tls: Option<Tls>,
        /// The certificate callers are shown; without it, no TLS.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tls: Option<Tls>,
        /// How many threads serve; `auto` is one a core.
        pub workers: Workers,
        /// Networks whose `X-Forwarded-For` is believed.
        pub trusted_proxies: Vec<Cidr>,
        /// Where a line for every request goes: `none`, `stdout`, or a path.
        pub access_log: AccessLog,
        /// How long to keep accepting after readiness turned 503, in milliseconds.
        #[schemars(range(min = 0, max = MAX_MS))]
        pub drain_delay_ms: u64,
        /// How long to wait for requests under way when stopping, in milliseconds.
        #[schemars(range(min = 0, max = MAX_MS))]
        pub drain_timeout_ms: u64,
        /// Bounds on what one caller can take.
        pub caps: Caps,
    }
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: ListenAddress::localhost(8080),
            admin_listen: ListenAddress::localhost(9090),
            admin_exposed: false,
            admin_tls: None,
            tls: None,
            workers: Workers::default(),
            trusted_proxies: Vec::new(),
            access_log: AccessLog::default(),
            drain_delay_ms: 0,
            drain_timeout_ms: 30_000,
            caps: Caps::default(),
        }
    }
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain, a PEM file.
    pub cert: FilePath,
    /// Its private key, a PEM file.
    pub key: FilePath,
}

/// How many threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Workers {
    /// One a core.
    Auto(Auto),
    /// So many.
    Fixed(#[schemars(range(min = 1, max = 1024))] u64),
}

impl Default for Workers {
    fn default() -> Workers {
        Workers::Auto(Auto::Auto)
    }
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// One a core.
    Auto,
}

section! {
    /// Bounds on what callers can take; 0 is none.
    Caps {
        /// Connections at once.
        #[schemars(range(min = 0, max = 10_000_000))]
        pub connections: u64,
        /// Bytes of a request's headers.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub header_bytes: u64,
        /// Headers of a request.
        #[schemars(range(min = 0, max = 65_536))]
        pub headers: u64,
        /// The longest time until a request's headers have come, in milliseconds.
        #[schemars(range(min = 0, max = MAX_MS))]
        pub header_timeout_ms: u64,
        /// The longest time without a request, in milliseconds.
        #[schemars(range(min = 0, max = MAX_MS))]
        pub idle_timeout_ms: u64,
        /// Bytes of a request's body.
        #[schemars(range(min = 0, max = MAX_FIGURE))]
        pub body_bytes: u64,
        /// The longest time without a byte of a request's body, in milliseconds, until its response begins. A gRPC call has none.
        #[schemars(range(min = 0, max = MAX_MS))]
        pub body_timeout_ms: u64,
    }
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            connections: 20_000,
            header_bytes: 16_384,
            headers: 100,
            header_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            body_bytes: 0,
            body_timeout_ms: 30_000,
        }
    }
}
