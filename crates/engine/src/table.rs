//! One shard's counters: a flat hash table that stays nearly full.
//!
//! Slots are kept in the order of their hash, each at its home (`hash · buckets / 2³²`) or behind the slots
//! that were there first: linear probing in Robin Hood order. A search therefore ends at the first
//! larger hash, a miss costs no more than a hit, and growing is one pass that keeps the order. That
//! allows a load of 7/8 and growth by a quarter, where a table that doubles would be half empty on
//! average: 36 bytes a slot become 42 to 52 bytes a counter.
//!
//! Tags of a byte beside the slots, as hashbrown has them, made filling a fifth faster and everything else
//! slower: two cache lines for every look-up instead of one. Lower loads (13/16, 3/4), growing by eighths, made
//! look-ups among a million a twentieth slower and filling a tenth: what is won in steps is lost in memory.

use std::collections::HashMap;

use tollgate_core::Log;

use crate::slots::{CHUNK, Place, Slot, Slots, vacant_chunk};

/// Slots that are nobody's home, for those that find theirs taken near the end.
const OVERHANG: usize = 16;

/// The part of a key that orders slots; the top 32 bits have chosen the shard.
#[inline]
fn rank(key: u128) -> u32 {
    (key >> 64) as u32
}

/// As few chunks as may hold so many slots.
fn chunks_for(slots: usize) -> usize {
    match slots {
        0 => 0,
        _ => ((slots * 8).div_ceil(7) + OVERHANG).div_ceil(CHUNK),
    }
}

/// The counters of one shard.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Slots,
    /// How many homes there are: fewer than slots, because the last homes need some behind them.
    buckets: u32,
    len: u32,
    /// Logs have no flat state.
    #[allow(
        clippy::box_collection,
        reason = "most tables have none, and a shard fits a cache line"
    )]
    logs: Option<Box<HashMap<u128, Log>>>,
}

impl Table {
    #[inline]
    fn home(&self, key: u128) -> usize {
        ((u64::from(rank(key)) * u64::from(self.buckets)) >> 32) as usize
    }

    /// Where the key is, or where it would be inserted.
    #[inline]
    pub(crate) fn find(&self, key: u128) -> Result<Place, Place> {
        let mut place = Place::of(self.home(key));
        loop {
            let run = self.slots.run(place);
            for (ahead, slot) in run.iter().enumerate() {
                if slot.key == key && !slot.is_vacant() {
                    return Ok(place.offset_by(ahead));
                }
                if slot.is_vacant() || rank(slot.key) > rank(key) {
                    return Err(place.offset_by(ahead));
                }
            }
            // On in the next chunk, which is rare.
            place = Place::of(place.index() + run.len());
            if run.is_empty() {
                return Err(place);
            }
        }
    }

    #[inline]
    pub(crate) fn slot(&mut self, place: Place) -> &mut Slot {
        self.slots.at(place)
    }

    /// Adds a slot whose key is not in the table, where [`find`](Table::find) would have it, and tells where
    /// that is now.
    pub(crate) fn insert(&mut self, mut place: Place, slot: Slot) -> Place {
        if (self.len + 1) * 8 > self.buckets * 7 {
            self.grow();
            place = self.place_of(slot.key);
        }
        let vacant = self.next_vacant(place);
        if vacant == self.slots.len() {
            // The overhang is used up, which happens only by bad luck: it becomes a chunk longer.
            self.slots.push(vacant_chunk());
        }
        self.slots.shift_up(place.index(), vacant);
        *self.slots.at(place) = slot;
        self.len += 1;
        place
    }

    fn place_of(&self, key: u128) -> Place {
        match self.find(key) {
            Ok(place) | Err(place) => place,
        }
    }

    fn next_vacant(&self, place: Place) -> usize {
        let run = self.slots.run(place);
        let mut index = place.index();
        match run.iter().position(Slot::is_vacant) {
            Some(ahead) => index + ahead,
            None => {
                index += run.len();
                while self.slots.get(index).is_some_and(|slot| !slot.is_vacant()) {
                    index += 1;
                }
                index
            }
        }
    }

    /// Removes a slot, and its log.
    pub(crate) fn remove(&mut self, place: Place) {
        let key = self.slots.at(place).key;
        self.forget_log(key);
        let mut gap = place.index();
        while let Some(&next) = self.slots.get(gap + 1)
            && !next.is_vacant()
            && self.home(next.key) <= gap
        {
            *self.slots.at(Place::of(gap)) = next;
            gap += 1;
        }
        *self.slots.at(Place::of(gap)) = Slot::VACANT;
        self.len -= 1;
    }

