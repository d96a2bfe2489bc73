//! Chains with counters that are kept elsewhere.
//!
//! ```text
//! look at those decided alone ─▶ limiter: all it keeps, at once ─▶ those decided alone ─▶ those decided together ─▶ tell
//!      │ refused                      │ refused                       │ refused               │ refused
//!      └─ nothing was charged         └─ nothing was charged          └───────────────────────┴─ all is given back
//! ```
//! What is known to refuse is looked at first: so whoever has used up a quota holds nothing of what others share, not
//! even for a moment. Where the limiter knows too little of a counter that others use too, a request that would pass waits
//! until it knows, before anything is charged.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_engine::{Chain, Clock, Decision, Refusal, Standing, Strategy, Time, Verdict};

use crate::elsewhere::{
    Answered, Asked, Counter, GiveBack, Keeper, Manner, Mark, Together, Waiting,
};
use crate::gate::Gate;
use crate::passage::Passage;

/// The places of a chain whose counters are kept elsewhere. Without any it costs nothing.
#[derive(Default)]
pub(crate) struct KeptPlaces<'f> {
    /// With room for the key's or plan's, the tenant's, the system's and a route's.
    pub(crate) all: SmallVec<[KeptPlace<'f>; 4]>,
    /// What was charged together.
    together: Option<GiveBack>,
}

impl std::fmt::Debug for KeptPlaces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.all.fmt(f)
    }
}

/// One place of a chain whose counter is kept elsewhere.
#[derive(Debug)]
pub(crate) struct KeptPlace<'f> {
    pub(crate) place: usize,
    pub(crate) keeper: &'f Arc<dyn Keeper>,
    pub(crate) manner: Manner,
    pub(crate) counter: Result<Counter, Answered>,
    pub(crate) strategy: Strategy,
    /// The keeper has charged it by itself.
    charged: Option<Mark>,
    /// The keeper was told.
    told: bool,
}

impl<'f> KeptPlace<'f> {
    pub(crate) fn new(
        place: usize,
        keeper: &'f Arc<dyn Keeper>,
        counter: Result<Counter, Answered>,
        strategy: Strategy,
    ) -> KeptPlace<'f> {
        let manner = keeper.manner();
        KeptPlace { place, keeper, manner, counter, strategy, charged: None, told: false }
    }

    fn blocks(&self) -> bool {
        matches!(self.strategy, Strategy::Reject | Strategy::Queue)
    }

    fn asked<'a>(&'a self, chain: &Chain<'_>) -> Option<Asked<'a>> {
        let counter = self.counter.as_ref().ok()?;
        Some(Asked { counter, cost: chain.cost(self.place), now: chain.decided_at() })
    }
}

/// How far a chain has come without waiting.
enum Come {
    /// It is decided.
    Through,
    /// The place with this number among those kept elsewhere has to be waited for, or if there is none, those that are
    /// decided together.
    To(usize),
}

/// How long whoever cannot be counted is told to stay away.
const UNAVAILABLE_FOR: Duration = Duration::from_secs(1);

impl<C: Clock> Gate<C> {
    /// Decides a chain as far as that needs no waiting. `true` if it is decided.
    pub(crate) fn try_kept(&self, passage: &mut Passage<'_>, now: Time) -> bool {
        match self.take_here(passage, now) {
            Come::Through => true,
            Come::To(_) => {
                self.undo(passage);
                passage.fail(None, "Where this is counted has to be waited for.");
                false
            }
        }
    }

    /// Decides a chain. Dropped while it waits, everything is given back.
    pub(crate) async fn take_kept(&self, passage: &mut Passage<'_>, now: Time) {
        let mut decided_at = now;
        if passage.is_stale(now) && self.would_pass(passage, now) {
            all(passage.refresh()).await;
            decided_at = self.limiter().clock().now();
        }
        let Come::To(first) = self.take_here(passage, decided_at) else { return };
        let mut held = Held { gate: self, passage, began: now, is_done: false };
        held.rest(first).await;
    }

