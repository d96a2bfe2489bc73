//! Taking a chain all or nothing.

use tollgate_core::{Algorithm, Form, Limit, Refusal, State, Time};

use crate::cell::Cell;
use crate::chain::{Bits, Chain, Charge, Room, Successors, Verdict, join_log};
use crate::counters::Counters;
use crate::give_back::undo;
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
