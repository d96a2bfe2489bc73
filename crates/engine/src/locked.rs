//! The shards of one chain, locked together.

use crate::chain::Charge;
use crate::counters::Counters;
use crate::sync::MutexGuard;
use crate::table::Table;

/// Chains up to this long are decided without allocating.
pub(crate) const SHORT: usize = 8;

/// The tables of all counters of a chain. Unlocked when dropped.
pub(crate) struct Locked<'c> {
    few: [Option<MutexGuard<'c, Table>>; SHORT],
    /// Boxed: next to no chain has any.
    #[allow(clippy::box_collection, reason = "one word to set up and to drop, for every request")]
    more: Option<Box<Vec<MutexGuard<'c, Table>>>>,
}

impl<'c> Locked<'c> {
    /// Nothing locked yet.
    #[inline]
    pub(crate) fn none() -> Locked<'c> {
        Locked { few: [const { None }; SHORT], more: None }
    }

    /// Locks every shard that the charges' counters are in, once each, and tells each charge which table
    /// is its own.
    ///
    /// Most of the time all are free and are taken as they come: nobody waits, so order does not
    /// matter. If one is not, all are released and waited for in ascending order, so that no two chains
    /// wait for each other.
    #[inline]
    pub(crate) fn lock(&mut self, counters: &'c Counters, charges: &mut [Charge<'_>]) {
        let mut taken = 0;
        // Which shards are locked, by the last bits of their numbers: mostly enough to know.
        let mut bits = 0u64;
        for index in 0..charges.len() {
            if charges[index].is_elsewhere() {
                continue;
            }
            let shard = counters.shard_of(charges[index].key());
            charges[index].shard = shard as u32;
            let bit = 1 << (shard % 64);
            if bits & bit != 0
                && let Some(guard) = guard_of_same_shard(charges, index)
            {
                charges[index].guard = guard;
                continue;
            }
            bits |= bit;
            if let Some(place) = self.few.get_mut(taken)
                && let Some(guard) = counters.shards[shard].try_lock()
            {
                *place = Some(guard);
                charges[index].guard = taken as u16;
                taken += 1;
            } else {
                return self.lock_in_order(counters, charges);
            }
        }
    }

    #[cold]
    fn lock_in_order(&mut self, counters: &'c Counters, charges: &mut [Charge<'_>]) {
        self.release();
        let here = |charge: &&mut Charge<'_>| !charge.is_elsewhere();
        for charge in charges.iter_mut().filter(here) {
            charge.shard = counters.shard_of(charge.key()) as u32;
        }
        let all = charges.iter().filter(|charge| !charge.is_elsewhere());
        let mut shards: Vec<u32> = all.map(|charge| charge.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut guards = shards.iter().map(|shard| counters.shards[*shard as usize].lock());
        for place in &mut self.few {
            *place = guards.next();
        }
        self.more = Some(Box::new(guards.collect()));
        for charge in charges.iter_mut().filter(here) {
            let nth = shards.binary_search(&charge.shard).expect("every charge's shard is locked");
            charge.guard = nth as u16;
        }
    }

    /// Unlocks everything.
    pub(crate) fn release(&mut self) {
        self.few = [const { None }; SHORT];
        self.more = None;
    }

    /// The table of a charge's counter.
    #[inline]
    pub(crate) fn table(&mut self, charge: &Charge<'_>) -> &mut Table {
        let nth = usize::from(charge.guard);
        match self.few.get_mut(nth) {
            Some(place) => place.as_mut().expect("every charge was told a table that is locked"),
            None => {
                let more = self.more.as_mut().expect("a charge was told of more tables than few");
                &mut more[nth - SHORT]
            }
        }
    }
}

#[cold]
fn guard_of_same_shard(charges: &[Charge<'_>], index: usize) -> Option<u16> {
    let same = charges[..index].iter().find(|other| other.shard == charges[index].shard);
    same.map(|charge| charge.guard)
}
