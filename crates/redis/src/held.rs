//! One leased counter as this node holds it: its slice, and who asks for the next.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_engine::{Decision, Refusal, Standing, Time};

use crate::Figures;
use crate::answer::{Left, refusal, standing};
use crate::figures::Shape;
use crate::newest::Newest;
use crate::owed::InView;
use crate::slice::{Grant, Slice};

/// One counter: a slice of it, and who asks for the next.
pub(crate) struct Held {
    key: String,
    /// How its limit counts by now, where a policy says so.
    newest: Option<Arc<Newest>>,
    pub(crate) slice: Mutex<Slice>,
    /// As it was last asked for.
    pub(crate) figures: Mutex<Arc<Figures>>,
    /// One asks; the others wait for its answer.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Somebody asks in the background already.
    pub(crate) is_asking: AtomicBool,
    told: Mutex<Option<Told>>,
    /// What was told last was not enough for somebody: else requests need not look at it.
    is_refused: AtomicBool,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) decision: Decision,
    /// Which window or turn it counts in, if it was made.
    pub(crate) mark: i64,
}

/// What Redis said last.
#[derive(Debug)]
struct Told {
    grant: Grant,
    figures: Arc<Figures>,
    arrived: Instant,
    /// What whoever asked did not get.
    refused: Option<u64>,
}

impl Told {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.arrived)
    }
}

impl Held {
    pub(crate) fn new(key: String, figures: &Arc<Figures>, newest: Option<Arc<Newest>>) -> Held {
        Held {
            key,
            newest,
            slice: Mutex::new(Slice::new(Instant::now())),
            figures: Mutex::new(Arc::clone(figures)),
            asking: tokio::sync::Mutex::new(()),
            is_asking: AtomicBool::new(false),
            told: Mutex::new(None),
            is_refused: AtomicBool::new(false),
        }
    }

    /// What was admitted while Redis could not be asked is paid from the next slices before anything else.
    pub(crate) fn owe(&self, admitted: u64, unpaid: u64, in_view: InView) {
        self.slice.lock().owe(admitted, unpaid, in_view);
    }

