//! A map of headers that somebody is done with: the next one takes its place in memory.

use std::cell::Cell;

use http::HeaderMap;

thread_local! {
    static SPARE: Cell<Option<HeaderMap>> = const { Cell::new(None) };
}

/// A map with more room than this is not kept.
pub(crate) const MOST_ROOM: usize = 64;

/// An empty one.
pub(crate) fn take() -> HeaderMap {
    SPARE.take().unwrap_or_default()
}

/// Keeps it for the next one who wants one.
pub(crate) fn give_back(mut map: HeaderMap) {
    if map.capacity() <= MOST_ROOM {
        map.clear();
        SPARE.set(Some(map));
    }
}
