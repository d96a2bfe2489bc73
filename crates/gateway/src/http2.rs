//! What HTTP/2 connections have in common, to callers and to upstreams.

use std::time::Duration;

/// What may be under way in one stream without being read. A slow reader holds no more than this of the gateway's memory.
pub(crate) const STREAM_WINDOW: u32 = 256 * 1024;

/// The same for all streams of a caller's connection together. No memory is set aside for it: what is unread was sent with requests
/// that were let in, and each of them may hold a stream's window, over whichever connection it came. So this says only how many
/// uploads may be stuck, 32, before they hold up others of their connection, which may be those of other users behind a proxy. Half of it
/// is what `h2` lets the small frames weigh that nobody has read, before it ends the connection: enough for a stream full of words.
pub(crate) const CALLERS_WINDOW: u32 = 8 * 1024 * 1024;

/// The same for a connection to an upstream. Callers share it who have nothing to do with each other, so it is as large as can be: whoever
/// does not read holds up nobody, and small frames for him end nobody's call. What is unread is bounded by the streams,
/// a hundred a connection. A frame of few bytes takes some 256, and an upstream is trusted not to send only such.
pub(crate) const UPSTREAMS_WINDOW: u32 = (1 << 31) - 1;

/// A caller's connection on which nothing came for so long is asked whether anybody is there,
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);

/// and is closed when nobody answers for so long.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The same for a connection to an upstream. A gRPC server takes pings that come more often than every five minutes for an attack, and
/// ends the connection at the third, with all calls that only wait. A host that vanished is noticed by its kernel's
/// silence, long before.
pub(crate) const PING_UPSTREAM_AFTER: Duration = Duration::from_secs(310);
