//! Bounded memory: what may be forgotten, and what happens when nothing may.
//!
//! A counter that equals a new one is forgotten losslessly. To know without looking when there is none, every
//! shard keeps a moment before which none of its counters is renewed, and the store keeps one for all.
//! Charging only puts a renewal off, so these moments stay true bounds until a counter is added or given
//! something back, which lowers them. As long as nothing was ever evicted they are not known, and cost nothing.

use std::time::Duration;

use tollgate_core::Time;

use crate::chain::{Charge, Room};
use crate::counters::Counters;
use crate::identity::Identity;
use crate::sync::Ordering::Relaxed;
use crate::table::Table;

/// Who is charged for identities without a counter of their own.
const OVERFLOW: Identity = Identity(u128::from_be_bytes(*b"overflow counter"));

/// A bound that has not been found out yet: from the beginning there might be something to evict.
pub(crate) const UNKNOWN: u64 = 0;

/// How long it may be believed that nothing can be evicted: the bound is computed without stopping others.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// How many counters are looked through in vain for one newcomer, which takes some hundred microseconds: all of a
/// small store, four shards of a large one. The next newcomer goes on from there.
const LOOK_THROUGH: usize = 32_768;

impl Counters {
    /// Whether one more counter may be added to this table.
    #[inline]
    pub(crate) fn has_room(&self, table: &mut Table, key: u128, now: Time) -> bool {
        self.held.load(Relaxed) < self.max_keys.load(Relaxed)
            || self.evict(table, self.shard_of(key), now) > 0
    }

    /// Tries to make room in any shard for a charge that found none in its own, once; after that
    /// the charge goes to its limit's overflow counter. No lock may be held.
    #[cold]
    pub(crate) fn find_room(&self, charge: &mut Charge<'_>, now: Time) {
        self.find_room_to_look(charge, now);
        if charge.room == Room::Overflow && charge.cost > 0 {
            self.overflowed.fetch_add(1, Relaxed);
        }
    }

    /// [`find_room`](Counters::find_room) for whoever charges nothing, which is not told as a charge.
    #[cold]
    pub(crate) fn find_room_to_look(&self, charge: &mut Charge<'_>, now: Time) {
        if charge.room == Room::Unasked && self.make_room(now) {
            charge.room = Room::Made;
        } else {
            charge.room = Room::Overflow;
            charge.set_key(charge.rule.key(OVERFLOW));
        }
    }

    /// Evicts from the next shard that has something to evict.
    fn make_room(&self, now: Time) -> bool {
        let believed = self.none_before.load(Relaxed);
        if now.as_nanos() < believed {
            return false;
        }
        let mut soonest = (now + BELIEVED_FOR).as_nanos();
        let mut looked = 0;
        let first = self.next_for_room.load(Relaxed) % self.shards.len();
        for index in (first..self.shards.len()).chain(0..first) {
            if self.none_before_in[index].load(Relaxed) <= now.as_nanos() {
                self.next_for_room.store(index, Relaxed);
                if looked >= LOOK_THROUGH {
                    return false;
                }
                let mut table = self.shards[index].lock();
                looked += table.len();
                if self.evict(&mut table, index, now) > 0 {
                    return true;
                }
            }
            soonest = soonest.min(self.none_before_in[index].load(Relaxed));
        }
        // Unless a counter added meanwhile has lowered it.
        let _ = self.none_before.compare_exchange(believed, soonest, Relaxed, Relaxed);
        false
    }

    /// Forgets every counter of a shard that equals a new one, and tells how many. The others stay as they are, also under
    /// old figures: a chain may have charged one of them, and put it back as it found it.
    pub(crate) fn evict(&self, table: &mut Table, shard: usize, now: Time) -> usize {
        let none_before = &self.none_before_in[shard];
        if now.as_nanos() < none_before.load(Relaxed) {
            return 0;
        }
        let rules = self.rules.read();
        let mut soonest = Time::MAX;
        let gone = table.retain(|slot| {
            let (id, state) = rules.latest(slot.rule, slot.state());
            let renewed = rules.renewed_at(id, state);
            if renewed > now {
                soonest = soonest.min(renewed);
            }
            renewed > now
        });
        none_before.store(soonest.as_nanos(), Relaxed);
        self.held.fetch_sub(gone, Relaxed);
        self.evicted.fetch_add(gone as u64, Relaxed);
        gone
    }

    /// Remembers that a counter may be renewed at some moment, sooner perhaps than any other.
    #[inline]
    pub(crate) fn note_renewal(&self, key: u128, at: impl Fn() -> Time) {
        for bound in [&self.none_before_in[self.shard_of(key)], &self.none_before] {
            if bound.load(Relaxed) != UNKNOWN {
                bound.fetch_min(at().as_nanos(), Relaxed);
            }
        }
    }

    /// Forgets all bounds: new figures may renew counters sooner.
    pub(crate) fn forget_bounds(&self) {
        for bound in self.none_before_in.iter().chain([&self.none_before]) {
            bound.store(UNKNOWN, Relaxed);
        }
    }
}
