//! What HTTP/2 connections have in common, to callers and to upstreams.

use std::time::Duration;

/// What may be under way in one stream without being read. A slow reader holds no more than this of the gateway's memory.
pub(crate) const STREAM_WINDOW: u32 = 256 * 1024;

/// The same for all streams of a connection together.
pub(crate) const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// A connection on which nothing came for so long is asked whether anybody is there,
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);

/// and is closed when nobody answers for so long.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);
