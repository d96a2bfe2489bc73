//! Where things are kept and counted.

use super::{section, words};
use crate::text::{FilePath, Label, RedisPrefix, RedisUrl, Text};

section! {
    /// Where keys, tenants, usage and quotas are kept.
    #[derive(Default)]
    #[schemars(extend("not" = { "required": ["path", "redis"] }))]
    Storage {
        /// The folder of the embedded database.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("default" = Storage::DEFAULT_PATH))]
        pub path: Option<FilePath>,
        /// `true` keeps them in Redis instead, the one of `redis`.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("default" = false))]
        pub redis: bool,
        /// What happens to requests while it fails. To start, it must work: nobody is let in without its keys.
        pub on_error: OnError,
    }
}

impl Storage {
    /// The folder of the embedded database where the file names none.
    pub const DEFAULT_PATH: &'static str = "./tollgate-data";
}

words! {
    /// What happens to requests while the storage fails.
    OnError {
        /// They are refused with 503 where they need it.
        #[default]
        FailClosed,
        /// They pass uncounted.
        FailOpen,
    }

    /// How Redis is reached.
    RedisMode {
        /// One server.
        #[default]
        Single,
        /// A cluster; the URL is of any of its nodes.
        Cluster,
        /// By a sentinel; the URL is the sentinel's.
        Sentinel,
    }

    /// What nodes count together by.
    SyncBackend {
        /// Redis or Valkey.
        #[default]
        Redis,
    }

    /// What happens to requests while Redis fails.
    Fallback {
        /// Each node counts alone.
        #[default]
        LocalOnly,
        /// They pass uncounted.
        FailOpen,
        /// They are refused with 503.
        FailClosed,
    }
}

section! {
    /// Where Redis or Valkey is.
    Redis {
        /// Its URL: of a server, of any node of a cluster, or of a sentinel.
        pub url: RedisUrl,
        /// More nodes of the cluster, or more sentinels, for when the first is gone. They have its user and password.
        pub urls: Vec<RedisUrl>,
        /// How it is reached.
        pub mode: RedisMode,
        /// What sentinels call the server.
        pub master: Label,
        /// The longest that a request waits for it, in milliseconds.
        #[schemars(range(min = 1, max = 60_000))]
        pub timeout_ms: u64,
        /// What the names of all its entries begin with.
        pub prefix: RedisPrefix,
    }
}

impl Default for Redis {
    fn default() -> Redis {
        Redis {
            url: RedisUrl::read("redis://127.0.0.1:6379").expect("the default is a URL"),
            urls: Vec::new(),
            mode: RedisMode::default(),
            master: Label::read("mymaster").expect("the default is a name"),
            timeout_ms: 50,
            prefix: RedisPrefix::read("tollgate").expect("the default is a prefix"),
        }
    }
}

section! {
    /// How the nodes of a cluster count together.
    RateLimitSync {
        /// Whether they do.
        pub enabled: bool,
        /// By what.
        pub backend: SyncBackend,
        /// How often nodes tell one another, in milliseconds.
        #[schemars(range(min = 1, max = 60_000))]
        pub sync_interval_ms: u64,
        /// What happens to requests while the backend fails.
        pub fallback_on_error: Fallback,
    }
}

impl Default for RateLimitSync {
    fn default() -> RateLimitSync {
        RateLimitSync {
            enabled: false,
            backend: SyncBackend::default(),
            sync_interval_ms: 100,
            fallback_on_error: Fallback::default(),
        }
    }
}

section! {
    /// The counters in memory.
    Counters {
        /// The most that are held; above it, new callers share one a limit.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        pub max_keys: u64,
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { max_keys: 1_000_000 }
    }
}

section! {
    /// What is remembered of past requests.
    Usage {
        /// For how many days. The audit does not depend on it: it is kept for 400 days.
        #[schemars(range(min = 1, max = 36_500))]
        pub retention_days: u64,
    }
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { retention_days: 400 }
    }
}
