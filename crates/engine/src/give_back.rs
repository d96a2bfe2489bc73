//! Giving back what a chain was charged: at once if it does not pass after all, or later; all of it, or what one limit took.

use std::ops::Range;

use tollgate_core::Time;

use crate::Rule;
use crate::cell::Cell;
use crate::chain::{Bits, Chain, Charge};
use crate::counters::Counters;
use crate::locked::Locked;
use crate::slots::Slot;

impl Counters {
    /// Gives back what these charges of a chain have taken, at once for everybody. The clock is read when nobody else can charge any
    /// more: as of a moment before another's charge, too much would be given back.
    pub(crate) fn give_back(
        &self,
        chain: &mut Chain<'_>,
        these: Range<usize>,
        clock: impl Fn() -> Time,
    ) {
        let charges = &mut chain.charges[these];
        let mut locked = Locked::none();
        locked.lock(self, charges);
        let now = clock();
        let made = |charge: &&mut Charge<'_>| charge.is_charged && !charge.is_elsewhere();
        for charge in charges.iter_mut().filter(made) {
            charge.is_charged = false;
            let table = locked.table(charge);
            let Ok(slot) = table.find(charge.key()) else { continue };
            // A meter whose figures have changed since keeps the charge: what was seen is in the old
            // figures' units, and too little given back is repaid by time.
            let rule = charge.rule(&chain.successors);
            if understands(rule, table.slot(slot)) {
                let mut cell = Cell::new(table, slot, rule.limit());
                cell.give_back(charge.cost, charge.seen.state(), now);
                self.note_renewal(charge.key(), || cell.renewed_at());
                charge.seen = Bits::of(cell.seen(now));
            }
        }
    }
}

/// Puts back what a chain was charged that does not pass after all, while it is still locked: at the same
/// moment, a charge given back leaves no trace.
#[cold]
pub(crate) fn undo(chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) {
    let made = |charge: &&mut Charge<'_>| charge.is_charged && !charge.is_elsewhere();
    for charge in chain.charges.iter_mut().rev().filter(made) {
        let table = locked.table(charge);
        let rule = charge.rule(&chain.successors);
        if let Ok(slot) = table.find(charge.key())
            && understands(rule, table.slot(slot))
        {
            let mut cell = Cell::new(table, slot, rule.limit());
            cell.give_back(charge.cost, charge.seen.state(), now);
            charge.seen = Bits::of(cell.seen(now));
        }
        charge.is_charged = false;
    }
}

/// Whether what was seen under a rule can be given back to a slot: a meter's state is in units of its figures.
fn understands(rule: &Rule, slot: &Slot) -> bool {
    !rule.limit().kind().has_burst() || slot.rule == rule.id
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Limit, Rate};

    use super::*;
    use crate::{Clock, FakeClock, Limiter};

    /// A chain is undone after the figures of what it charged have changed. Put back in the old figures' units, a
    /// charge of one token was 100 of the new.
    #[test]
    fn undoing_a_chain_never_grants_whatever_became_of_its_counters() {
        let limit = |rate| Limit::token_bucket(Rate::per_second(rate)).burst(100).build();
        for (carried_by, expected) in [("nobody", 50), ("room", 50), ("sweep", 49)] {
            let clock = FakeClock::default();
            let limiter = Limiter::with_clock(clock.clone(), 1_000);
            let counters = limiter.counters();
            let old = limiter.define("user", limit(10).expect("good figures"));
            let alice = limiter.identity("alice");
            limiter.check(&old, alice, 50).expect("full");
            let mut chain = Chain::new();
            chain.push(Charge::new(&old, alice));
            assert!(counters.take(&mut chain, clock.now()).is_admitted());
            let new = limiter.define("user", limit(1_000).expect("good figures"));
            match carried_by {
                "room" => {
                    let shard = counters.shard_of(new.key(alice));
                    counters.evict(&mut counters.shards[shard].lock(), shard, clock.now());
                }
                "sweep" => assert_eq!(limiter.sweep(), 0),
                _ => {}
            }
            let mut locked = Locked::none();
            locked.lock(counters, &mut chain.charges);
            undo(&mut chain, &mut locked, clock.now());
            drop(locked);
            assert_eq!(limiter.peek(&new, alice).remaining, expected, "{carried_by}");
        }
    }
    /// Whoever gives back reads the clock, waits for the lock, and meanwhile eight seconds pass and another charges.
    /// Given back as of before that, eight seconds' worth of tokens were granted a second time.
    #[test]
    fn giving_back_while_another_charges_grants_nothing() {
        let clock = FakeClock::default();
        let limiter = Limiter::with_clock(clock.clone(), 1_000);
        let limit = Limit::token_bucket(Rate::per_second(1)).burst(10).build();
        let rule = limiter.define("user", limit.expect("good figures"));
        let alice = limiter.identity("alice");
        let mut chain = Chain::new();
        chain.push(Charge::new(&rule, alice).cost(10));
        assert!(limiter.take(&mut chain).is_admitted());

        let key = rule.key(alice);
        let shard = &limiter.counters().shards[limiter.counters().shard_of(key)];
        std::thread::scope(|scope| {
            let mut table = shard.lock();
            let giving = scope.spawn(|| limiter.give_back(&mut chain));
            while shard.heat() == 0 {
                std::thread::yield_now();
            }
            clock.advance(std::time::Duration::from_secs(8));
            let place = table.find(key).expect("charged");
            Cell::new(&mut table, place, rule.limit()).charge(5, clock.now());
            drop(table);
            giving.join().expect("no panic");
        });
        assert_eq!(limiter.peek(&rule, alice).remaining, 5);
    }
}
