//! Rules: limits where they stand, and what became of them when the policy changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tollgate_core::{Algorithm, Form, Limit, Rate, State, Time};

use crate::identity::{Identity, Seed};
use crate::slots::RuleId;

/// A limit where it stands: what counters are charged under.
///
/// It is identified by its name, never by its figures. Defined anew under the same name with other
/// figures, its counters keep their tokens, unless algorithm or window changed.
#[derive(Debug)]
pub struct Rule {
    pub(crate) id: RuleId,
    /// What keys of this rule's counters differ by from those of others.
    salt: u128,
    name: Arc<str>,
    limit: Limit,
}

impl Rule {
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
}

/// Every rule that a slot may have been written under.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// By id; the first is never used, because 0 marks a vacant slot.
    entries: Vec<Option<Entry>>,
    free: Vec<RuleId>,
    by_counter: HashMap<u128, RuleId>,
}

#[derive(Debug)]
struct Entry {
    limit: Limit,
    salt: u128,
    /// What it became, and when. Slots written before are carried over when next seen.
    next: Option<(RuleId, Time)>,
    rule: Weak<Rule>,
    /// How often it was held again after nobody had.
    revivals: u64,
}

/// What a slot's state means to a rule that finds it written under another.
pub(crate) enum Found {
    /// This state under the rule's own figures.
    Carried(State),
    /// The slot is ahead: the rule has since become this one, with this state.
    Newer(Arc<Rule>, State),
}

impl Rules {
    /// The rule of this name with these figures. `now` is when a change takes effect.
    pub(crate) fn define(&mut self, seed: &Seed, name: &str, limit: Limit, now: Time) -> Arc<Rule> {
        let salt = salt(seed, name, &limit);
        let current = self.by_counter.get(&salt).copied();
        let entry = current.and_then(|id| Some((id, self.entry_mut(id)?)));
        if let Some((id, entry)) = entry
            && entry.limit == limit
        {
            return entry.rule.upgrade().unwrap_or_else(|| {
                let rule = Arc::new(Rule { id, salt, name: name.into(), limit });
                entry.rule = Arc::downgrade(&rule);
                entry.revivals += 1;
                rule
            });
        }
        let id = self.allot();
        let rule = Arc::new(Rule { id, salt, name: name.into(), limit });
        self.entries[id as usize] = Some(Entry {
            limit: rule.limit.clone(),
            salt,
            next: None,
            rule: Arc::downgrade(&rule),
            revivals: 0,
        });
        // What counts charges means the same under any figures, and several may be in force at once,
        // as a quota's are whose users have different plans. Only a meter is carried over.
        if let Some(old) = current
            && rule.limit.kind().has_burst()
            && let Some(old) = self.entry_mut(old)
        {
            old.next = Some((id, now));
        }
        self.by_counter.insert(salt, id);
        rule
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

    /// What a slot's state means to `rule`, which finds it written under another rule's id.
    pub(crate) fn reconcile(&self, rule: &Rule, id: RuleId, state: State, now: Time) -> Found {
        let (id, state) = self.latest(id, state);
        if id == rule.id {
            return Found::Carried(state);
        }
        let newest = self.latest(rule.id, State::NEW).0;
        let newer = self.entry(newest).and_then(|entry| entry.rule.upgrade());
        if newest == id
            && let Some(newer) = newer
        {
            return Found::Newer(newer, state);
        }
        match self.entry(id) {
            Some(entry) => Found::Carried(carry(&entry.limit, &rule.limit, state, now)),
            None => Found::Carried(state),
        }
    }

    /// When a slot equals a new one; never, for the present figures of a rule nobody knows.
    pub(crate) fn renewed_at(&self, id: RuleId, state: State) -> Time {
        match self.entry(id).map(|entry| entry.limit.form()) {
            Some(Form::Flat(flat)) => flat.renewed_at(&state),
            Some(Form::Log(_)) => Time::from_nanos(state.to_bits() as u64),
            None => Time::EPOCH,
        }
    }

    /// Rules that nobody holds, whose numbers are free once no slot bears them.
    pub(crate) fn unheld(&self) -> Vec<Unheld> {
        let all =
            self.entries.iter().zip(0..).filter_map(|(entry, id)| Some((entry.as_ref()?, id)));
        all.filter(|(entry, _)| entry.rule.strong_count() == 0)
            .map(|(entry, id)| Unheld { id, revivals: entry.revivals })
            .collect()
    }

    /// Frees a number that no slot bears, if nobody has held its rule since it was found unheld.
    pub(crate) fn release(&mut self, found: Unheld) {
        let Some(entry) = self.entry(found.id) else { return };
        if entry.rule.strong_count() > 0 || entry.revivals != found.revivals {
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
    revivals: u64,
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
