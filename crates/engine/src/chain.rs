//! The charges of one request, and what became of them.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Decision, Form, Limit, Refusal, Standing, State, Time};

use crate::locked::SHORT;
use crate::{Identity, Rule};

/// What happens to a request that a limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// It is refused.
    #[default]
    Reject,
    /// It waits for its turn.
    Queue,
    /// It passes, marked: the limit is skipped.
    Degrade,
    /// It passes: the limit only tells what it would have done.
    Observe,
}

/// One limit and the cost this request puts on it.
///
/// Small and without a destructor, because a request makes several: what is rarely needed stands in
/// the [`Chain`].
#[derive(Clone, Copy, Debug)]
pub struct Charge<'r> {
    pub(crate) rule: &'r Rule,
    key: Bits,
    /// The counter as the decision left it.
    pub(crate) seen: Bits,
    pub(crate) cost: u64,
    /// Nanoseconds to wait: 0 if it passes, `u64::MAX` if it never does.
    refused_for: u64,
    pub(crate) shard: u32,
    /// Which of the locked tables the counter is in.
    pub(crate) guard: u16,
    /// Which of the chain's successors decides in the rule's place, counted from 1.
    pub(crate) successor: u16,
    pub(crate) strategy: Strategy,
    pub(crate) room: Room,
    kept: Kept,
    pub(crate) is_charged: bool,
    /// The identity has no counter yet; it gets one when it is charged.
    pub(crate) is_new: bool,
}

/// A state in two words: a `u128` would make every charge a third larger by its alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits([u64; 2]);

impl Bits {
    #[inline]
    pub(crate) fn of(state: State) -> Bits {
        Bits([(state.to_bits() >> 64) as u64, state.to_bits() as u64])
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        State::from_bits(u128::from(self.0[0]) << 64 | u128::from(self.0[1]))
    }
}

/// Rules that have taken the place of a charge's own, because its counter is already theirs. Boxed: next
/// to no chain has any.
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "one word to set up and to drop, for every request")]
pub(crate) struct Successors(Option<Box<Vec<Arc<Rule>>>>);

impl Successors {
    /// Adds one, and tells its number, counted from 1.
    pub(crate) fn add(&mut self, rule: Arc<Rule>) -> u16 {
        let all = self.0.get_or_insert_default();
        all.push(rule);
        all.len() as u16
    }

    fn get(&self, nth: u16) -> &Rule {
        let all = self.0.as_deref().map(Vec::as_slice).unwrap_or_default();
        &all[usize::from(nth) - 1]
    }
}

/// Where a charge's counter is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    /// In this process's limiter.
    #[default]
    Here,
    /// With somebody else, who has not been asked.
    Elsewhere,
    /// With somebody else, who has answered.
    Answered,
}

/// How far a charge has come in finding room for a counter it does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Room {
    #[default]
    Unasked,
    /// Room was made once; whoever came first has it.
    Made,
    /// There is none: the identity is counted with all others of its limit that have none.
    Overflow,
}

impl<'r> Charge<'r> {
    /// One token on `identity`'s counter under `rule`, refused if there is none.
    #[inline]
    pub fn new(rule: &'r Rule, identity: Identity) -> Charge<'r> {
        Charge {
            rule,
            key: Bits::of(State::from_bits(rule.key(identity))),
            seen: Bits([0; 2]),
            cost: 1,
            refused_for: 0,
            shard: 0,
            guard: 0,
            successor: 0,
            strategy: Strategy::Reject,
            room: Room::Unasked,
            kept: Kept::Here,
            is_charged: false,
            is_new: false,
        }
    }

    /// Whose counter is kept elsewhere: a limiter passes it over, and whoever keeps it [answers](Chain::answer).
    #[inline]
    pub fn elsewhere(mut self) -> Charge<'r> {
        self.kept = Kept::Elsewhere;
        // No shard has this number.
        self.shard = u32::MAX;
        self
    }

    /// Whether a limiter passes it over.
    #[inline]
    pub fn is_elsewhere(&self) -> bool {
        self.kept != Kept::Here
    }

