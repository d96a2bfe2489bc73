//! What a keeper holds of each counter in use, found by the hash that the gate knows the counter by.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// Callers on many threads seldom meet at the same one.
const SHARDS: usize = 64;
/// A shard has room for so many at least, or is the only one: else chance would fill some while others are empty.
const FEWEST: usize = 256;

/// Handles to counters in use, at most so many.
pub struct Handles<T> {
    shards: Box<[Mutex<Shard<T>>]>,
    most_in_shard: AtomicUsize,
    /// Whether handles can be made again, the same as before.
    is_cache: bool,
}

type Shard<T> = HashMap<u128, Held<T>, BuildHasherDefault<HashedAlready>>;

struct Held<T> {
    handle: Arc<T>,
    /// Whether anybody has asked for it since the last sweep.
    is_in_use: bool,
}

impl<T> Handles<T> {
    /// For at most about so many counters.
    pub fn new(most: usize) -> Handles<T> {
        // A power of two: which one a hash is in is asked for every request.
        let many = 1 << (most / FEWEST).clamp(1, SHARDS).ilog2();
        let shards = std::iter::repeat_with(Mutex::default).take(many).collect();
        let handles = Handles { shards, most_in_shard: AtomicUsize::new(0), is_cache: false };
        handles.set_most(most);
        handles
    }

    /// From now on for at most about so many.
    pub fn set_most(&self, most: usize) {
        self.most_in_shard.store(most.div_ceil(self.shards.len()).max(1), Relaxed);
    }

    /// For at most about so many counters that others keep, so that a handle which nobody holds can be forgotten at any moment:
    /// newcomers always find room.
    pub fn cache(most: usize) -> Handles<T> {
        Handles { is_cache: true, ..Handles::new(most) }
    }

    /// The handle of a counter, made if there is none.
    ///
    /// # Errors
    ///
    /// What `make` failed with, or `full` if there are as many as may be and all are in use.
    #[inline]
    pub fn get_or<E>(
        &self,
        hash: u128,
        make: impl FnOnce() -> Result<T, E>,
        full: impl FnOnce() -> E,
    ) -> Result<Arc<T>, E> {
        let mut shard = self.shard(hash).lock();
        if let Some(held) = shard.get_mut(&hash) {
            held.is_in_use = true;
            return Ok(Arc::clone(&held.handle));
        }
        let most = self.most_in_shard.load(Relaxed);
        if shard.len() >= most {
            shard.retain(|_, held| Arc::strong_count(&held.handle) > 1 || held.is_in_use);
            if self.is_cache && shard.len() >= most {
                shard.retain(|_, held| Arc::strong_count(&held.handle) > 1);
            }
            if shard.len() >= most {
                // Of a cache all are held at this moment: this one is not kept for the next.
                return if self.is_cache { make().map(Arc::new) } else { Err(full()) };
            }
        }
        let handle = Arc::new(make()?);
        shard.insert(hash, Held { handle: Arc::clone(&handle), is_in_use: true });
        Ok(handle)
    }

    /// Other bits say which than those that its table looks at.
    #[inline]
    fn shard(&self, hash: u128) -> &Mutex<Shard<T>> {
        &self.shards[(hash >> 64) as usize & (self.shards.len() - 1)]
    }

    /// Hands over those that nobody holds nor has asked for since the last call, and forgets them if `is_done` with them.
    pub fn sweep(&self, mut is_done: impl FnMut(&Arc<T>) -> bool) {
        for shard in &self.shards {
            shard.lock().retain(|_, held| {
                let was_in_use = std::mem::take(&mut held.is_in_use);
                was_in_use || Arc::strong_count(&held.handle) > 1 || !is_done(&held.handle)
            });
        }
    }

    /// Forgets all that nobody holds: of a cache nothing is lost with them.
    pub fn forget(&self) {
        for shard in &self.shards {
            shard.lock().retain(|_, held| Arc::strong_count(&held.handle) > 1);
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<T>> {
        let of = |shard: &Mutex<Shard<T>>| -> Vec<Arc<T>> {
            shard.lock().values().map(|held| Arc::clone(&held.handle)).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> fmt::Debug for Handles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").field("len", &self.len()).finish()
    }
}

/// The gate's hashes need no hashing.
#[derive(Clone, Copy, Debug, Default)]
struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}
