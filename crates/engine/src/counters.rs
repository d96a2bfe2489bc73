//! Counters for millions of identities, in bounded memory.
//!
//! Counters are spread over shards by their key, each shard behind a small lock. A chain locks the shards of
//! all its counters in ascending order, asks every limit, and charges only if the verdict admits; then it
//! unlocks. So a decision is one point in time for everybody (linearizable), a refused request has written
//! nothing, and nobody can see, or be refused by, a charge that is taken back.

use tollgate_core::{Algorithm, Flat, Form, Limit, Refusal, State, Time};

use crate::cell::Cell;
use crate::chain::{Bits, Chain, Charge, Room, Successors, Verdict, join_log};
use crate::locked::Locked;
use crate::rules::{Found, Rules};
use crate::slots::{Place, Slot};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering::Relaxed, RwLock, lock};
use crate::table::Table;
use crate::{Identity, Rule};

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) shards: Box<[Shard]>,
    /// For each shard a moment before which nothing in it can be evicted.
    pub(crate) none_before_in: Box<[AtomicU64]>,
    pub(crate) rules: RwLock<Rules>,
    pub(crate) max_keys: usize,
    /// How many counters are held, in all shards.
    pub(crate) held: AtomicUsize,
    /// No shard has anything to evict before this moment.
    pub(crate) none_before: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) overflowed: AtomicU64,
}

/// On a cache line of its own, so that neighbours do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Shard {
    pub(crate) table: Mutex<Table>,
}

/// Why a chain is not simply admitted.
enum Hitch {
    /// Some limit would not let it pass.
    Refused,
    /// The store is full, and nothing can be evicted from the shard of the charge at this index.
    Full(usize),
}

/// A shard holds about this many counters when the store is full: few enough to look through at once, and
/// enough that a store with few counters does not scatter them.
const SHARD_KEYS: usize = 8192;