    /// So many tokens instead of one. 0 only looks.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Charge<'r> {
        self.cost = cost;
        self
    }

    /// What happens if there are not enough.
    #[inline]
    pub fn strategy(mut self, strategy: Strategy) -> Charge<'r> {
        self.strategy = strategy;
        self
    }

    /// The counter it is for, as [`Chain::counter`] tells it.
    #[inline]
    pub fn counter(&self) -> u128 {
        self.key()
    }

    #[inline]
    pub(crate) fn key(&self) -> u128 {
        self.key.state().to_bits()
    }

    pub(crate) fn set_key(&mut self, key: u128) {
        self.key = Bits::of(State::from_bits(key));
    }

    /// Whether this charge keeps the request from passing now.
    #[inline]
    pub(crate) fn blocks(&self) -> bool {
        self.refused_for != 0 && matches!(self.strategy, Strategy::Reject | Strategy::Queue)
    }

    #[inline]
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self.refused_for {
            0 => None,
            u64::MAX => Some(Refusal::Never),
            nanos => Some(Refusal::Wait(nanos)),
        }
    }

    #[inline]
    pub(crate) fn set_refusal(&mut self, refusal: Option<Refusal>) {
        self.refused_for = match refusal {
            None => 0,
            Some(Refusal::Wait(nanos)) => nanos.min(u64::MAX - 1),
            Some(Refusal::Never) => u64::MAX,
        };
    }

    /// The rule whose figures decide.
    #[inline]
    pub(crate) fn rule<'c>(&self, successors: &'c Successors) -> &'c Rule
    where
        'r: 'c,
    {
        match self.successor {
            0 => self.rule,
            nth => successors.get(nth),
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every limit agreed, and all were charged.
    Admitted,
    /// It passes, but limits with strategy `degrade` would have refused it and were not charged. Named
    /// is the first of them.
    Degraded {
        /// Its place in the chain.
        by: usize,
    },
    /// It waits and retries: nothing was charged.
    Queued {
        /// The place in the chain of the one to wait for: the longest wait.
        by: usize,
        /// How long.
        refusal: Refusal,
    },
    /// It is refused: nothing was charged.
    Refused {
        /// The place in the chain of the one that is reported: the longest wait.
        by: usize,
        /// Why.
        refusal: Refusal,
    },
}

impl Verdict {
    /// The verdict on a chain whose charges, in order, have these strategies and were answered so: the law for
    /// every store of counters.
    ///
    /// ```
    /// use tollgate_engine::{Refusal, Strategy, Verdict};
    ///
    /// let (short, long) = (Refusal::Wait(5), Refusal::Wait(7));
    /// let answers = [(Strategy::Degrade, Some(long)), (Strategy::Reject, None), (Strategy::Queue, Some(short))];
    /// assert_eq!(Verdict::of(answers.into_iter()), Verdict::Queued { by: 2, refusal: short });
    /// ```
    pub fn of(answers: impl Iterator<Item = (Strategy, Option<Refusal>)>) -> Verdict {
        // The first of equals.
        let longer = |best: (usize, Refusal), next: (usize, Refusal)| {
            if (next.1, best.0) > (best.1, next.0) { next } else { best }
        };
        let (mut rejected, mut queued, mut degraded) = (None, None, None);
        for (index, (strategy, refusal)) in answers.enumerate() {
            let Some(refusal) = refusal else { continue };
            let longest = match strategy {
                Strategy::Reject => &mut rejected,
                Strategy::Queue => &mut queued,
                Strategy::Degrade => {
                    degraded.get_or_insert(index);
                    continue;
                }
                Strategy::Observe => continue,
            };
            *longest =
                Some(longest.map_or((index, refusal), |best| longer(best, (index, refusal))));
        }
        if let Some(first) = rejected {
            let (by, refusal) = queued.into_iter().fold(first, longer);
            Verdict::Refused { by, refusal }
        } else if let Some((by, refusal)) = queued {
            match refusal {
                Refusal::Wait(_) => Verdict::Queued { by, refusal },
                Refusal::Never => Verdict::Refused { by, refusal },
            }
        } else {
            degraded.map_or(Verdict::Admitted, |by| Verdict::Degraded { by })
        }
    }

    /// Whether the request may go on now.
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Verdict::Admitted | Verdict::Degraded { .. })
    }
}

/// The charges of one request, in order. It holds eight without allocating.
#[derive(Debug, Default)]
pub struct Chain<'r> {
    pub(crate) charges: SmallVec<[Charge<'r>; SHORT]>,
    pub(crate) successors: Successors,
    pub(crate) decided_at: Time,
}