    /// Asks whoever keeps counters elsewhere where they stand.
    pub(crate) async fn look_kept(&self, passage: &mut Passage<'_>) {
        for number in 0..passage.kept.all.len() {
            let kept = &passage.kept.all[number];
            if kept.manner == Manner::Told {
                continue;
            }
            let Some(asked) = kept.asked(&passage.chain) else { continue };
            if let Some(decision) = kept.keeper.look(asked).await {
                passage.chain.answer(kept.place, decision, false);
            }
        }
    }

    /// Makes the counter at a place new, where it is kept elsewhere.
    pub(crate) async fn reset_kept(&self, passage: &Passage<'_>, place: usize) -> bool {
        let Some(kept) = passage.kept.all.iter().find(|kept| kept.place == place) else {
            return true;
        };
        match kept.asked(&passage.chain) {
            Some(asked) => kept.keeper.reset(asked).await,
            None => false,
        }
    }

    /// Says what would become of a chain, as far as that needs no waiting. Nothing is charged.
    pub(crate) fn look_here(&self, passage: &mut Passage<'_>, now: Time) {
        passage.chain.begin(now);
        self.limiter().look_at(&mut passage.chain, now);
        passage.learn();
    }

    /// Whether a chain would pass by all that is known here. Nothing is charged.
    fn would_pass(&self, passage: &mut Passage<'_>, now: Time) -> bool {
        if passage.is_foreseen_to_fail(now) {
            return false;
        }
        self.limiter().look_at(&mut passage.chain, now);
        passage.chain.verdict().is_admitted()
    }

    fn take_here(&self, passage: &mut Passage<'_>, now: Time) -> Come {
        passage.unavailable = None;
        if passage.is_foreseen_to_fail(now) {
            self.limiter().look_at(&mut passage.chain, now);
            passage.learn();
            return Come::Through;
        }
        if !self.limiter().take_at(&mut passage.chain, now).is_admitted() {
            passage.learn();
            return Come::Through;
        }
        self.take_alone(passage, 0)
    }

    /// Charges those that are decided alone, from the one with this number on, as far as that needs no waiting.
    fn take_alone(&self, passage: &mut Passage<'_>, first: usize) -> Come {
        // Those before the first have been waited for.
        let now = match first {
            0 => passage.chain.decided_at(),
            _ => self.limiter().clock().now(),
        };
        for number in first..passage.kept.all.len() {
            let kept = &passage.kept.all[number];
            // What the limiter refuses and lets pass is skipped already.
            let is_skipped =
                kept.manner == Manner::Told && passage.chain.refusal(kept.place).is_some();
            if kept.manner == Manner::Together || is_skipped {
                continue;
            }
            let answered = match &kept.counter {
                Err(answered) => Some(*answered),
                Ok(_) => {
                    let asked = kept.asked(&passage.chain);
                    asked.and_then(|asked| kept.keeper.try_charge(&Asked { now, ..asked }))
                }
            };
            match answered {
                Some(answered) => {
                    if !passage.enter(number, answered) {
                        self.refuse_kept(passage);
                        return Come::Through;
                    }
                    self.skip_refused(passage, number);
                }
                None if kept.manner == Manner::Told => {}
                None => return Come::To(number),
            }
        }
        if passage.kept.all.iter().any(|kept| kept.manner == Manner::Together) {
            return Come::To(passage.kept.all.len());
        }
        passage.finish();
        Come::Through
    }

    /// Gives back what the limiter was charged at a place that refuses and lets the request pass: as one that the limiter itself
    /// refuses, it is skipped.
    fn skip_refused(&self, passage: &mut Passage<'_>, number: usize) {
        let place = passage.kept.all[number].place;
        if passage.chain.refusal(place).is_some() {
            self.limiter().give_back_one(&mut passage.chain, place);
        }
    }

    /// Gives back everything that was charged for a chain which does not pass, and says why it does not.
    fn refuse_kept(&self, passage: &mut Passage<'_>) {
        self.undo(passage);
        passage.learn();
    }