    /// Keeps the slots that `keep` wants, after it may have changed them, and gives memory back where
    /// many went. Tells how many went.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Slot) -> bool) -> usize {
        let mut gone = Vec::new();
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_vacant()) {
            if !keep(slot) {
                gone.push(slot.key);
                *slot = Slot::VACANT;
            }
        }
        if gone.is_empty() {
            return 0;
        }
        gone.iter().for_each(|key| self.forget_log(*key));
        self.len -= gone.len() as u32;
        self.lay_out(chunks_for(self.len as usize));
        gone.len()
    }

    /// Adds chunks, and spreads all slots over them.
    fn grow(&mut self) {
        let chunks = self.slots.chunks();
        self.lay_out(chunks + 1 + chunks / 4);
    }

    /// Lays all slots out in so many chunks, which must be enough for them. They are in order already, so one
    /// pass does it, into chunks that have just been emptied.
    fn lay_out(&mut self, chunks: usize) {
        let old = std::mem::take(&mut self.slots);
        self.buckets = (chunks * CHUNK).saturating_sub(OVERHANG) as u32;
        let mut spare = Vec::new();
        let mut next = 0;
        for mut chunk in old.into_chunks() {
            for slot in chunk.iter().filter(|slot| !slot.is_vacant()) {
                let place = self.home(slot.key).max(next);
                while self.slots.len() <= place {
                    self.slots.push(spare.pop().unwrap_or_else(vacant_chunk));
                }
                *self.slots.at(Place::of(place)) = *slot;
                next = place + 1;
            }
            chunk.fill(Slot::VACANT);
            spare.push(chunk);
        }
        while self.slots.chunks() < chunks {
            self.slots.push(spare.pop().unwrap_or_else(vacant_chunk));
        }
    }

    /// A slot and its log, made where there is none yet.
    pub(crate) fn slot_and_log(&mut self, place: Place) -> (&mut Slot, &mut Log) {
        let slot = self.slots.at(place);
        let log = self.logs.get_or_insert_default().entry(slot.key).or_default();
        (slot, log)
    }

    /// Every slot with a counter.
    pub(crate) fn slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| !slot.is_vacant())
    }

    /// The log of a key, if it has one.
    pub(crate) fn log(&self, key: u128) -> Option<&Log> {
        self.logs.as_ref()?.get(&key)
    }

    fn forget_log(&mut self, key: u128) {
        if let Some(logs) = &mut self.logs {
            logs.remove(&key);
        }
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use tollgate_core::State;

    use super::*;

    /// Keys that crowd into few homes, so that every case of displacement occurs.
    fn key() -> impl Strategy<Value = u128> {
        (0u128..8, 0u128..40).prop_map(|(rank, low)| (rank << 93) | (low + 1))
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u128),
        Remove(u128),
        RetainOdd,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => key().prop_map(Op::Insert),
            3 => key().prop_map(Op::Remove),
            1 => Just(Op::RetainOdd),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in proptest::collection::vec(op(), 1..300)) {
            let (mut table, mut model) = (Table::default(), HashMap::new());
            for (i, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Insert(key) if !model.contains_key(&key) => {
                        let place = table.find(key).expect_err("not there yet");
                        let index = table.insert(place, Slot::new(key, 1 + i as u32));
                        table.slot(index).set_state(State::from_bits(i as u128));
                        model.insert(key, (1 + i as u32, i as u128));
                    }
                    Op::Insert(_) => {}
                    Op::Remove(key) => {
                        prop_assert_eq!(table.find(key).is_ok(), model.remove(&key).is_some());
                        if let Ok(index) = table.find(key) {
                            table.remove(index);
                        }
                    }
                    Op::RetainOdd => {
                        let went = table.retain(|slot| slot.state().to_bits() % 2 == 1);
                        let before = model.len();
                        model.retain(|_, (_, state)| *state % 2 == 1);
                        prop_assert_eq!(went, before - model.len());
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for (key, (rule, state)) in &model {
                    let index = table.find(*key).map_err(|_| TestCaseError::fail("lost a key"))?;
                    prop_assert_eq!({ table.slot(index).rule }, *rule);
                    prop_assert_eq!(table.slot(index).state().to_bits(), *state);
                }
            }
        }
    }

    /// Even if all keys wanted the last home, they would find a place behind it.
    #[test]
    fn keys_that_crowd_at_the_end_find_places() {
        let mut table = Table::default();
        let key = |n: u128| (0xffff_ffff << 64) | n;
        for n in 0..2_000 {
            let place = table.find(key(n)).expect_err("not there yet");
            table.insert(place, Slot::new(key(n), 1));
        }
        assert!((0..2_000).all(|n| table.find(key(n)).is_ok()));
        for n in (0..2_000).step_by(2) {
            let place = table.find(key(n)).expect("there");
            table.remove(place);
        }
        assert_eq!(table.retain(|slot| { slot.key } % 3 != 0), 333);
        assert!((1..2_000).step_by(2).all(|n| table.find(key(n)).is_ok() == (n % 3 != 0)));
    }

    #[test]
    fn a_slot_has_36_bytes() {
        assert_eq!(size_of::<Slot>(), 36);
    }
}