    /// What of that is not paid yet.
    pub(crate) fn owed(&self) -> u64 {
        self.slice.lock().owed()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Whether its limit still counts as these figures do.
    pub(crate) fn is_newest(&self, figures: &Figures) -> bool {
        self.newest.as_ref().is_none_or(|newest| newest.is(figures))
    }

    /// What can be spent of it.
    pub(crate) fn left(&self) -> u64 {
        self.slice.lock().left(Instant::now())
    }

    /// Whether it can be forgotten: nothing of it is to be returned, and nothing to be paid.
    pub(crate) fn is_done(&self) -> bool {
        self.slice.lock().is_done(Instant::now())
    }

    /// Where the counter stands, so far as is known here.
    pub(crate) fn known(&self, figures: &Figures) -> Decision {
        spent(figures, &self.slice.lock(), Instant::now())
    }

    /// Spends `cost` if it is there, and tells whether it is time to ask for more.
    pub(crate) fn spend(&self, figures: &Figures, cost: u64) -> (Option<Spent>, bool) {
        let now = Instant::now();
        let mut slice = self.slice.lock();
        if slice.is_above(figures.capacity()) {
            return (None, false);
        }
        let is_spent = slice.spend(cost, now);
        let spent =
            is_spent.then(|| Spent { decision: spent(figures, &slice, now), mark: slice.mark() });
        (spent, slice.is_low(now))
    }

    /// The same by the clock that a request has read already, where that is enough.
    #[inline]
    pub(crate) fn spend_at(
        &self,
        figures: &Figures,
        cost: u64,
        now: Time,
    ) -> (Option<Spent>, bool) {
        let limit = figures.capacity();
        let mut slice = self.slice.lock();
        if slice.is_above(limit) {
            return (None, false);
        }
        let Some((remaining, reset_after)) = slice.spend_fresh(cost, now) else {
            drop(slice);
            return self.spend(figures, cost);
        };
        let standing = Standing { limit, remaining: remaining.min(limit), reset_after };
        let decision = Decision { refusal: None, standing };
        (Some(Spent { decision, mark: slice.mark() }), slice.is_scarce())
    }

    /// Spends `cost` of what was granted to whoever asked for it, if that is enough; else Redis has refused it. `None` if it was enough
    /// and is gone: others have spent it meanwhile, a debt was noted that it paid, or its window is over.
    pub(crate) fn decide(&self, figures: &Figures, cost: u64, grant: Grant) -> Option<Spent> {
        let (mut slice, now) = (self.slice.lock(), Instant::now());
        if slice.spend(cost, now) {
            let left = of_both(figures, grant.left, slice.left(now));
            let standing = standing(figures, left, grant.at);
            let decision = Decision { refusal: None, standing };
            return Some(Spent { decision, mark: slice.mark() });
        }
        if grant.holds >= cost {
            return None;
        }
        let ours = slice.left(now);
        drop(slice);
        if let Some(told) = &mut *self.told.lock() {
            told.refused = Some(cost);
        }
        self.is_refused.store(true, Relaxed);
        Some(Spent { decision: refused(figures, cost, (grant, ours)), mark: grant.mark })
    }

    /// Puts back what was spent when the slice had this mark.
    pub(crate) fn unspend(&self, cost: u64, mark: i64) {
        self.slice.lock().unspend(cost, mark, Instant::now());
    }

    /// Redis has said where the counter stands, under these figures.
    pub(crate) fn hear(&self, grant: Grant, figures: &Arc<Figures>) {
        let (figures, arrived) = (Arc::clone(figures), Instant::now());
        *self.told.lock() = Some(Told { grant, figures, arrived, refused: None });
    }

    /// What was told is no longer so.
    pub(crate) fn forget(&self) {
        *self.told.lock() = None;
        self.is_refused.store(false, Relaxed);
    }

    /// What `cost` would be answered, if somebody was refused lately and this would be too by what Redis said then. What others
    /// have returned or made new since is not known here, so Redis' word is believed for `trust` only: for so long at
    /// most somebody is refused whom it would admit.
    #[inline]
    pub(crate) fn foresee(
        &self,
        figures: &Figures,
        cost: u64,
        trust: impl FnOnce() -> Duration,
    ) -> Option<Decision> {
        if !self.is_refused.load(Relaxed) {
            return None;
        }
        let foreseen = self.refusal(figures, cost).filter(|(_, age)| *age < trust());
        if foreseen.is_none() {
            self.is_refused.store(false, Relaxed);
        }
        foreseen.map(|(decision, _)| decision)
    }

    /// The refusal of `cost` that follows from what Redis said last and what is held here, and how long ago that was: together they
    /// are too little, and time has not brought the rest since.
    #[cold]
    pub(crate) fn refusal(&self, figures: &Figures, cost: u64) -> Option<(Decision, Duration)> {
        let (ours, now) = (self.left(), Instant::now());
        let told = self.told.lock();
        let told = told.as_ref().filter(|told| *told.figures == *figures)?;
        let left = of_both(figures, told.grant.left, ours);
        if standing(figures, left, told.grant.at).remaining >= cost {
            return None;
        }
        let age = told.age(now);
        let Decision { refusal, mut standing } = refused(figures, cost, (told.grant, ours));
        standing.reset_after = standing.reset_after.saturating_sub(age);
        let refusal = match refusal? {
            Refusal::Wait(nanos) => {
                let past = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                Refusal::Wait(nanos.checked_sub(past).filter(|rest| *rest > 0)?)
            }
            Refusal::Never => Refusal::Never,
        };
        Some((Decision { refusal: Some(refusal), standing }, age))
    }

    /// What somebody who waits since then would be answered, if another one's answer says it already.
    pub(crate) fn refused_since(
        &self,
        since: Instant,
        figures: &Figures,
        cost: u64,
    ) -> Option<Spent> {
        let ours = self.left();
        let told = self.told.lock();
        let told = told.as_ref()?;
        let is_ours = told.arrived >= since && told.refused.is_some_and(|least| least <= cost);
        let refused = || refused(figures, cost, (told.grant, ours));
        is_ours.then(|| Spent { decision: refused(), mark: told.grant.mark })
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What was taken for somebody who waits for it. Dropped before they have it, it is put back.
pub(crate) struct Taken {
    held: Arc<Held>,
    cost: u64,
    spent: Spent,
    is_theirs: bool,
}

impl Taken {
    pub(crate) fn new(held: &Arc<Held>, cost: u64, spent: Spent) -> Taken {
        Taken { held: Arc::clone(held), cost, spent, is_theirs: false }
    }

    pub(crate) fn hand_over(mut self) -> Spent {
        self.is_theirs = true;
        self.spent
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.is_theirs && self.spent.decision.is_allowed() {
            self.held.unspend(self.cost, self.spent.mark);
        }
    }
}

/// The answer to a charge that this node's slice paid: what it still holds, and what Redis had when it was last asked.
fn spent(figures: &Figures, slice: &Slice, now: Instant) -> Decision {
    let limit = figures.capacity();
    let (remaining, reset_after) = slice.known(limit, now);
    Decision { refusal: None, standing: Standing { limit, remaining, reset_after } }
}

/// The answer to a charge that neither Redis nor this node's slice can pay.
fn refused(figures: &Figures, cost: u64, (grant, ours): (Grant, u64)) -> Decision {
    let left = of_both(figures, grant.left, ours);
    let refusal = Some(refusal(figures, left, cost, grant.at));
    Decision { refusal, standing: standing(figures, left, grant.at) }
}

/// What remains to a caller of this node: what is in Redis and what the node holds.
fn of_both(figures: &Figures, left: Left, ours: u64) -> Left {
    let ours = i64::try_from(ours).unwrap_or(i64::MAX);
    match figures.shape {
        Shape::Bucket { .. } => Left { one: left.one.saturating_add(ours), ..left },
        _ => Left { one: left.one.saturating_sub(ours), ..left },
    }
}

#[cfg(test)]
mod tests;
