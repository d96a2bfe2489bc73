//! Rules: limits where they stand, and what became of them when the policy changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tollgate_core::{Algorithm, Form, Limit, Rate, State, Time};

use crate::identity::{Identity, Seed};
use crate::slots::{EMPTY, RuleId, Slot};
use crate::sync::{AtomicU32, Ordering};

/// A limit where it stands: what counters are charged under.
///
/// It is identified by its name, never by its figures. Defined anew under the same name with other
/// figures, its counters keep their tokens, unless algorithm or window changed.
#[derive(Debug)]
pub struct Rule {
    pub(crate) id: RuleId,
    /// Its number, as long as no other figures have taken its place; from then on one that no counter bears. So
    /// whoever finds a counter under this number knows at once that both are in force.
    in_force: AtomicU32,
    /// What has taken its place.
    successor: ArcSwapOption<Rule>,
    /// What keys of this rule's counters differ by from those of others.
    salt: u128,
    name: Arc<str>,
    limit: Limit,
}

impl Rule {
    fn new(id: RuleId, salt: u128, name: &str, limit: Limit) -> Arc<Rule> {
        let (in_force, successor) = (AtomicU32::new(id), ArcSwapOption::empty());
        Arc::new(Rule { id, in_force, successor, salt, name: name.into(), limit })
    }

    /// Where it stands, as it was defined.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The algorithm and its figures.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    #[inline]
    pub(crate) fn key(&self, identity: Identity) -> u128 {
        self.salt ^ identity.0
    }

    /// Whether a counter was written under this rule, and nothing has taken its place since.
    #[inline]
    pub(crate) fn decides(&self, slot: &Slot) -> bool {
        self.in_force.load(Ordering::Relaxed) == slot.rule
    }

    /// Whether another rule has taken its place: no new counter may be written under it.
    #[inline]
    pub(crate) fn is_superseded(&self) -> bool {
        self.in_force.load(Ordering::Relaxed) == EMPTY
    }

    /// Lets `new` take its place: whoever still finds it in force has read the clock before this returns.
    fn supersede(&self, new: &Arc<Rule>) {
        self.successor.store(Some(Arc::clone(new)));
        // Exchanged, not stored: a store might become visible only after the clock is read for `next`.
        self.in_force.swap(EMPTY, Ordering::SeqCst);
    }
}

/// Every rule that a slot may have been written under.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// By id; the first is never used, because 0 marks a vacant slot.
    entries: Vec<Option<Entry>>,
    free: Vec<RuleId>,
    by_counter: HashMap<u128, RuleId>,
    /// How often a number began to be held.
    holds: u64,
}

#[derive(Debug)]
struct Entry {
    limit: Limit,
    salt: u128,
    /// What it became, and when. Slots written before are carried over when next seen.
    next: Option<(RuleId, Time)>,
    rule: Weak<Rule>,
    /// Those whose place it has taken and that somebody may still hold.
    before: Vec<Weak<Rule>>,
    /// Which hold of any number this is: no two are the same, also of a number that was freed in between.
    hold: u64,
}

/// What a definition changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// There is one rule more.
    New,
    /// It took another's place, whose counters are its own from now on.
    Replaced,
}

impl Rules {
    /// The rule of this name with these figures. The clock is read when a change takes effect: after nobody can
    /// charge under the old figures any more.
    pub(crate) fn define(
        &mut self,
        seed: &Seed,
        name: &str,
        limit: Limit,
        clock: impl Fn() -> Time,
    ) -> (Arc<Rule>, Change) {
        let salt = salt(seed, name, &limit);
        let current = self.by_counter.get(&salt).copied();
        if let Some(id) = current
            && self.entry(id).is_some_and(|entry| entry.limit == limit)
            && let Some(rule) = self.hold(id, name)
        {
            return (rule, Change::None);
        }
        let id = self.allot();
        let rule = Rule::new(id, salt, name, limit);
        // What counts charges means the same under any figures, and several may be in force at once,
        // as a quota's are whose users have different plans. Only a meter is carried over.
        let (mut before, mut change) = (Vec::new(), Change::New);
        if let Some(old) = current
            && rule.limit.kind().has_burst()
            && let Some(old) = self.entry_mut(old)
        {
            before = std::mem::take(&mut old.before);
            before.push(old.rule.clone());
            before.retain(|held| held.upgrade().map(|held| held.supersede(&rule)).is_some());
            old.next = Some((id, clock()));
            change = Change::Replaced;
        }
        self.holds += 1;
        let hold = self.holds;
        self.entries[id as usize] = Some(Entry {
            limit: rule.limit.clone(),
            salt,
            next: None,
            rule: Arc::downgrade(&rule),
            before,
            hold,
        });
        self.by_counter.insert(salt, id);
        (rule, change)
    }

    /// The rule of this name that counts as this limit does, whatever its figures are; `None` if there is none.
    pub(crate) fn defined(&mut self, seed: &Seed, name: &str, limit: &Limit) -> Option<Arc<Rule>> {
        let id = self.by_counter.get(&salt(seed, name, limit)).copied()?;
        self.hold(id, name)
    }

