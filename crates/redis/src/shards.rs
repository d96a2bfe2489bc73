//! Into how many parts counters in use are divided.

/// Callers on many threads seldom meet at the same one.
const SHARDS: usize = 64;
/// A shard has room for so many at least, or is the only one: else chance would fill some while others are empty.
const FEWEST: usize = 256;

/// How many shards there are for at most about so many counters.
pub(crate) fn shards_for(max_keys: usize) -> usize {
    (max_keys / FEWEST).clamp(1, SHARDS)
}

/// How many each of them has room for: that may change, their number does not.
pub(crate) fn most_in_shard(max_keys: usize, shards: usize) -> usize {
    max_keys.div_ceil(shards).max(1)
}
