//! Upstreams.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_MS, RateLimit, section};
use crate::text::HttpUrl;

/// A service that requests are forwarded to.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["url"] }, { "required": ["urls"] }]))]
pub struct Upstream {
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// Where its servers are, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub urls: Option<Vec<HttpUrl>>,
    /// When it is too busy for more.
    #[serde(default)]
    pub backpressure: Backpressure,
    /// The longest time to connect, in milliseconds.
    #[serde(default = "connect_timeout")]
    #[schemars(range(min = 1, max = MAX_MS))]
    pub connect_timeout_ms: u64,
    /// The longest time until it begins to answer, in milliseconds.
    #[serde(default = "response_timeout")]
    #[schemars(range(min = 1, max = MAX_MS))]
    pub response_timeout_ms: u64,
    /// Its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

impl Upstream {
    /// Where its servers are, by `url` or `urls`.
    pub fn urls(&self) -> &[HttpUrl] {
        match (&self.url, &self.urls) {
            (Some(url), _) => std::slice::from_ref(url),
            (None, urls) => urls.as_deref().unwrap_or_default(),
        }
    }
}

fn connect_timeout() -> u64 {
    2000
}

fn response_timeout() -> u64 {
    60_000
}

section! {
    /// When an upstream is too busy for more.
    Backpressure {
        /// Above so many requests that it has not begun to answer, more are refused with 503.
        #[schemars(range(min = 1, max = 1_000_000))]
        pub threshold: u64,
    }
}

impl Default for Backpressure {
    fn default() -> Backpressure {
        Backpressure { threshold: 1024 }
    }
}
