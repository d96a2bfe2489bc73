//! Counters that Redis decides, all of a chain in one script.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate_core::Kind;
use tollgate_engine::{Clock, Decision, Identity, Strategy, Time};
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Keeper, Manner, Mark, Together, TogetherAnswered, Waiting, Whose,
};

use super::fallback::Owing;
use super::outage::Outage;
use super::{Shared, Terms};
use crate::answer::renewed_after;
use crate::ledger::Ledger;
use crate::newest::Newest;
use crate::{Answer, Charge, Figures};

/// Keeps the strict counters of one limit.
pub(super) struct StrictKeeper<C>(pub(super) Arc<Terms<C>>);

impl<C> fmt::Debug for StrictKeeper<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request that has not waited for longer, for leased counters before these, has all of its time.
const A_MOMENT: Duration = Duration::from_millis(1);

/// One strict counter.
#[derive(Debug)]
pub(super) struct Counted {
    key: String,
    identity: Identity,
    outage: Outage,
    /// How its limit counts by now.
    newest: Arc<Newest>,
    /// What was admitted in outages and told afterwards.
    ledger: Mutex<Ledger>,
    /// One tells at a time, a request or whoever tells of all: answers are entered in the order of what was told.
    turn: tokio::sync::Mutex<()>,
}

impl Counted {
    pub(super) fn is_settled(&self) -> bool {
        self.outage.is_settled()
    }

    /// Charges what was admitted while Redis could not be asked, into debt if need be. A log cannot be: each of its charges
    /// has a moment. `false` if it is to be tried again.
    pub(super) async fn recover<C: Clock>(&self, shared: &Shared<C>, figures: &Figures) -> bool {
        let _turn = self.turn.lock().await;
        let debt = self.outage.take_debt(&shared.limiter, self.identity, figures);
        if figures.limit().kind() == Kind::SlidingWindowLog {
            return self.outage.settle();
        }
        let told = {
            let mut ledger = self.ledger.lock();
            ledger.consume(debt.admitted);
            // Time has paid off what the share no longer lacks, also of what could not be told before.
            let paid = ledger.unsent().saturating_sub(debt.unpaid);
            ledger.unconsume(paid);
            let told = ledger.statement().counting_in(debt.in_view);
            // By the newest policy it may count otherwise.
            if self.newest.is(figures) { told } else { told.of_former() }
        };
        if told.unsent == 0 {
            return self.outage.settle();
        }
        let node = shared.nodes.name();
        let settled = shared.strict.sync(&self.key, figures, (node, told)).await;
        let Ok(settled) = settled else { return false };
        self.ledger.lock().settle(told, settled);
        // Else there is no such counter, of which anything could be left.
        if settled.born != 0 {
            let now = shared.limiter.clock().now();
            let renewed = now + renewed_after(figures, settled.rest, now);
            let left = u64::try_from(settled.rest).unwrap_or(0);
            self.outage.note((left, figures.capacity()), renewed);
        }
        self.outage.settle()
    }
}

/// One of several charges that are decided together.
struct Part<C> {
    terms: Arc<Terms<C>>,
    counter: Counter,
    cost: u64,
    strategy: Strategy,
}

type Parts<C> = SmallVec<[Part<C>; 4]>;

impl<C: Clock + 'static> Part<C> {
    /// `None` if it is no strict counter's.
    fn of(together: &Together<'_>) -> Option<Part<C>> {
        let keeper = (together.keeper as &dyn Any).downcast_ref::<StrictKeeper<C>>()?;
        together.asked.counter.get::<Counted>()?;
        Some(Part {
            terms: Arc::clone(&keeper.0),
            counter: together.asked.counter.clone(),
            cost: together.asked.cost,
            strategy: together.strategy,
        })
    }

    fn counted(&self) -> &Counted {
        self.counter.get().expect("a part is made of a strict counter")
    }

    fn charge(&self) -> Charge<'_> {
        Charge::new(&self.counted().key, &self.terms.figures)
            .cost(self.cost)
            .strategy(self.strategy)
    }

    fn fall_back(&self) -> Answered {
        let Terms { shared, share, figures, .. } = &*self.terms;
        let of = (&self.counted().outage, self.counted().identity);
        let owing = || Owing::Strict(self.counter.clone(), Arc::clone(figures));
        shared.fall_back(share, of, (self.cost, owing, None))
    }

    fn restore(&self) {
        let Terms { shared, share, .. } = &*self.terms;
        shared.restore(share, (&self.counted().outage, self.counted().identity), self.cost);
    }
}