    /// Gives back everything that was charged, here and elsewhere.
    pub(crate) fn undo(&self, passage: &mut Passage<'_>) {
        self.limiter().give_back(&mut passage.chain);
        let now = self.limiter().clock().now();
        let Passage { chain, kept, .. } = passage;
        for kept in &mut kept.all {
            let (charged, told) = (kept.charged.take(), std::mem::take(&mut kept.told));
            let Some(asked) = kept.asked(chain) else { continue };
            let asked = Asked { now, ..asked };
            if let Some(mark) = charged {
                kept.keeper.give_back(&asked, mark);
            }
            if told {
                kept.keeper.untold(&asked);
            }
            if kept.manner != Manner::Told {
                chain.uncharge(kept.place);
            }
        }
        if let Some(give_back) = kept.together.take() {
            give_back();
        }
    }
}

/// A chain of which something is charged while the rest is waited for. Dropped, it gives that back.
struct Held<'g, 'p, 'f, C: Clock> {
    gate: &'g Gate<C>,
    passage: &'p mut Passage<'f>,
    /// All that it waits for has one deadline, however much there is.
    began: Time,
    is_done: bool,
}

impl<C: Clock> Held<'_, '_, '_, C> {
    /// Waits for what has to be waited for, from the place with this number on.
    async fn rest(&mut self, first: usize) {
        let mut come = Come::To(first);
        while let Come::To(number) = come {
            if number == self.passage.kept.all.len() {
                self.together().await;
                break;
            }
            let kept = &self.passage.kept.all[number];
            let answered = match kept.asked(&self.passage.chain) {
                Some(asked) => kept.keeper.charge(Asked { now: self.began, ..asked }).await,
                None => Answered::Uncounted,
            };
            come = if self.passage.enter(number, answered) {
                self.gate.take_alone(self.passage, number + 1)
            } else {
                self.gate.refuse_kept(self.passage);
                Come::Through
            };
        }
        self.is_done = true;
    }

    async fn together(&mut self) {
        let Passage { chain, kept, .. } = &*self.passage;
        let is_asked = |kept: &KeptPlace<'_>| kept.manner == Manner::Together;
        let numbers: Vec<usize> =
            (0..kept.all.len()).filter(|number| is_asked(&kept.all[*number])).collect();
        let together: Vec<Together<'_>> = numbers
            .iter()
            .filter_map(|number| {
                let kept = &kept.all[*number];
                let asked = Asked { now: self.began, ..kept.asked(chain)? };
                Some(Together { keeper: &**kept.keeper, asked, strategy: kept.strategy })
            })
            .collect();
        let answered = match together.first() {
            Some(first) => Some(first.keeper.charge_together(&together).await),
            None => None,
        };
        drop(together);
        let (mut answers, give_back) = match answered {
            Some(answered) => (answered.answers.into_iter(), answered.give_back),
            None => (Vec::new().into_iter(), None),
        };
        self.passage.kept.together = give_back;
        let mut passes = true;
        for number in numbers {
            let answer = match &self.passage.kept.all[number].counter {
                Err(answered) => *answered,
                Ok(_) => answers.next().unwrap_or(Answered::Uncounted),
            };
            passes &= self.passage.enter(number, answer);
        }
        match passes {
            true => self.passage.finish(),
            false => self.gate.refuse_kept(self.passage),
        }
    }
}

impl<C: Clock> Drop for Held<'_, '_, '_, C> {
    fn drop(&mut self) {
        if !self.is_done {
            self.gate.undo(self.passage);
        }
    }
}

