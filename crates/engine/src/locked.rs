//! The shards of one chain, locked together.

use crate::chain::Charge;
use crate::counters::Counters;
use crate::sync::{MutexGuard, lock, try_lock};
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
    /// Locks every shard that the charges' counters are in, once each, and tells each charge which table
    /// is its own.
    ///
    /// Most of the time all are free and are taken as they come: nobody waits, so order does not
    /// matter. If one is not, all are released and waited for in ascending order, so that no two chains
    /// wait for each other.
    #[inline]
    pub(crate) fn all(counters: &'c Counters, charges: &mut [Charge<'_>]) -> Locked<'c> {
        for charge in &mut *charges {
            charge.shard = counters.shard_of(charge.key()) as u32;
        }
        let mut locked = Locked { few: [const { None }; SHORT], more: None };
        let mut taken = 0;
        // Which shards are locked, by the last bits of their numbers: mostly enough to know.
        let mut bits = 0u64;
        for index in 0..charges.len() {
            let bit = 1 << (charges[index].shard % 64);
            if bits & bit != 0
                && let Some(guard) = guard_of_same_shard(charges, index)
            {
                charges[index].guard = guard;
                continue;
            }
            bits |= bit;
            let charge = &mut charges[index];
            if taken < SHORT
                && let Some(guard) = try_lock(&counters.shards[charge.shard as usize].table)
            {
                charge.guard = taken as u16;
                locked.few[taken] = Some(guard);
                taken += 1;
            } else {
                drop(locked);
                return Locked::all_in_order(counters, charges);
            }
        }
        locked
    }

    #[cold]
    fn all_in_order(counters: &'c Counters, charges: &mut [Charge<'_>]) -> Locked<'c> {
        let mut shards: Vec<u32> = charges.iter().map(|charge| charge.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut guards = shards.iter().map(|shard| lock(&counters.shards[*shard as usize].table));
        let few = std::array::from_fn(|_| guards.next());
        let more = Some(Box::new(guards.collect()));
        for charge in charges {
            let nth = shards.binary_search(&charge.shard).expect("every charge's shard is locked");
            charge.guard = nth as u16;
        }
        Locked { few, more }
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
