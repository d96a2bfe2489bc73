//! The scripts, put together from their files.
//!
//! A script makes every function it has anew on each call, so a chain of buckets, which is nearly every chain, has a
//! script without the other algorithms.

use std::sync::LazyLock;

/// A script and the name the server knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) body: String,
    pub(crate) sha: String,
}

impl Script {
    /// A script of these files in this order.
    pub(crate) fn of(files: &[&str]) -> Script {
        let body = files.join("\n");
        let sha = sha1_smol::Sha1::from(&body).digest().to_string();
        Script { body, sha }
    }
}

/// Where a script has its time from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeFrom {
    /// The server's clock.
    Server,
    /// The last argument: for tests that drive a script and the core at the same moments.
    LastArgument,
}

impl TimeFrom {
    const fn file(self) -> &'static str {
        match self {
            TimeFrom::Server => CLOCK,
            TimeFrom::LastArgument => "local now = tonumber(ARGV[#ARGV])",
        }
    }
}

const CLOCK: &str = include_str!("../scripts/clock.lua");
const NUMBERS: &str = include_str!("../scripts/numbers.lua");
const BUCKET: &str = include_str!("../scripts/bucket.lua");
const WINDOWS: &str = include_str!("../scripts/windows.lua");
const LOG: &str = include_str!("../scripts/log.lua");
const TAKE: &str = include_str!("../scripts/take.lua");
const LEASE: &str = include_str!("../scripts/lease.lua");
const SYNC: &str = include_str!("../scripts/sync.lua");
const GIVE_BACK: &str = include_str!("../scripts/give_back.lua");
const NODES: &str = include_str!("../scripts/nodes.lua");

/// All scripts with one source of time.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) take_buckets: Script,
    pub(crate) take_any: Script,
    pub(crate) give_back: Script,
    pub(crate) lease: Script,
    pub(crate) sync: Script,
    pub(crate) nodes: Script,
}

impl Scripts {
    pub(crate) fn with_time_from(time: TimeFrom) -> Scripts {
        let time = time.file();
        Scripts {
            take_buckets: Script::of(&[time, NUMBERS, BUCKET, TAKE]),
            take_any: Script::of(&[time, NUMBERS, BUCKET, WINDOWS, LOG, TAKE]),
            give_back: Script::of(&[time, NUMBERS, BUCKET, WINDOWS, LOG, GIVE_BACK]),
            lease: Script::of(&[time, NUMBERS, BUCKET, WINDOWS, LEASE]),
            sync: Script::of(&[time, NUMBERS, BUCKET, WINDOWS, SYNC]),
            nodes: Script::of(&[time, NUMBERS, NODES]),
        }
    }

    /// Every script.
    pub(crate) fn all(&self) -> [&Script; 6] {
        let Scripts { take_buckets, take_any, give_back, lease, sync, nodes } = self;
        [take_buckets, take_any, give_back, lease, sync, nodes]
    }
}

/// The scripts on the server's clock.
pub(crate) static SCRIPTS: LazyLock<Scripts> =
    LazyLock::new(|| Scripts::with_time_from(TimeFrom::Server));
