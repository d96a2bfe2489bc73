//! Bounded memory: what may be forgotten, and what happens when nothing may.
//!
//! A counter that equals a new one is forgotten losslessly, those first that have for longest, and no more of them than are
//! soon needed. Whoever comes again and again has such a counter for a moment between two requests, and must not lose it
//! to newcomers that keep the room for a day: where few counters equal new ones, only those make room that have been
//! unused for a while.
//!
//! To know without looking when there is none, every shard keeps a moment before which none of its counters may go, and
//! the store keeps one for all. Charging only puts that off, so these moments stay true bounds until a counter is added
//! or given something back, which lowers them. As long as nothing was ever evicted they are not known, and cost
//! nothing. Where counters are charged all the time their bounds are always in the past, so a shard that was looked
//! through and had not enough is left alone for a while besides.

use std::time::Duration;

use tollgate_core::Time;

use crate::chain::{Charge, Room};
use crate::counters::Counters;
use crate::identity::Identity;
use crate::slots::Slot;
use crate::sync::Ordering::Relaxed;
use crate::table::Table;

/// Who is charged for identities without a counter of their own.
const OVERFLOW: Identity = Identity(u128::from_be_bytes(*b"overflow counter"));

/// A bound that has not been found out yet: from the beginning there might be something to evict.
pub(crate) const UNKNOWN: u64 = 0;

/// How long it may be believed that nothing can be evicted: the bound is computed without stopping others.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// For how long a counter must have equalled a new one before somebody else gets its room, where few do.
pub(crate) const UNUSED_FOR: Duration = Duration::from_secs(1);

/// Where at least one counter in so many equals a new one, all of them may make room.
const FEW_ARE: usize = 4;

/// How long a shard that had little or nothing to evict is left alone.
const REST: Duration = Duration::from_millis(10);

/// What part of a shard is evicted at once: many newcomers share the price of one look.
const PART: usize = 16;

/// However small a shard is, so many are evicted at once.
const FEW: usize = 8;

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
            if self.worth_looking_at(index) <= now.as_nanos() {
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
            soonest = soonest.min(self.worth_looking_at(index));
        }
        // Unless a counter added meanwhile has lowered it.
        let _ = self.none_before.compare_exchange(believed, soonest, Relaxed, Relaxed);
        false
    }

    /// The moment from which a look through a shard may find something to evict.
    fn worth_looking_at(&self, shard: usize) -> u64 {
        let none_before = self.none_before_in[shard].load(Relaxed);
        none_before.max(self.rests_until[shard].load(Relaxed))
    }

    /// Makes room in a shard, for a few newcomers if it can, and tells for how many. What stays is left as it is, also
    /// under old figures: a chain may have charged one of them, and put it back as it found it.
    pub(crate) fn evict(&self, table: &mut Table, shard: usize, now: Time) -> usize {
        if now.as_nanos() < self.worth_looking_at(shard) {
            return 0;
        }
        self.looked_through.fetch_add(table.len() as u64, Relaxed);
        let rules = self.rules.read();
        let looked_at = |slot: &Slot| {
            let (id, state) = rules.latest(slot.rule, slot.state());
            (id, rules.renewed_at(id, state))
        };
        let mut renewed: Vec<Time> = table.slots().map(|slot| looked_at(slot).1).collect();
        let Some(last) = renewed.len().div_ceil(FEW_ARE).checked_sub(1) else {
            self.none_before_in[shard].store(Time::MAX.as_nanos(), Relaxed);
            return 0;
        };
        // From this moment on not only few of them equal new ones.
        let many_from = *renewed.select_nth_unstable(last).1;
        let are_many = many_from <= now;
        let free_at = |slot: &Slot| match looked_at(slot) {
            (_, renewed) if are_many => renewed,
            (id, renewed) => renewed + UNUSED_FOR.saturating_sub(rules.refilled_for(id)),
        };
        let (mut free, mut soonest) = (Vec::new(), many_from);
        for slot in table.slots() {
            match free_at(slot) {
                at if at <= now => free.push(at),
                at => soonest = soonest.min(at),
            }
        }
        let wanted = (table.len() / PART).max(FEW);
        let mut gone = 0;
        if free.len() > wanted {
            let oldest = *free.select_nth_unstable(wanted - 1).1;
            // No more than wanted, also where a window's end has renewed all at once.
            let mut left = wanted;
            gone = table.retain(|slot| {
                let goes = left > 0 && free_at(slot) <= oldest;
                left -= usize::from(goes);
                !goes
            });
            soonest = now;
        } else if !free.is_empty() {
            gone = table.retain(|slot| free_at(slot) > now);
        }
        if gone < wanted {
            self.rests_until[shard].store((now + REST).as_nanos(), Relaxed);
        }
        self.none_before_in[shard].store(soonest.as_nanos(), Relaxed);
        self.forgot(gone);
        gone
    }

    /// Counts what was evicted.
    pub(crate) fn forgot(&self, counters: usize) {
        self.held.fetch_sub(counters, Relaxed);
        self.evicted.fetch_add(counters as u64, Relaxed);
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

#[cfg(test)]
mod tests {
    use tollgate_core::{Limit, Rate};

    use super::*;
    use crate::{FakeClock, Limiter};

    const CAP: u64 = 20_000;

    /// Clients that come five times a second, whose counters equal new ones most of the time, in a full store flooded by
    /// newcomers that would keep their room for a day. None may lose its counter, and the flood may not cost a look
    /// through shards for each newcomer.
    #[test]
    fn a_mixed_flood_neither_ousts_who_comes_often_nor_makes_newcomers_dear() {
        let clock = FakeClock::default();
        let limiter = Limiter::with_clock(clock.clone(), CAP as usize);
        let define = |name, rate| {
            limiter.define(name, Limit::token_bucket(rate).burst(10).build().expect("good figures"))
        };
        let quick = define("quick", Rate::per_second(20));
        let slow = define("slow", Rate::per_day(1));
        let overflowed = || limiter.counters().overflowed.load(Relaxed);
        let active = |n: u64| limiter.check(&quick, limiter.identity(&("active", n)), 1);
        (0..1_000).for_each(|n| active(n).expect("there is room"));
        for n in 0..CAP - 1_000 {
            let rule = if n % 2 == 0 { &quick } else { &slow };
            limiter.check(rule, limiter.identity(&n), 1).expect("there is room");
        }
        let mut newcomers = 0u64;
        for step in 0..300 {
            clock.advance(Duration::from_millis(10));
            let before = overflowed();
            for n in (step % 20 * 50)..(step % 20 * 50 + 50) {
                assert_eq!(active(n), Ok(()), "client {n} in step {step}");
            }
            assert_eq!(overflowed(), before, "step {step}");
            // Who comes often has come at least once before the flood does.
            for _ in 0..if step < 20 { 0 } else { 400 } {
                newcomers += 1;
                let _ = limiter.check(&slow, limiter.identity(&("late", newcomers)), 1);
            }
        }
        // All others that were unused have made room, and nobody else.
        let stats = limiter.stats();
        assert_eq!((stats.held as u64, stats.evicted), (CAP, (CAP - 1_000) / 2));
        let looked_through = limiter.counters().looked_through.load(Relaxed);
        assert!(looked_through <= 40 * CAP, "{looked_through} for {newcomers}");
    }
}