    /// A rule by its number, which whoever asks holds from now on.
    fn hold(&mut self, id: RuleId, name: &str) -> Option<Arc<Rule>> {
        let hold = self.holds + 1;
        let entry = self.entry_mut(id)?;
        if let Some(rule) = entry.rule.upgrade() {
            return Some(rule);
        }
        let rule = Rule::new(id, entry.salt, name, entry.limit.clone());
        entry.rule = Arc::downgrade(&rule);
        entry.hold = hold;
        self.holds = hold;
        Some(rule)
    }

    fn allot(&mut self) -> RuleId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        if self.entries.is_empty() {
            self.entries.push(None);
        }
        self.entries.push(None);
        (self.entries.len() - 1) as RuleId
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(id as usize)?.as_ref()
    }

    fn entry_mut(&mut self, id: RuleId) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// Carries a state on to what its rule has become, and tells which that is.
    pub(crate) fn latest(&self, mut id: RuleId, mut state: State) -> (RuleId, State) {
        while let Some(entry) = self.entry(id)
            && let Some((next, at)) = entry.next
            // A number given to another rule since is nothing this one has become.
            && let Some(new) = self.entry(next).filter(|new| new.salt == entry.salt)
        {
            state = carry(&entry.limit, &new.limit, state, at);
            id = next;
        }
        (id, state)
    }

    /// What decides in the place of `rule`, which has been superseded. Nobody can define anything meanwhile, so it is
    /// the newest.
    pub(crate) fn successor_of(&self, rule: &Rule) -> Option<Arc<Rule>> {
        if rule.is_superseded() { rule.successor.load_full() } else { None }
    }

    /// Brings a slot that was written under other figures to those of `rule`, which are in force.
    pub(crate) fn bring_to(&self, rule: &Rule, slot: &mut Slot, now: Time) {
        let (id, mut state) = self.latest(slot.rule, slot.state());
        // Several figures are in force at once, or what it became is gone: then it changes over now.
        if id != rule.id
            && let Some(entry) = self.entry(id)
        {
            state = carry(&entry.limit, &rule.limit, state, now);
        }
        slot.rule = rule.id;
        slot.set_state(state);
    }

    /// When a slot equals a new one; never, if its rule is not known: it may not be forgotten then.
    pub(crate) fn renewed_at(&self, id: RuleId, state: State) -> Time {
        match self.entry(id).map(|entry| entry.limit.form()) {
            Some(Form::Flat(flat)) => flat.renewed_at(&state),
            Some(Form::Log(_)) => Time::from_nanos(state.to_bits() as u64),
            None => Time::MAX,
        }
    }

    /// For how long a slot has been unused at least when it equals a new one: what was charged last has come back since.
    pub(crate) fn refilled_for(&self, id: RuleId) -> Duration {
        let limit = self.entry(id).map(|entry| &entry.limit);
        let rate = limit.filter(|limit| limit.kind().has_burst()).and_then(Limit::rate);
        rate.map_or(Duration::ZERO, |rate| {
            let nanos = rate.window().nanos() / rate.tokens().max(1);
            Duration::from_nanos(nanos)
        })
    }

    /// Rules that nobody holds, whose numbers are free once no slot bears them.
    pub(crate) fn unheld(&self) -> Vec<Unheld> {
        let all =
            self.entries.iter().zip(0..).filter_map(|(entry, id)| Some((entry.as_ref()?, id)));
        all.filter(|(entry, _)| entry.rule.strong_count() == 0)
            .map(|(entry, id)| Unheld { id, hold: entry.hold })
            .collect()
    }

    /// How many numbers are taken.
    pub(crate) fn len(&self) -> usize {
        self.entries.len().saturating_sub(1 + self.free.len())
    }

    /// Frees a number that no slot bears, if nobody has held its rule since it was found unheld.
    pub(crate) fn release(&mut self, found: Unheld) {
        let Some(entry) = self.entry(found.id) else { return };
        if entry.rule.strong_count() > 0 || entry.hold != found.hold {
            return;
        }
        let salt = entry.salt;
        if self.by_counter.get(&salt) == Some(&found.id) {
            self.by_counter.remove(&salt);
        }
        self.entries[found.id as usize] = None;
        self.free.push(found.id);
    }
}

/// A rule found without a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unheld {
    pub(crate) id: RuleId,
    hold: u64,
}

fn carry(old: &Limit, new: &Limit, state: State, at: Time) -> State {
    match (old.form(), new.form()) {
        (Form::Flat(old), Form::Flat(new)) => new.adopt(old, state, at),
        _ => state,
    }
}

/// Counters are kept apart by name, algorithm and window: a change of either of these starts anew.
fn salt(seed: &Seed, name: &str, limit: &Limit) -> u128 {
    let window = limit.rate().map(Rate::window);
    seed.identity(&(name, limit.kind(), window, limit.calendar())).0
}
