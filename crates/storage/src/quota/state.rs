//! What is known of one quota, and what that allows. No store and no locks here: only figures.

use std::collections::VecDeque;
use std::fmt;

use tollgate_core::Time;

use super::{Grant, block};
use crate::Unavailable;

/// A period of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaPeriod {
    /// Its first moment, which tells periods of one quota apart.
    pub begins: Time,
    /// The first moment after it.
    pub ends: Time,
}

/// What a request asks of a quota.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// How much.
    pub amount: u64,
    /// The quota's limit as it is now. It may differ from draw to draw: what was used stays used.
    pub limit: u64,
    /// The period it is now.
    pub period: QuotaPeriod,
}

/// Why nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSpent {
    /// So much is used that it would exceed the limit.
    Exhausted {
        /// What is used of the limit; 0 if the amount alone exceeds it and the store was not asked yet.
        used: u64,
    },
    /// What is reserved does not suffice: wait for more with [`spend`](super::QuotaAccount::spend).
    MustWait,
    /// More could not be reserved; `storage.on_error` decides.
    Unavailable(Unavailable),
}

impl fmt::Display for NotSpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSpent::Exhausted { used } => write!(f, "{used} of the quota is used"),
            NotSpent::MustWait => f.write_str("more of the quota must be reserved first"),
            NotSpent::Unavailable(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NotSpent {}

/// What is known of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStanding {
    /// The period.
    pub period: QuotaPeriod,
    /// What was spent in it, or was stranded by a crash.
    pub used: u64,
    /// What is reserved besides.
    pub unspent: u64,
}

/// What is known of one quota in its current period.
#[derive(Debug)]
pub(super) struct State<W> {
    period: Option<QuotaPeriod>,
    /// What the store has written down; nothing before it was asked.
    taken: Option<u64>,
    unspent: u64,
    /// On its way back to the store: not to be spent, but not used either.
    returning: u64,
    limit: u64,
    /// Whether the store is being asked something about this period.
    is_asking: bool,
    /// Whether another node may have given back some of what is taken.
    doubt: Doubt,
    waiters: VecDeque<Waiter<W>>,
    closed: bool,
}

/// Whether what the store last said is taken is still believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// The store is to be asked.
    Begun,
    /// It was asked after that.
    Asked,
}

/// A request that waits for more to be reserved. It is charged by whoever reserves it.
#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) draw: Draw,
    pub(super) whose: W,
}

/// What to send to the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Reserve { period: QuotaPeriod, limit: u64, amount: u64 },
    Refund { begins: Time, amount: u64 },
}

/// Somebody who waits, and may have left meanwhile.
pub(super) trait MayLeave {
    fn has_left(&self) -> bool;
}

impl<W: MayLeave> State<W> {
    pub(super) fn new() -> State<W> {
        State {
            period: None,
            taken: None,
            unspent: 0,
            returning: 0,
            limit: 0,
            is_asking: false,
            doubt: Doubt::None,
            waiters: VecDeque::new(),
            closed: false,
        }
    }

    pub(super) fn period(&self) -> Option<QuotaPeriod> {
        self.period
    }

    pub(super) fn used(&self) -> u64 {
        self.taken.map_or(0, |taken| taken.saturating_sub(self.unspent + self.returning))
    }

    pub(super) fn standing(&self) -> Option<QuotaStanding> {
        let (period, _) = self.period.zip(self.taken)?;
        Some(QuotaStanding { period, used: self.used(), unspent: self.unspent })
    }

    /// Moves on to the draw's period. A quota never goes back to an earlier one, which a clock that is slightly
    /// behind may still ask for. What was reserved of the old period is given back, so that its record is right.
    pub(super) fn enter(&mut self, draw: &Draw) -> Option<Errand> {
        self.limit = draw.limit;
        match self.period {
            Some(current) if draw.period.begins <= current.begins => None,
            Some(old) => {
                let amount = std::mem::take(&mut self.unspent);
                (self.period, self.taken) = (Some(draw.period), None);
                (self.returning, self.is_asking, self.doubt) = (0, false, Doubt::None);
                (amount > 0).then_some(Errand::Refund { begins: old.begins, amount })
            }
            None => {
                self.period = Some(draw.period);
                None
            }
        }
    }

