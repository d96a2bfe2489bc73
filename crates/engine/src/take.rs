//! Taking a chain all or nothing, and giving it back.

use tollgate_core::{Algorithm, Form, Limit, Refusal, State, Time};

use crate::Rule;
use crate::cell::Cell;
use crate::chain::{Bits, Chain, Charge, Room, Successors, Verdict, join_log};
use crate::counters::Counters;
use crate::locked::Locked;
use crate::slots::{Place, Slot};
use crate::sync::Ordering::Relaxed;
use crate::table::Table;

/// Why a chain is not simply admitted.
enum Hitch {
    /// Some limit would not let it pass.
    Refused,
    /// The store is full, and nothing can be evicted from the shard of the charge at this index.
    Full(usize),
}

impl Counters {
    /// Decides a chain all or nothing.
    #[inline]
    pub(crate) fn take(&self, chain: &mut Chain<'_>, now: Time) -> Verdict {
        chain.decided_at = now;
        let mut locked = Locked::none();
        loop {
            locked.lock(self, &mut chain.charges);
            match self.take_locked(chain, &mut locked, now) {
                Ok(()) => return Verdict::Admitted,
                Err(Hitch::Refused) => return self.settle(chain, &mut locked, now),
                Err(Hitch::Full(index)) => {
                    undo(chain, &mut locked, now);
                    locked.release();
                    self.find_room(&mut chain.charges[index], now);
                }
            }
        }
    }

    /// Tells of every charge where its counter stands and whether it would pass, and charges none.
    pub(crate) fn look(&self, chain: &mut Chain<'_>, now: Time) {
        chain.decided_at = now;
        let mut locked = Locked::none();
        loop {
            locked.lock(self, &mut chain.charges);
            match self.look_locked(chain, &mut locked, now) {
                Ok(()) => return,
                Err(index) => {
                    locked.release();
                    self.find_room_to_look(&mut chain.charges[index], now);
                }
            }
        }
    }

