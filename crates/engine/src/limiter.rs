//! The limiter: a clock, rules and the counters under them.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Decision, Limit, Refusal, Standing, Time};

use crate::chain::{Chain, Charge, Verdict};
use crate::counters::Counters;
use crate::identity::{Identity, Seed};
use crate::rules::{Change, Rules};
use crate::sync::Ordering::Relaxed;
use crate::{Clock, Rule, SystemClock};

/// Counts millions of identities under any number of rules, in bounded memory.
///
/// ```
/// use tollgate_engine::{Limit, Limiter, Rate};
///
/// # fn main() -> Result<(), tollgate_engine::LimitError> {
/// let limiter = Limiter::new();
/// let rule = limiter.define("per user", Limit::token_bucket(Rate::per_second(10)).burst(2).build()?);
///
/// let alice = limiter.identity("alice");
/// assert!(limiter.check(&rule, alice, 2).is_ok());
/// let refusal = limiter.check(&rule, alice, 1).unwrap_err();
/// assert!(refusal.retry_after().unwrap().as_millis() <= 100);
/// assert!(limiter.check(&rule, limiter.identity("bob"), 1).is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Limiter<C = SystemClock> {
    clock: C,
    seed: Seed,
    counters: Counters,
}

/// What a limiter holds, and what became of what it could not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters held now.
    pub held: usize,
    /// Counters forgotten because they equalled new ones.
    pub evicted: u64,
    /// Charges to a limit's overflow counter, because the store was full.
    pub overflowed: u64,
}

/// How many rules are defined for each part of a sweep: what is kept of superseded ones stays bounded.
const SWEEP_EVERY: usize = 8;

impl Limiter {
    /// How many counters a limiter holds unless told otherwise.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// A limiter on the system's clock that holds a million counters.
    pub fn new() -> Limiter {
        Limiter::with_clock(SystemClock::new(), Limiter::DEFAULT_MAX_KEYS)
    }
}

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter::new()
    }
}

impl<C: Clock> Limiter<C> {
    /// A limiter on a clock of your own that holds at most `max_keys` counters.
    ///
    /// When it is full and no counter equals a new one, further identities of a limit share that limit's overflow counter;
    /// where few counters do, those of a second ago and longer make room. No counter it holds is ever reset for it.
    ///
    /// The clock must not go back: a counter that was forgotten because it equalled a new one is new also at an earlier
    /// moment, when it still owed something.
    pub fn with_clock(clock: C, max_keys: usize) -> Limiter<C> {
        Limiter { clock, seed: Seed::random(), counters: Counters::new(max_keys) }
    }

