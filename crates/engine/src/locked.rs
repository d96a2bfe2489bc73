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
    more: Vec<MutexGuard<'c, Table>>,
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
        let mut locked = Locked { few: [const { None }; SHORT], more: Vec::new() };
        let mut taken = 0;
        for index in 0..charges.len() {
            let (earlier, rest) = charges.split_at_mut(index);
            let charge = &mut rest[0];
            if let Some(same) = earlier.iter().find(|other| other.shard == charge.shard) {
                charge.guard = same.guard;
            } else if taken < SHORT
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
        let more = guards.collect();
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
            None => &mut self.more[nth - SHORT],
        }
    }
}