    /// As [`take_locked`](Counters::take_locked) does for what comes behind a charge that blocks the chain. The
    /// error is the place of a charge for which there is no room.
    fn look_locked(
        &self,
        chain: &mut Chain<'_>,
        locked: &mut Locked<'_>,
        now: Time,
    ) -> Result<(), usize> {
        let (charges, successors) = (&mut chain.charges[..], &mut chain.successors);
        for index in 0..charges.len() {
            let charge = &mut charges[index];
            if charge.is_elsewhere() {
                continue;
            }
            let table = locked.table(charge);
            match table.find(charge.key()) {
                Ok(slot) => {
                    self.take_found(table, slot, charge, successors, true, now);
                    refuse_for_ever(charges, index, successors);
                }
                Err(_) if !self.take_new(table, charges, index, successors, now) => {
                    return Err(index);
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes charge by charge as long as all pass. Nobody sees it before the locks are released, so what was
    /// taken in vain is simply put back.
    #[inline]
    fn take_locked(
        &self,
        chain: &mut Chain<'_>,
        locked: &mut Locked<'_>,
        now: Time,
    ) -> Result<(), Hitch> {
        let (charges, successors) = (&mut chain.charges[..], &mut chain.successors);
        let (mut refused, mut blocked, mut new) = (false, false, false);
        for index in 0..charges.len() {
            let charge = &mut charges[index];
            if charge.is_elsewhere() {
                continue;
            }
            let table = locked.table(charge);
            match table.find(charge.key()) {
                Ok(slot) => self.take_found(table, slot, charge, successors, blocked, now),
                Err(_) if !self.take_new(table, charges, index, successors, now) => {
                    return Err(Hitch::Full(index));
                }
                Err(_) => new = true,
            }
            if charges[index].refusal().is_some() {
                refused = true;
                refuse_for_ever(charges, index, successors);
            }
            blocked |= charges[index].blocks();
        }
        if refused {
            return Err(Hitch::Refused);
        }
        if new {
            self.add_new(chain, locked, now);
        }
        Ok(())
    }

    /// Charges a counter that is there, if it passes and nothing before it `blocked` the chain.
    #[inline]
    fn take_found(
        &self,
        table: &mut Table,
        slot: Place,
        charge: &mut Charge<'_>,
        successors: &mut Successors,
        blocked: bool,
        now: Time,
    ) {
        (charge.is_new, charge.successor) = (false, 0);
        if !charge.rule.decides(table.slot(slot)) {
            self.reconcile(table.slot(slot), charge, successors, now);
        }
        let limit = charge.rule(successors).limit();
        let Form::Flat(flat) = limit.form() else {
            return take_log(table, slot, charge, limit, blocked, now);
        };
        let slot = table.slot(slot);
        let mut state = slot.state();
        let refusal = match blocked {
            false => flat.take(&mut state, charge.cost, now),
            true => flat.refusal(&state, charge.cost, now),
        };
        slot.set_state(state);
        charge.set_refusal(refusal);
        charge.is_charged = refusal.is_none() && !blocked && charge.cost > 0;
        charge.seen = Bits::of(state);
    }

    /// Asks a limit under which the identity has no counter yet; `false` if there is no room for one.
    #[cold]
    fn take_new(
        &self,
        table: &mut Table,
        charges: &mut [Charge<'_>],
        index: usize,
        successors: &mut Successors,
        now: Time,
    ) -> bool {
        let cost = cost_together(charges, index);
        let charge = &mut charges[index];
        if charge.room != Room::Overflow && !self.has_room(table, charge.key(), now) {
            return false;
        }
        (charge.is_new, charge.is_charged) = (true, false);
        self.succeed(charge, successors);
        let limit = charge.rule(successors).limit();
        let capacity = limit.capacity();
        charge.set_refusal((cost > capacity).then_some(Refusal::Never));
        charge.seen = Bits::of(match limit.form() {
            Form::Flat(_) => State::NEW,
            Form::Log(_) => join_log(capacity, Time::EPOCH),
        });
        true
    }

    /// Adds and charges the counters that were missing, once the chain is admitted.
    #[cold]
    fn add_new(&self, chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) {
        let new = |charge: &&mut Charge<'_>| {
            charge.is_new && charge.cost > 0 && charge.refusal().is_none()
        };
        for charge in chain.charges.iter_mut().filter(new) {
            let rule = charge.rule(&chain.successors);
            let table = locked.table(charge);
            let slot = match table.find(charge.key()) {
                // Another charge of this chain has added it, perhaps under other figures.
                Ok(slot) => {
                    self.rules.read().bring_to(rule, table.slot(slot), now);
                    slot
                }
                Err(place) => {
                    self.held.fetch_add(1, Relaxed);
                    table.insert(place, Slot::new(charge.key(), rule.id))
                }
            };
            let mut cell = Cell::new(table, slot, rule.limit());
            cell.charge(charge.cost, now);
            (charge.seen, charge.is_charged) = (Bits::of(cell.seen(now)), true);
            self.note_renewal(charge.key(), || cell.renewed_at());
        }
    }

    /// What becomes of a chain that not every limit let pass.
    #[cold]
    fn settle(&self, chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) -> Verdict {
        let verdict = chain.verdict_on_refusals();
        if verdict.is_admitted() {
            self.add_new(chain, locked, now);
        } else {
            undo(chain, locked, now);
        }
        verdict
    }

    /// Gives back everything a chain was charged, at once for everybody. The clock is read when nobody else can charge any
    /// more: as of a moment before another's charge, too much would be given back.
    pub(crate) fn give_back(&self, chain: &mut Chain<'_>, clock: impl Fn() -> Time) {
        let mut locked = Locked::none();
        locked.lock(self, &mut chain.charges);
        let now = clock();
        let made = |charge: &&mut Charge<'_>| charge.is_charged && !charge.is_elsewhere();
        for charge in chain.charges.iter_mut().filter(made) {
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

    /// Brings a slot that was written under other figures to the charge's own, or to what has taken their place.
    #[cold]
    pub(crate) fn reconcile(
        &self,
        slot: &mut Slot,
        charge: &mut Charge<'_>,
        successors: &mut Successors,
        now: Time,
    ) {
        let rules = self.rules.read();
        charge.successor = rules.successor_of(charge.rule).map_or(0, |new| successors.add(new));
        let rule = charge.rule(successors);
        if slot.rule != rule.id {
            rules.bring_to(rule, slot, now);
        }
    }

    /// Lets what has taken the place of the charge's rule decide, for a counter that is not there yet.
    #[cold]
    pub(crate) fn succeed(&self, charge: &mut Charge<'_>, successors: &mut Successors) {
        charge.successor = 0;
        if charge.rule.is_superseded() {
            let newest = self.rules.read().successor_of(charge.rule);
            charge.successor = newest.map_or(0, |new| successors.add(new));
        }
    }
}

/// What a chain charges one counter with, up to the charge at `index` and with it: those before it that pass count too.
#[cold]
fn cost_together(charges: &[Charge<'_>], index: usize) -> u64 {
    let (key, cost) = (charges[index].key(), charges[index].cost);
    let passing = |other: &&Charge<'_>| other.key() == key && other.refusal().is_none();
    let earlier = charges[..index].iter().filter(passing).map(|other| other.cost);
    earlier.fold(cost, u64::saturating_add)
}

/// Where a chain charges one counter with more than that can ever have, waiting does not help, though each charge alone
/// would only have to wait.
#[cold]
fn refuse_for_ever(charges: &mut [Charge<'_>], index: usize, successors: &Successors) {
    let capacity = charges[index].rule(successors).limit().capacity();
    if cost_together(charges, index) > capacity {
        charges[index].set_refusal(Some(Refusal::Never));
    }
}

/// Puts back what a chain was charged that does not pass after all, while it is still locked: at the same
/// moment, a charge given back leaves no trace.
#[cold]
fn undo(chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) {
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

/// [`Counters::take_found`] for a log.
#[cold]
fn take_log(
    table: &mut Table,
    slot: Place,
    charge: &mut Charge<'_>,
    limit: &Limit,
    blocked: bool,
    now: Time,
) {
    let mut cell = Cell::new(table, slot, limit);
    let refusal = cell.refusal(charge.cost, now);
    charge.is_charged = refusal.is_none() && !blocked && charge.cost > 0;
    if charge.is_charged {
        cell.charge(charge.cost, now);
    }
    charge.set_refusal(refusal);
    charge.seen = Bits::of(cell.seen(now));
}

#[cfg(test)]
mod tests {
    use tollgate_core::Rate;

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
            while shard.meetings() == 0 {
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