    /// Holds at most so many counters from now on. Those it holds beyond that stay until they equal new ones.
    pub fn set_max_keys(&self, max_keys: usize) {
        self.counters.max_keys.store(max_keys, Relaxed);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The clock it decides by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The rule called `name`, with these figures from now on.
    ///
    /// Called again with other figures, it changes the rule without pause: its counters keep their tokens,
    /// clamped to a lower capacity and not filled to a higher one. Another algorithm or window
    /// starts anew. Unchanged, it is the same rule. Whoever still holds the old rule is decided by the
    /// new figures from now on; only windows and quotas may have several in force at once.
    pub fn define(&self, name: &str, limit: Limit) -> Arc<Rule> {
        self.bind(|rules| rules.define(&self.seed, name, limit, || self.clock.now()))
    }

    /// The rule called `name` as it is in force, for whoever has no say in its figures: these count only where no rule of this
    /// algorithm and window has the name.
    pub fn join(&self, name: &str, limit: Limit) -> Arc<Rule> {
        // Under one lock: figures that somebody defines meanwhile must not be superseded.
        self.bind(|rules| match rules.defined(&self.seed, name, &limit) {
            Some(rule) => (rule, Change::None),
            None => rules.define(&self.seed, name, limit, || self.clock.now()),
        })
    }

    fn bind(&self, find: impl FnOnce(&mut Rules) -> (Arc<Rule>, Change)) -> Arc<Rule> {
        let mut rules = self.counters.rules.write();
        let (rule, change) = find(&mut rules);
        let is_time = change != Change::None && rules.len().is_multiple_of(SWEEP_EVERY);
        drop(rules);
        if change == Change::Replaced {
            self.counters.forget_bounds();
        }
        // What has been superseded is freed in time though nobody else should ever sweep.
        if is_time {
            self.counters.sweep_next(self.clock.now());
        }
        rule
    }

    /// Who is counted under a key: a name, a number, an address, or several of them.
    #[inline]
    pub fn identity<K: Hash + ?Sized>(&self, key: &K) -> Identity {
        self.seed.identity(key)
    }

    /// Charges `cost` to one counter if it passes.
    #[inline]
    pub fn check(&self, rule: &Rule, identity: Identity, cost: u64) -> Result<(), Refusal> {
        self.check_at(rule, identity, cost, self.clock.now())
    }

    /// [`check`](Limiter::check) for whoever has read the clock already.
    #[inline]
    pub fn check_at(
        &self,
        rule: &Rule,
        identity: Identity,
        cost: u64,
        now: Time,
    ) -> Result<(), Refusal> {
        match self.counters.check(rule, identity, cost, now) {
            None => Ok(()),
            Some(refusal) => Err(refusal),
        }
    }

    /// Charges `cost` to one counter that is held and lets it pass, and tells where it stands after that. Most charges are such;
    /// of all others nothing is charged, and [`take`](Limiter::take) tells what becomes of them.
    #[inline]
    pub fn admit_at(
        &self,
        rule: &Rule,
        identity: Identity,
        cost: u64,
        now: Time,
    ) -> Option<Standing> {
        self.counters.admit(rule, identity, cost, now)
    }

    /// Like [`check`](Limiter::check), and tells where the counter stands after it.
    pub fn decide(&self, rule: &Rule, identity: Identity, cost: u64) -> Decision {
        let mut chain = Chain::new();
        chain.push(Charge::new(rule, identity).cost(cost));
        self.take(&mut chain);
        Decision { refusal: chain.refusal(0), standing: chain.standing(0) }
    }

    /// Where a counter stands, without consuming.
    pub fn peek(&self, rule: &Rule, identity: Identity) -> Standing {
        self.decide(rule, identity, 0).standing
    }

    /// How long until `charge` passes if `ahead` is charged before it; `None` if it never does.
    pub fn wait_behind(&self, charge: Charge<'_>, ahead: u64) -> Option<Duration> {
        match self.counters.refusal_behind(charge, ahead, self.clock.now()) {
            Some(refusal) => refusal.retry_after(),
            None => Some(Duration::ZERO),
        }
    }

    /// Decides a chain all or nothing: what its charges were answered stands in the chain afterwards.
    #[inline]
    pub fn take(&self, chain: &mut Chain<'_>) -> Verdict {
        self.take_at(chain, self.clock.now())
    }

    /// [`take`](Limiter::take) for whoever has read the clock already.
    #[inline]
    pub fn take_at(&self, chain: &mut Chain<'_>, now: Time) -> Verdict {
        self.counters.take(chain, now)
    }

    /// Refuses a chain for a reason of the caller's own: its charge at `by` is said to have to wait so long, as one
    /// must that stands at the end of a queue. Nothing is charged; where all its counters stand is told as
    /// [`take`](Limiter::take) tells it.
    pub fn refuse(&self, chain: &mut Chain<'_>, by: usize, refusal: Refusal) -> Verdict {
        self.counters.look(chain, self.clock.now());
        chain.charges[by].set_refusal(Some(refusal));
        Verdict::Refused { by, refusal }
    }

    /// Tells of every charge where its counter stands and whether it would pass, and charges none.
    pub fn look_at(&self, chain: &mut Chain<'_>, now: Time) {
        self.counters.look(chain, now);
    }

    /// Gives back what an admitted chain was charged, because the request was not served after all.
    pub fn give_back(&self, chain: &mut Chain<'_>) {
        self.counters.give_back(chain, 0..chain.len(), || self.clock.now());
    }

    /// Gives back what one charge of an admitted chain took, because somebody else refuses it and it is skipped. The others
    /// stand.
    ///
    /// # Panics
    /// If there is no charge at `index`.
    pub fn give_back_one(&self, chain: &mut Chain<'_>, index: usize) {
        self.counters.give_back(chain, index..index + 1, || self.clock.now());
    }

    /// Makes a counter new again.
    pub fn reset(&self, rule: &Rule, identity: Identity) {
        self.counters.reset(rule.key(identity));
    }

    /// Forgets every counter that equals a new one, giving memory back, and tells how many there were.
    ///
    /// Room is also made whenever it is needed; called now and then, this keeps memory in proportion to
    /// what is in use. Whoever needs a shard just then waits for some tens of microseconds.
    pub fn sweep(&self) -> usize {
        self.counters.sweep(self.clock.now())
    }

    /// Does a hundredth of what [`sweep`](Limiter::sweep) does, the next one each time, and tells whether there is more to do
    /// until everything was looked at once. For whoever must not be kept for milliseconds.
    pub fn sweep_next(&self) -> bool {
        self.counters.sweep_next(self.clock.now())
    }

    /// What is held.
    pub fn stats(&self) -> Stats {
        Stats {
            held: self.counters.held.load(Relaxed),
            evicted: self.counters.evicted.load(Relaxed),
            overflowed: self.counters.overflowed.load(Relaxed),
        }
    }
}