/// Waits for all of these at the same time.
async fn all(mut waiting: Vec<Waiting<'_, ()>>) {
    poll_fn(|context| {
        waiting.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Passage<'_> {
    /// Whether the limiter knows too little of a counter that it is to decide.
    fn is_stale(&mut self, now: Time) -> bool {
        self.chain.begin(now);
        let Passage { chain, kept, .. } = &*self;
        let mut told = kept.all.iter().filter(|kept| kept.manner == Manner::Told);
        told.any(|kept| kept.asked(chain).is_some_and(|asked| kept.keeper.is_stale(&asked)))
    }

    /// What is to be waited for until the limiter knows enough of all of them.
    fn refresh(&self) -> Vec<Waiting<'_, ()>> {
        let Passage { chain, kept, .. } = self;
        let told = kept.all.iter().filter(|kept| kept.manner == Manner::Told);
        let stale = told.filter_map(|kept| {
            let asked = kept.asked(chain)?;
            kept.keeper.is_stale(&asked).then(|| kept.keeper.refresh(asked))
        });
        stale.collect()
    }

    /// Begins anew, and asks those that decide alone whether they refuse; `true` if one does.
    fn is_foreseen_to_fail(&mut self, now: Time) -> bool {
        self.chain.begin(now);
        let Passage { chain, kept, .. } = &mut *self;
        let mut is_blocked = false;
        for kept in &mut kept.all {
            (kept.charged, kept.told) = (None, false);
            if kept.manner != Manner::Alone {
                continue;
            }
            let foreseen = kept.asked(chain).and_then(|asked| kept.keeper.foresee(&asked));
            if let Some(decision) = foreseen {
                chain.answer(kept.place, decision, false);
                is_blocked |= kept.blocks() && decision.refusal.is_some();
            }
        }
        is_blocked
    }

    /// Enters what a place kept elsewhere was answered; `false` if the request cannot pass with it.
    fn enter(&mut self, number: usize, answered: Answered) -> bool {
        let kept = &mut self.kept.all[number];
        let place = kept.place;
        match answered {
            Answered::Decided(decision, mark) => {
                let is_made = decision.refusal.is_none();
                if kept.manner != Manner::Together {
                    kept.charged = is_made.then_some(mark);
                }
                let blocks = !is_made && kept.blocks();
                match (kept.manner, decision.refusal) {
                    (Manner::Told, Some(refusal)) => self.chain.refuse(place, refusal),
                    (Manner::Told, None) => {}
                    (Manner::Alone | Manner::Together, _) => {
                        let is_charged = is_made && self.chain.cost(place) > 0;
                        self.chain.answer(place, decision, is_charged);
                    }
                }
                !blocks
            }
            Answered::Uncounted => true,
            Answered::Unavailable(what) => {
                let blocks = kept.blocks();
                self.fail(Some(number), what);
                !blocks
            }
        }
    }

    /// Where something is counted does not work, and the request must not pass for it.
    fn fail(&mut self, number: Option<usize>, what: &'static str) {
        let wait = Refusal::Wait(UNAVAILABLE_FOR.as_nanos() as u64);
        let number = number.or_else(|| {
            self.kept.all.iter().position(|kept| kept.manner != Manner::Told && kept.blocks())
        });
        let Some(kept) = number.map(|number| &self.kept.all[number]) else { return };
        let (place, blocks, manner) = (kept.place, kept.blocks(), kept.manner);
        if manner == Manner::Told {
            self.chain.refuse(place, wait);
        } else {
            self.assume_used_up(place, wait);
        }
        if blocks {
            self.unavailable = Some(what);
            self.verdict = Verdict::Refused { by: place, refusal: wait };
        }
    }

    /// Nobody has said where the counter at a place stands: there is nothing left of it until then.
    pub(crate) fn assume_used_up(&mut self, place: usize, refusal: Refusal) {
        let limit = self.limits[place].limit().capacity();
        let reset_after = refusal.retry_after().unwrap_or_default();
        let standing = Standing { limit, remaining: 0, reset_after };
        self.chain.answer(place, Decision { refusal: Some(refusal), standing }, false);
    }

    /// Asks of a request that does not pass what else is known of its places, and says why it does not.
    fn learn(&mut self) {
        let Passage { chain, kept, .. } = &mut *self;
        for kept in kept.all.iter().filter(|kept| kept.manner == Manner::Alone) {
            if !chain.is_known(kept.place)
                && let Some(decision) = kept.asked(chain).and_then(|asked| kept.keeper.know(&asked))
            {
                chain.answer(kept.place, decision, false);
            }
        }
        self.settle();
    }

    /// The verdict on what all places were answered; waiting in line does not help where nobody can count.
    fn settle(&mut self) {
        if self.unavailable.is_none() {
            self.verdict = self.chain.verdict();
        }
    }

    /// Everything was charged that is to be: those who are told are.
    fn finish(&mut self) {
        self.settle();
        let Passage { chain, kept, .. } = self;
        for kept in kept.all.iter_mut().filter(|kept| kept.manner == Manner::Told) {
            if chain.is_charged(kept.place)
                && let Some(asked) = kept.asked(chain)
            {
                kept.keeper.told(&asked);
                kept.told = true;
            }
        }
    }
}