impl Counters {
    pub(crate) fn new(max_keys: usize) -> Counters {
        let shards = (max_keys / SHARD_KEYS).next_power_of_two().clamp(16, 1 << 16);
        let never = Time::MAX.as_nanos();
        let shard = || Shard { table: Mutex::new(Table::default()) };
        let bound = || AtomicU64::new(never);
        Counters {
            shards: std::iter::repeat_with(shard).take(shards).collect(),
            none_before_in: std::iter::repeat_with(bound).take(shards).collect(),
            held: AtomicUsize::new(0),
            max_keys,
            rules: RwLock::new(Rules::default()),
            none_before: AtomicU64::new(never),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn shard_of(&self, key: u128) -> usize {
        (((key >> 96) as u64 * self.shards.len() as u64) >> 32) as usize
    }

    /// Decides a single charge, most of which need no more than this: the counter is there, was written
    /// under these figures, and has a flat state.
    #[inline]
    pub(crate) fn check(
        &self,
        rule: &Rule,
        identity: Identity,
        cost: u64,
        now: Time,
    ) -> Option<Refusal> {
        let key = rule.key(identity);
        let mut table = self.table_of(key);
        if let Form::Flat(flat) = rule.limit().form() {
            match table.find(key) {
                Ok(place) => {
                    let slot = table.slot(place);
                    if slot.rule == rule.id {
                        let mut state = slot.state();
                        let refusal = flat.take(&mut state, cost, now);
                        if refusal.is_none() {
                            slot.set_state(state);
                        }
                        return refusal;
                    }
                }
                Err(place) if cost > 0 && self.held.load(Relaxed) < self.max_keys => {
                    let slot = Slot::new(key, rule.id);
                    return self.check_new(&mut table, place, slot, flat, cost, now);
                }
                Err(_) => {}
            }
        }
        drop(table);
        self.check_slowly(Charge::new(rule, identity).cost(cost), now)
    }

    /// Adds a counter that is to be renewed at `renewed_at`, and tells where it is.
    fn add(&self, table: &mut Table, place: Place, slot: Slot, renewed_at: Time) -> Place {
        self.held.fetch_add(1, Relaxed);
        self.note_renewal(slot.key, renewed_at);
        table.insert(place, slot)
    }

    /// Charges a counter that is not there yet, if it passes.
    #[inline(never)]
    fn check_new(
        &self,
        table: &mut Table,
        place: Place,
        mut slot: Slot,
        flat: &Flat,
        cost: u64,
        now: Time,
    ) -> Option<Refusal> {
        let mut state = State::NEW;
        let refusal = flat.take(&mut state, cost, now);
        if refusal.is_none() {
            slot.set_state(state);
            self.add(table, place, slot, flat.renewed_at(&state));
        }
        refusal
    }

    #[cold]
    fn check_slowly(&self, charge: Charge<'_>, now: Time) -> Option<Refusal> {
        let mut chain = Chain::new();
        chain.push(charge);
        self.take(&mut chain, now);
        chain.refusal(0)
    }

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
            let table = locked.table(charge);
            match table.find(charge.key()) {
                Ok(slot) => self.take_found(table, slot, charge, successors, blocked, now),
                Err(_) if !self.take_new(table, charges, index, now) => {
                    return Err(Hitch::Full(index));
                }
                Err(_) => new = true,
            }
            refused |= charges[index].refusal().is_some();
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
        charge.is_new = false;
        if table.slot(slot).rule != charge.rule.id {
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
        now: Time,
    ) -> bool {
        let (earlier, rest) = charges.split_at_mut(index);
        let charge = &mut rest[0];
        if charge.room != Room::Overflow && !self.has_room(table, charge.key(), now) {
            return false;
        }
        let same = earlier.iter().filter(|other| other.key() == charge.key());
        let cost = same.map(|other| other.cost).fold(charge.cost, u64::saturating_add);
        let (limit, capacity) = (charge.rule.limit(), charge.rule.limit().capacity());
        charge.set_refusal((cost > capacity).then_some(Refusal::Never));
        charge.seen = Bits::of(match limit.form() {
            Form::Flat(_) => State::NEW,
            Form::Log(_) => join_log(capacity, Time::EPOCH),
        });
        (charge.is_new, charge.is_charged) = (true, false);
        true
    }

    /// Adds and charges the counters that were missing, once the chain is admitted.
    #[cold]
    fn add_new(&self, chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) {
        let new = |charge: &&mut Charge<'_>| {
            charge.is_new && charge.cost > 0 && charge.refusal().is_none()
        };
        for charge in chain.charges.iter_mut().filter(new) {
            let table = locked.table(charge);
            let slot = table.find(charge.key()).unwrap_or_else(|place| {
                self.add(table, place, Slot::new(charge.key(), charge.rule.id), Time::MAX)
            });
            let mut cell = Cell::new(table, slot, charge.rule.limit());
            cell.charge(charge.cost, now);
            (charge.seen, charge.is_charged) = (Bits::of(cell.seen(now)), true);
            self.note_renewal(charge.key(), cell.renewed_at());
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

    /// Gives back everything a chain was charged, at once for everybody.
    pub(crate) fn give_back(&self, chain: &mut Chain<'_>, now: Time) {
        let mut locked = Locked::none();
        locked.lock(self, &mut chain.charges);
        for charge in chain.charges.iter_mut().filter(|charge| charge.is_charged) {
            charge.is_charged = false;
            let table = locked.table(charge);
            let Ok(slot) = table.find(charge.key()) else { continue };
            // A meter whose figures have changed since keeps the charge: what was seen is in the old
            // figures' units, and too little given back is repaid by time.
            let rule = charge.rule(&chain.successors);
            if !rule.limit().kind().has_burst() || table.slot(slot).rule == rule.id {
                let mut cell = Cell::new(table, slot, rule.limit());
                cell.give_back(charge.cost, charge.seen.state(), now);
                self.note_renewal(charge.key(), cell.renewed_at());
                charge.seen = Bits::of(cell.seen(now));
            }
        }
    }

    /// What a charge would be answered if `ahead` were charged before it.
    pub(crate) fn refusal_behind(
        &self,
        charge: Charge<'_>,
        ahead: u64,
        now: Time,
    ) -> Option<Refusal> {
        let mut chain = Chain::new();
        chain.push(charge.cost(0));
        self.take(&mut chain, now);
        match chain.rule(0).limit().form() {
            Form::Flat(flat) => {
                let mut state = chain.charges[0].seen.state();
                flat.charge(&mut state, ahead, now);
                flat.refusal(&state, charge.cost, now)
            }
            Form::Log(steps) => {
                let log = self.table_of(charge.key()).log(charge.key()).cloned();
                let mut log = log.unwrap_or_default();
                steps.charge(&mut log, ahead, now);
                steps.refusal(&log, charge.cost, now)
            }
        }
    }

    /// Forgets one counter, which makes it new.
    pub(crate) fn reset(&self, key: u128) {
        let mut table = self.table_of(key);
        if let Ok(slot) = table.find(key) {
            table.remove(slot);
            self.held.fetch_sub(1, Relaxed);
        }
    }

    #[inline]
    fn table_of(&self, key: u128) -> MutexGuard<'_, Table> {
        lock(&self.shards[self.shard_of(key)].table)
    }

    /// Brings a slot that was written under other figures to the charge's own, or the charge to the
    /// slot's where that is ahead.
    #[cold]
    fn reconcile(
        &self,
        slot: &mut Slot,
        charge: &mut Charge<'_>,
        successors: &mut Successors,
        now: Time,
    ) {
        let found = self.rules.read().reconcile(charge.rule, slot.rule, slot.state(), now);
        let (id, state) = match found {
            Found::Carried(state) => (charge.rule.id, state),
            Found::Newer(rule, state) => {
                let id = rule.id;
                charge.successor = successors.add(rule);
                (id, state)
            }
        };
        slot.rule = id;
        slot.set_state(state);
    }
}

/// Puts back what a chain was charged that does not pass after all, while it is still locked: at the same
/// moment, a charge given back leaves no trace.
#[cold]
fn undo(chain: &mut Chain<'_>, locked: &mut Locked<'_>, now: Time) {
    for charge in chain.charges.iter_mut().rev().filter(|charge| charge.is_charged) {
        let table = locked.table(charge);
        if let Ok(slot) = table.find(charge.key()) {
            let mut cell = Cell::new(table, slot, charge.rule(&chain.successors).limit());
            cell.give_back(charge.cost, charge.seen.state(), now);
            charge.seen = Bits::of(cell.seen(now));
        }
        charge.is_charged = false;
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