    /// Spends, if what is reserved suffices and nobody waits.
    pub(super) fn spend(&mut self, draw: &Draw) -> Result<(), NotSpent> {
        if self.closed {
            return Err(NotSpent::Unavailable(Unavailable::Closed));
        }
        if self.exceeds(draw) {
            return Err(NotSpent::Exhausted { used: self.used() });
        }
        if !self.waiters.is_empty() || self.taken.is_none() || self.unspent < draw.amount {
            return Err(NotSpent::MustWait);
        }
        self.unspent -= draw.amount;
        Ok(())
    }

    fn exceeds(&self, draw: &Draw) -> bool {
        self.used().saturating_add(draw.amount) > draw.limit
    }

    pub(super) fn wait(&mut self, draw: Draw, whose: W) {
        self.waiters.push_back(Waiter { draw, whose });
    }

    /// What the store should be asked now, if anything: for those who wait, and ahead of need when half a block is spent.
    /// What those who wait will leave unspent is one block again. What is taken is doubted: the store is asked though nothing
    /// seems to be left, for a reservation answers how much it is.
    pub(super) fn errand(&mut self) -> Option<Errand> {
        let period = self.period?;
        if self.is_asking || self.closed {
            return None;
        }
        self.waiters.retain(|waiter| !waiter.whose.has_left());
        let waited = self.waiters.iter().map(|waiter| waiter.draw.amount);
        let waited = waited.fold(0, u64::saturating_add);
        let block = block(self.limit, self.used().saturating_add(waited));
        if waited == 0 && self.unspent > block {
            let amount = self.unspent - block;
            (self.unspent, self.returning, self.is_asking) = (block, amount, true);
            return Some(Errand::Refund { begins: period.begins, amount });
        }
        let (is_low, is_doubted) = (self.unspent <= block / 2, self.doubt == Doubt::Begun);
        if waited == 0 && !is_low && !is_doubted {
            return None;
        }
        let limit = self.waiters.iter().map(|w| w.draw.limit).fold(self.limit, u64::max);
        let taken = self.taken.filter(|_| !is_doubted);
        let free = limit.saturating_sub(taken.unwrap_or(0));
        let amount = waited.saturating_add(block).saturating_sub(self.unspent).min(free);
        if amount == 0 && waited == 0 && !is_doubted {
            return None;
        }
        self.is_asking = true;
        if is_doubted {
            self.doubt = Doubt::Asked;
        }
        Some(Errand::Reserve { period, limit, amount })
    }

    /// Takes note of what the store granted in the period that begins then. Answers who can now be told what, in the order
    /// in which they came; who is told that it has spent has been charged.
    pub(super) fn granted(
        &mut self,
        begins: Time,
        grant: Result<Grant, Unavailable>,
    ) -> Vec<(Waiter<W>, Result<(), NotSpent>)> {
        if self.period.is_none_or(|period| period.begins != begins) {
            return Vec::new();
        }
        self.is_asking = false;
        if self.doubt == Doubt::Asked {
            self.doubt = if grant.is_ok() { Doubt::None } else { Doubt::Begun };
        }
        match grant {
            Ok(Grant { granted, taken }) => {
                self.taken = Some(taken);
                self.unspent += granted;
                self.serve()
            }
            Err(why) => self.fail(&why),
        }
    }

    fn serve(&mut self) -> Vec<(Waiter<W>, Result<(), NotSpent>)> {
        let mut served = Vec::new();
        // One that has left must not take what another waits for.
        self.waiters.retain(|waiter| !waiter.whose.has_left());
        while let Some(waiter) = self.waiters.pop_front() {
            if self.exceeds(&waiter.draw) {
                let used = self.used();
                served.push((waiter, Err(NotSpent::Exhausted { used })));
            } else if self.unspent >= waiter.draw.amount {
                self.unspent -= waiter.draw.amount;
                served.push((waiter, Ok(())));
            } else {
                self.waiters.push_front(waiter);
                break;
            }
        }
        if self.closed {
            let closed = || Err(NotSpent::Unavailable(Unavailable::Closed));
            served.extend(self.waiters.drain(..).map(|waiter| (waiter, closed())));
        }
        served
    }