/// All were decided by Redis.
fn decided<C: Clock + 'static>(parts: Parts<C>, answer: Answer) -> TogetherAnswered {
    let now = parts.first().map(|part| part.terms.shared.limiter.clock().now());
    let decisions = || answer.decisions().enumerate();
    for (part, (nth, decision)) in parts.iter().zip(decisions()) {
        let Some(now) = now.filter(|_| answer.is_known(nth)) else { continue };
        let standing = decision.standing;
        let left = (standing.remaining, standing.limit);
        part.counted().outage.note(left, now + standing.reset_after);
    }
    let answered = |(nth, decision)| match answer.is_known(nth) {
        true => Answered::Decided(decision, Mark::default()),
        // Another one refuses the request.
        false => Answered::Uncounted,
    };
    let answers = decisions().map(answered).collect();
    if !answer.verdict().is_admitted() {
        return TogetherAnswered { answers, give_back: None };
    }
    let give_back = move || {
        let Some(shared) = parts.first().map(|part| Arc::clone(&part.terms.shared)) else { return };
        let strict = shared.strict.clone();
        shared.runtime().spawn(async move {
            let charges: SmallVec<[Charge<'_>; 4]> = parts.iter().map(Part::charge).collect();
            // What cannot be given back now is repaid by time.
            let _ = strict.give_back(&charges, &answer).await;
        });
    };
    TogetherAnswered { answers, give_back: Some(Box::new(give_back)) }
}

/// Charges what this node admitted of these counters while Redis could not be asked: else that would be granted once more, to
/// whoever asks before it is told. `false` if it cannot be: then the outage lasts.
async fn owes_nothing<C: Clock + 'static>(parts: &Parts<C>, begun: Time) -> bool {
    let mut recover = Vec::new();
    for part in parts {
        if part.counted().outage.owes() {
            let Terms { shared, figures, .. } = &*part.terms;
            recover.push(part.counted().recover(shared, figures));
        }
    }
    let Some(shared) = parts.first().map(|part| &part.terms.shared) else { return true };
    if recover.is_empty() || !shared.strict.is_up() {
        return recover.is_empty();
    }
    let recovering = async { Ok(join_all(recover).await) };
    let recovered = shared.strict.within(shared.deadline(begun), recovering).await;
    recovered.is_ok_and(|all| all.into_iter().all(|is_settled| is_settled))
}

/// Redis could not be asked: each node decides by itself.
fn fallen_back<C: Clock + 'static>(parts: Parts<C>) -> TogetherAnswered {
    let answers: Vec<Answered> = parts.iter().map(Part::fall_back).collect();
    let is_made = |answered: &Answered| {
        matches!(answered, Answered::Decided(Decision { refusal: None, .. }, _))
    };
    let made: SmallVec<[bool; 4]> = answers.iter().map(is_made).collect();
    let give_back = move || {
        parts.iter().zip(made).filter(|(_, is_made)| *is_made).for_each(|(part, _)| part.restore());
    };
    TogetherAnswered { answers, give_back: Some(Box::new(give_back)) }
}

impl<C: Clock + 'static> Keeper for StrictKeeper<C> {
    fn manner(&self) -> Manner {
        Manner::Together
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        let shared = &self.0.shared;
        let make = || Counted {
            key: shared.key(&(whose.name)()),
            identity: whose.identity,
            outage: Outage::new(),
            newest: Arc::clone(&self.0.newest),
            ledger: Mutex::new(Ledger::begin()),
            turn: tokio::sync::Mutex::default(),
        };
        let held = shared.counted.get_or(whose.hash, || Ok::<_, ()>(make()), || ());
        // Nothing of it has to be held: Redis knows it all.
        Ok(Counter::new(held.unwrap_or_else(|()| Arc::new(make()))))
    }

    fn charge_together<'a>(&'a self, asked: &'a [Together<'a>]) -> Waiting<'a, TogetherAnswered> {
        Box::pin(async move {
            let parts: Parts<C> = asked.iter().filter_map(Part::of).collect();
            let shared = &self.0.shared;
            if parts.len() != asked.len() {
                // Somebody else's counters are not ours to charge.
                let what = "Limits of one request are counted in several places.";
                let answers = asked.iter().map(|_| Answered::Unavailable(what)).collect();
                return TogetherAnswered { answers, give_back: None };
            }
            let begun = asked.first().map_or(Time::EPOCH, |first| first.asked.now);
            if !owes_nothing(&parts, begun).await {
                return fallen_back(parts);
            }
            let answered = {
                let charges: SmallVec<[Charge<'_>; 4]> = parts.iter().map(Part::charge).collect();
                // Else the connection's deadline is the request's.
                let has_waited = shared.waited(begun) >= A_MOMENT;
                let deadline = has_waited.then(|| shared.deadline(begun));
                shared.strict.take_before(deadline, &charges).await
            };
            match answered {
                Ok(answer) => decided(parts, answer),
                Err(_) => fallen_back(parts),
            }
        })
    }

    fn look<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(async move {
            let counted = asked.counter.get::<Counted>()?;
            let strict = &self.0.shared.strict;
            strict.peek(&counted.key, &self.0.figures, asked.cost).await.ok()
        })
    }

    fn reset<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(async move {
            let Some(counted) = asked.counter.get::<Counted>() else { return false };
            self.0.shared.strict.reset(&counted.key).await.is_ok()
        })
    }
}