impl<'r> Chain<'r> {
    /// A chain without charges, which admits.
    #[inline]
    pub fn new() -> Chain<'r> {
        Chain::default()
    }

    /// Adds a charge at the end.
    #[inline]
    pub fn push(&mut self, charge: Charge<'r>) {
        self.charges.push(charge);
    }

    /// How many charges it has.
    pub fn len(&self) -> usize {
        self.charges.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.charges.is_empty()
    }

    /// When it was last decided.
    pub fn decided_at(&self) -> Time {
        self.decided_at
    }

    /// The rule whose figures decided a charge.
    ///
    /// # Panics
    /// If there is no charge at `index`, as the other questions about a charge do.
    pub fn rule(&self, index: usize) -> &Rule {
        self.charges[index].rule(&self.successors)
    }

    /// What a charge costs.
    #[inline]
    pub fn cost(&self, index: usize) -> u64 {
        self.charges[index].cost
    }

    /// A charge as it was pushed, to ask about it alone.
    pub fn charge(&self, index: usize) -> Charge<'r> {
        self.charges[index]
    }

    /// The counter a charge is for: the same for all charges that share it, in this process only.
    pub fn counter(&self, index: usize) -> u128 {
        self.charges[index].key()
    }

    /// Why a limit would not let the request pass; `None` if it would.
    pub fn refusal(&self, index: usize) -> Option<Refusal> {
        self.charges[index].refusal()
    }

    /// Whether a counter was charged.
    pub fn is_charged(&self, index: usize) -> bool {
        self.charges[index].is_charged
    }

    /// Whether it is known where a counter stands: not if it is kept elsewhere and nobody has answered.
    #[inline]
    pub fn is_known(&self, index: usize) -> bool {
        self.charges[index].kept != Kept::Elsewhere
    }

    /// Where a counter stands after the decision. Of one that nobody has answered for it is as of a new one.
    #[inline]
    pub fn standing(&self, index: usize) -> Standing {
        let charge = &self.charges[index];
        if charge.is_elsewhere() {
            return self.standing_elsewhere(charge);
        }
        standing(self.rule(index).limit(), charge.seen.state(), self.decided_at)
    }

    #[cold]
    fn standing_elsewhere(&self, charge: &Charge<'_>) -> Standing {
        let limit = charge.rule.limit().capacity();
        if charge.kept == Kept::Elsewhere {
            return Standing { limit, remaining: limit, reset_after: Duration::ZERO };
        }
        let (remaining, renewed_at) = split_log(charge.seen.state());
        Standing { limit, remaining, reset_after: renewed_at - self.decided_at }
    }

    /// Enters what a charge was answered whose counter is kept elsewhere, and whether it was made.
    ///
    /// # Panics
    /// If there is no charge at `index`.
    pub fn answer(&mut self, index: usize, decision: Decision, is_charged: bool) {
        let renewed_at = self.decided_at + decision.standing.reset_after;
        let charge = &mut self.charges[index];
        charge.kept = Kept::Answered;
        charge.seen = Bits::of(join_log(decision.standing.remaining, renewed_at));
        charge.set_refusal(decision.refusal);
        charge.is_charged = is_charged;
    }

    /// Enters that a charge was not made after all whose counter is kept elsewhere: it has been given back.
    ///
    /// # Panics
    /// If there is no charge at `index`.
    pub fn uncharge(&mut self, index: usize) {
        self.charges[index].is_charged = false;
    }

    /// Begins to decide a chain of which counters are kept elsewhere: they are asked, perhaps again, as of `now`.
    pub fn begin(&mut self, now: Time) {
        self.decided_at = now;
        for charge in self.charges.iter_mut().filter(|charge| charge.is_elsewhere()) {
            charge.kept = Kept::Elsewhere;
            charge.is_charged = false;
            charge.set_refusal(None);
        }
    }

    /// Enters that somebody else refuses a charge, whatever the limiter said.
    ///
    /// # Panics
    /// If there is no charge at `index`.
    pub fn refuse(&mut self, index: usize, refusal: Refusal) {
        self.charges[index].set_refusal(Some(refusal));
    }

    /// The verdict on what all charges were answered.
    pub fn verdict(&self) -> Verdict {
        self.verdict_on_refusals()
    }

    /// The tightest limit: the one that admits the fewest further requests of its cost, among equals the
    /// one that takes longest to be full, then the first. `None` without charges.
    pub fn tightest(&self) -> Option<usize> {
        let tightness = |index: usize| {
            let standing = self.standing(index);
            let cost = self.charges[index].cost.max(1);
            (standing.remaining / cost, Reverse(standing.reset_after))
        };
        let known = (0..self.charges.len()).filter(|index| self.is_known(*index));
        known.min_by_key(|index| tightness(*index))
    }

    /// Reads the verdict off what each charge was answered, where not all passed.
    #[cold]
    pub(crate) fn verdict_on_refusals(&self) -> Verdict {
        Verdict::of(self.charges.iter().map(|charge| (charge.strategy, charge.refusal())))
    }
}

/// Where a counter stands whose decision left it as `seen`.
#[inline]
pub(crate) fn standing(limit: &Limit, seen: State, now: Time) -> Standing {
    match limit.form() {
        Form::Flat(flat) => flat.standing(&seen, now),
        Form::Log(_) => {
            let (remaining, renewed_at) = split_log(seen);
            Standing { limit: limit.capacity(), remaining, reset_after: renewed_at - now }
        }
    }
}

/// What a decision keeps of a log, and of a counter elsewhere: what remains, and when it is renewed.
pub(crate) fn join_log(remaining: u64, renewed_at: Time) -> State {
    State::from_bits(u128::from(remaining) << 64 | u128::from(renewed_at.as_nanos()))
}

pub(crate) fn split_log(seen: State) -> (u64, Time) {
    ((seen.to_bits() >> 64) as u64, Time::from_nanos(seen.to_bits() as u64))
}