    /// Takes note of whether what was returning has been written down. Answers as [`granted`](State::granted) does.
    pub(super) fn refunded(
        &mut self,
        begins: Time,
        done: Result<(), Unavailable>,
    ) -> Vec<(Waiter<W>, Result<(), NotSpent>)> {
        if self.period.is_none_or(|period| period.begins != begins) {
            return Vec::new();
        }
        self.is_asking = false;
        let amount = std::mem::take(&mut self.returning);
        match done {
            Ok(()) => {
                self.taken = self.taken.map(|taken| taken.saturating_sub(amount));
                self.serve()
            }
            Err(why) => {
                self.unspent += amount;
                let mut told = self.serve();
                told.extend(self.fail(&why));
                told
            }
        }
    }

    /// Tells all who wait that the store did not work.
    fn fail(&mut self, why: &Unavailable) -> Vec<(Waiter<W>, Result<(), NotSpent>)> {
        let told = |waiter| (waiter, Err(NotSpent::Unavailable(why.clone())));
        self.waiters.drain(..).map(told).collect()
    }

    /// Makes unspent what was spent in the period that begins then, if it still is that period.
    pub(super) fn give_back(&mut self, begins: Time, amount: u64) {
        if self.period.is_some_and(|period| period.begins == begins) {
            self.unspent += amount;
        }
    }

    /// What is taken is to be asked for anew: also where the store is being asked already, for that may have been too early.
    pub(super) fn begin_doubt(&mut self) {
        if self.taken.is_some() {
            self.doubt = Doubt::Begun;
        }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt != Doubt::None
    }

    /// Whether the store has written down no more than is used and a block besides.
    pub(super) fn is_settled(&self) -> bool {
        self.returning == 0 && self.unspent <= block(self.limit, self.used())
    }

    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Spends nothing more, and asks for nothing more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// What is left, to be given back: nothing of one that was never spent from, but looked at. Only when the store is asked
    /// nothing.
    pub(super) fn take_unspent(&mut self) -> Option<(Time, u64)> {
        if self.is_asking || !self.waiters.is_empty() {
            return None;
        }
        let begins = self.period.map_or(Time::EPOCH, |period| period.begins);
        Some((begins, std::mem::take(&mut self.unspent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Patient;

    impl MayLeave for Patient {
        fn has_left(&self) -> bool {
            false
        }
    }

    fn draw(amount: u64, limit: u64) -> Draw {
        let period = QuotaPeriod { begins: Time::EPOCH, ends: Time::MAX };
        Draw { amount, limit, period }
    }

    /// A store that answers some time after it was asked, and could be the last to know at any moment.
    #[test]
    fn at_no_moment_is_more_than_a_block_written_down_and_not_used() {
        for (limit, largest) in [(1, 1), (50, 3), (1_000, 1), (10_000, 40), (100_000, 3)] {
            let mut state = State::new();
            let (mut written, mut on_its_way, mut spent) = (0, None, 0);
            let mut step = 1u64;
            for _ in 0..60_000 {
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let draw = draw((step >> 40) % largest + 1, limit);
                if step >> 61 == 0 {
                    if let Some(answer) = on_its_way.take() {
                        let told = match answer {
                            Some(grant) => state.granted(Time::EPOCH, Ok(grant)),
                            None => state.refunded(Time::EPOCH, Ok(())),
                        };
                        let served = told.iter().filter(|(_, outcome)| outcome.is_ok());
                        spent += served.map(|(waiter, _)| waiter.draw.amount).sum::<u64>();
                    }
                } else {
                    assert_eq!(state.enter(&draw), None);
                    match state.spend(&draw) {
                        Ok(()) => spent += draw.amount,
                        Err(NotSpent::MustWait) => state.wait(draw, Patient),
                        Err(why) => assert_eq!(why, NotSpent::Exhausted { used: spent }),
                    }
                }
                match state.errand() {
                    None => (),
                    Some(Errand::Reserve { amount, .. }) => {
                        let granted = amount.min(limit - written);
                        written += granted;
                        on_its_way = Some(Some(Grant { granted, taken: written }));
                    }
                    // What was reserved for one who then did not fit.
                    Some(Errand::Refund { amount, .. }) => {
                        assert!(limit - spent < 2 * largest, "only near the end");
                        written -= amount;
                        on_its_way = Some(None);
                    }
                }
                let waited: u64 = state.waiters.iter().map(|waiter| waiter.draw.amount).sum();
                let stranded = written - spent;
                assert!(stranded <= block(limit, 0) + waited, "{stranded} of {limit}, {waited}");
                assert!(spent <= written && written <= limit);
            }
            assert!(spent + largest > limit, "{spent} of {limit} was all that could be spent");
        }
    }
}
