//! One shard's counters: a flat hash table that stays nearly full.
//!
//! Slots are kept in the order of their hash, each at its home (`hash · buckets / 2³²`) or behind the slots
//! that were there first: linear probing in Robin Hood order. A search therefore ends at the first
//! larger hash, a miss costs no more than a hit, and growing is one pass that keeps the order. That
//! allows a load of 7/8 and growth by a sixth, where a table that doubles would be half empty on
//! average: 36 bytes a slot become about 45 bytes a counter.

use std::collections::HashMap;

use tollgate_core::{Log, State};

/// The number of a rule among all that slots may have been written under; 0 is none.
pub(crate) type RuleId = u32;

const EMPTY: RuleId = 0;

/// Packed to 36 bytes: with its alignment of 16 a `u128` would make it 48.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Slot {
    pub(crate) key: u128,
    /// For a log, only the moment it is renewed.
    state: u128,
    pub(crate) rule: RuleId,
}

impl Slot {
    const VACANT: Slot = Slot { key: 0, state: 0, rule: EMPTY };

    pub(crate) fn new(key: u128, rule: RuleId) -> Slot {
        Slot { key, state: 0, rule }
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State::from_bits(self.state)
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state.to_bits();
    }

    #[inline]
    fn is_vacant(&self) -> bool {
        self.rule == EMPTY
    }
}

/// The part of a key that orders slots; the top 32 bits have chosen the shard.
#[inline]
fn rank(key: u128) -> u32 {
    (key >> 64) as u32
}

/// The counters of one shard.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// `buckets` slots, and behind them as many as the last homes' overhang needs.
    slots: Vec<Slot>,
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
    pub(crate) fn find(&self, key: u128) -> Result<usize, usize> {
        let mut index = self.home(key);
        while let Some(slot) = self.slots.get(index) {
            if slot.is_vacant() || rank(slot.key) > rank(key) {
                return Err(index);
            }
            if slot.key == key {
                return Ok(index);
            }
            index += 1;
        }
        Err(index)
    }

    #[inline]
    pub(crate) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// Adds a slot whose key is not in the table, where [`find`](Table::find) would have it, and tells where
    /// that is now.
    pub(crate) fn insert(&mut self, mut index: usize, slot: Slot) -> usize {
        if (self.len + 1) * 8 > self.buckets * 7 {
            self.rebuild(self.buckets + self.buckets / 6 + 8);
            index = match self.find(slot.key) {
                Ok(index) | Err(index) => index,
            };
        }
        self.make_gap(index);
        self.slots[index] = slot;
        self.len += 1;
        index
    }

    /// Moves everything from `index` to the next vacant slot back by one.
    fn make_gap(&mut self, index: usize) {
        let vacant = self.slots[index..].iter().position(Slot::is_vacant);
        let vacant = vacant.map_or(self.slots.len(), |ahead| index + ahead);
        if vacant == self.slots.len() {
            self.slots.push(Slot::VACANT);
        }
        self.slots.copy_within(index..vacant, index + 1);
    }

    /// Removes the slot at `index`, and its log.
    pub(crate) fn remove(&mut self, index: usize) {
        self.forget_log(self.slots[index].key);
        let behind = index + 1;
        let displaced = (behind..self.slots.len())
            .take_while(|&i| !self.slots[i].is_vacant() && self.home(self.slots[i].key) < i)
            .count();
        self.slots.copy_within(behind..behind + displaced, index);
        self.slots[index + displaced] = Slot::VACANT;
        self.len -= 1;
    }

    /// Keeps the slots that `keep` wants, after it may have changed them, and gives memory back where
    /// many went. Tells how many went.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Slot) -> bool) -> usize {
        let before = self.len;
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
        for key in &gone {
            self.forget_log(*key);
        }
        self.len -= gone.len() as u32;
        // Gaps may cut slots off from their homes: the order is restored in any case.
        let needed = self.len + self.len / 4 + 4;
        self.rebuild(if needed < self.buckets / 2 { needed } else { self.buckets });
        (before - self.len) as usize
    }

    /// Lays all slots out anew over `buckets`.
    fn rebuild(&mut self, buckets: u32) {
        let mut slots = Vec::with_capacity(buckets as usize + 8);
        let old = std::mem::take(&mut self.slots);
        self.buckets = buckets;
        for slot in old.into_iter().filter(|slot| !slot.is_vacant()) {
            let home = self.home(slot.key);
            if slots.len() < home {
                slots.resize(home, Slot::VACANT);
            }
            slots.push(slot);
        }
        slots.resize(slots.len().max(buckets as usize), Slot::VACANT);
        self.slots = slots;
    }

    /// A slot and its log, made where there is none yet.
    pub(crate) fn slot_and_log(&mut self, index: usize) -> (&mut Slot, &mut Log) {
        let slot = &mut self.slots[index];
        let log = self.logs.get_or_insert_default().entry(slot.key).or_default();
        (slot, log)
    }

    /// The rules that slots were written under, with repetitions.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RuleId> + '_ {
        self.slots.iter().filter(|slot| !slot.is_vacant()).map(|slot| slot.rule)
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

    #[cfg(test)]
    fn len(&self) -> usize {
        self.len as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

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
                        table.slot_mut(index).set_state(State::from_bits(i as u128));
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

    #[test]
    fn a_slot_has_36_bytes() {
        assert_eq!(size_of::<Slot>(), 36);
    }
}
