//! Counters for millions of identities, in bounded memory.
//!
//! Counters are spread over shards by their key, each shard behind a small lock. A chain locks the shards of
//! all its counters, takes charge by charge, puts everything back if one of them blocks it, and unlocks. So a
//! decision is one point in time for everybody (linearizable), a refused request has charged nothing, and nobody
//! can see, or be refused by, a charge that is put back.

use parking_lot::Mutex;
use tollgate_core::{Algorithm, Flat, Form, Limit, Refusal, Standing, State, Time};

use crate::chain::{Chain, Charge};
use crate::eviction::UNKNOWN;
use crate::rules::Rules;
use crate::slots::{Place, Slot};
use crate::sweep::Pass;
use crate::sync::{AtomicU64, AtomicUsize, Locker, MutexGuard, Ordering::Relaxed, RwLock};
use crate::table::Table;
use crate::{Identity, Rule};

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) shards: Box<[Locker<Table>]>,
    /// For each shard a moment before which nothing in it can be evicted.
    pub(crate) none_before_in: Box<[AtomicU64]>,
    /// For each shard a moment until which it is not looked through again.
    pub(crate) rests_until: Box<[AtomicU64]>,
    pub(crate) rules: RwLock<Rules>,
    pub(crate) max_keys: AtomicUsize,
    /// How many counters are held, in all shards.
    pub(crate) held: AtomicUsize,
    /// No shard has anything to evict before this moment.
    pub(crate) none_before: AtomicU64,
    /// The shard that is looked through next for somebody who finds no room in its own.
    pub(crate) next_for_room: AtomicUsize,
    /// How far those who sweep a part at a time have come.
    pub(crate) pass: Mutex<Pass>,
    pub(crate) evicted: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    /// How many counters were looked at to make room.
    pub(crate) looked_through: AtomicU64,
}

/// A shard holds about this many counters when the store is full: few enough to look through at once, and
/// enough that a store with few counters does not scatter them.
const SHARD_KEYS: usize = 8192;

/// As many as a million counters need: a small bound may be raised while counters are held, and
/// shards then have to be few enough counters each still.
const FEWEST_SHARDS: usize = 128;

impl Counters {
    pub(crate) fn new(max_keys: usize) -> Counters {
        let shards = (max_keys / SHARD_KEYS).next_power_of_two().clamp(FEWEST_SHARDS, 1 << 16);
        let shard = || Locker::new(Table::default());
        let bound = || AtomicU64::new(UNKNOWN);
        Counters {
            shards: std::iter::repeat_with(shard).take(shards).collect(),
            none_before_in: std::iter::repeat_with(bound).take(shards).collect(),
            rests_until: std::iter::repeat_with(bound).take(shards).collect(),
            held: AtomicUsize::new(0),
            max_keys: AtomicUsize::new(max_keys),
            rules: RwLock::new(Rules::default()),
            none_before: bound(),
            next_for_room: AtomicUsize::new(0),
            pass: Mutex::default(),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            looked_through: AtomicU64::new(0),
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
                    if rule.decides(slot) {
                        let mut state = slot.state();
                        let refusal = flat.take(&mut state, cost, now);
                        if refusal.is_none() {
                            slot.set_state(state);
                        }
                        return refusal;
                    }
                }
                Err(place) if cost > 0 && self.held.load(Relaxed) < self.max_keys.load(Relaxed) => {
                    return self.check_new(table, place, (rule, identity, cost), flat, now);
                }
                Err(_) => {}
            }
        }
        drop(table);
        self.check_slowly(Charge::new(rule, identity).cost(cost), now)
    }

    /// Charges a counter that is there and lets it pass, and tells where that stands now; `None`, and nothing is charged, if it is
    /// not so simple.
    #[inline]
    pub(crate) fn admit(
        &self,
        rule: &Rule,
        identity: Identity,
        cost: u64,
        now: Time,
    ) -> Option<Standing> {
        let Form::Flat(flat) = rule.limit().form() else { return None };
        let key = rule.key(identity);
        let mut table = self.table_of(key);
        let place = table.find(key).ok()?;
        let slot = table.slot(place);
        if !rule.decides(slot) {
            return None;
        }
        let mut state = slot.state();
        if flat.take(&mut state, cost, now).is_some() {
            return None;
        }
        slot.set_state(state);
        drop(table);
        Some(flat.standing(&state, now))
    }

    /// Charges a counter that is not there yet, if it passes.
    #[inline(never)]
    fn check_new(
        &self,
        mut table: MutexGuard<'_, Table>,
        place: Place,
        (rule, identity, cost): (&Rule, Identity, u64),
        flat: &Flat,
        now: Time,
    ) -> Option<Refusal> {
        if rule.is_superseded() {
            drop(table);
            return self.check_slowly(Charge::new(rule, identity).cost(cost), now);
        }
        let mut state = State::NEW;
        let refusal = flat.take(&mut state, cost, now);
        if refusal.is_none() {
            let mut slot = Slot::new(rule.key(identity), rule.id);
            slot.set_state(state);
            self.held.fetch_add(1, Relaxed);
            self.note_renewal(slot.key, || flat.renewed_at(&state));
            table.insert(place, slot);
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
        let limit = chain.rule(0).limit();
        let (windows, ahead) = whole_windows(limit, ahead);
        let refusal = match limit.form() {
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
        };
        match refusal {
            None if windows == 0 => None,
            None => Some(Refusal::Wait(windows)),
            Some(Refusal::Wait(nanos)) => Some(Refusal::Wait(nanos.saturating_add(windows))),
            Some(Refusal::Never) => Some(Refusal::Never),
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
        self.shards[self.shard_of(key)].lock()
    }
}

/// The nanoseconds of whole windows that pass while `ahead` is charged, and what is left of it for the last. A meter has
/// no windows, and nobody waits for a second period of a quota.
fn whole_windows(limit: &Limit, ahead: u64) -> (u64, u64) {
    match limit.rate() {
        Some(rate) if !limit.kind().has_burst() => {
            let windows = ahead / limit.capacity().max(1);
            (windows.saturating_mul(rate.window().nanos()), ahead % limit.capacity().max(1))
        }
        _ => (0, ahead),
    }
}
