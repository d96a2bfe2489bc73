//! One quota, spent by many.
//!
//! Spending is a few instructions under a small lock while the block has room. Whoever finds none waits in order of
//! arrival, and the answer of the store serves those who wait, on the store's own thread: no task is needed.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tollgate_core::Time;

use super::state::{Errand, MayLeave, State, Waiter};
use super::{Draw, Grant, NotSpent, QuotaPeriod, QuotaStanding, Refund, Reservation};
use crate::request::Reply;
use crate::{Store, StoreError, Unavailable};

/// One quota. Get it from a [`QuotaBook`](super::QuotaBook), and keep it as long as it is likely to be needed.
pub struct QuotaAccount {
    name: Box<str>,
    store: Store,
    state: Mutex<State<Caller>>,
}

/// How often the store is asked to take something back: one round is for what was on its way, one for what is given back, and the
/// others for those who spend meanwhile.
const ROUNDS: usize = 10;

type Caller = oneshot::Sender<Result<Charged, NotSpent>>;
/// Who waited, and what became of it.
type Told = (Waiter<Caller>, Result<(), NotSpent>);
/// Takes note of an answer about the period that begins then.
type Note<R> = fn(&mut State<Caller>, Time, Result<R, Unavailable>) -> Vec<Told>;

impl MayLeave for Caller {
    fn has_left(&self) -> bool {
        self.is_closed()
    }
}

impl QuotaAccount {
    pub(super) fn new(name: &str, store: Store) -> QuotaAccount {
        QuotaAccount { name: name.into(), store, state: Mutex::new(State::new()) }
    }

    /// Spends if what is reserved suffices; never waits. It asks the store for more ahead of need.
    ///
    /// # Errors
    ///
    /// [`NotSpent::MustWait`] if more has to be reserved first: [`spend`](QuotaAccount::spend) does.
    pub fn try_spend(self: &Arc<Self>, draw: Draw) -> Result<Spent, NotSpent> {
        self.spent(draw, self.decide(draw, |_, not_spent| not_spent))
    }

    /// The same without a receipt: what is used after it, and when the period began that it was spent in.
    pub(super) fn try_spend_at(self: &Arc<Self>, draw: Draw) -> Result<(u64, Time), NotSpent> {
        self.decide(draw, |_, not_spent| not_spent)
    }

    /// Spends, and waits for the store where too little is reserved. A future that is dropped has spent nothing.
    ///
    /// # Errors
    ///
    /// [`NotSpent::Exhausted`], or [`NotSpent::Unavailable`] if the store did not write down a reservation.
    pub async fn spend(self: &Arc<Self>, draw: Draw) -> Result<Spent, NotSpent> {
        let mut answer = None;
        let decided = self.decide(draw, |state, not_spent| {
            if not_spent == NotSpent::MustWait {
                let (caller, waiting) = oneshot::channel();
                state.wait(draw, caller);
                answer = Some(waiting);
            }
            not_spent
        });
        let Some(answer) = answer else { return self.spent(draw, decided) };
        match answer.await {
            Ok(Ok(charged)) => Ok(charged.kept()),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(NotSpent::Unavailable(Unavailable::Closed)),
        }
    }

    fn decide(
        self: &Arc<Self>,
        draw: Draw,
        otherwise: impl FnOnce(&mut State<Caller>, NotSpent) -> NotSpent,
    ) -> Result<(u64, Time), NotSpent> {
        let mut state = self.state.lock();
        let leftover = state.enter(&draw);
        let spent = state.spend(&draw).map_err(|why| otherwise(&mut state, why));
        let (used, begins) = (state.used(), state.period().unwrap_or(draw.period).begins);
        let errand = state.errand();
        drop(state);
        self.run(leftover);
        self.run(errand);
        spent.map(|()| (used, begins))
    }

    fn spent(
        self: &Arc<Self>,
        draw: Draw,
        decided: Result<(u64, Time), NotSpent>,
    ) -> Result<Spent, NotSpent> {
        let account = || Arc::clone(self);
        decided.map(|(_, begins)| Spent { account: account(), begins, amount: draw.amount })
    }

    /// What is used in this period, if that is known here.
    pub(super) fn used_in(&self, period: QuotaPeriod) -> Option<u64> {
        let standing = self.state.lock().standing()?;
        (standing.period.begins == period.begins).then_some(standing.used)
    }

    /// What of this period is taken here and not used.
    pub(super) fn reserved_in(&self, period: QuotaPeriod) -> u64 {
        let standing = self.state.lock().standing();
        let is_it = |standing: &QuotaStanding| standing.period.begins == period.begins;
        standing.filter(is_it).map_or(0, |standing| standing.unspent)
    }

    /// Asks the store what is taken, in the background: another node may have given some of it back.
    pub(super) fn ask_again(self: &Arc<Self>) {
        let errand = {
            let mut state = self.state.lock();
            state.begin_doubt();
            state.errand()
        };
        self.run(errand);
    }

    /// The same, and waits for the answer.
    async fn hear(self: &Arc<Self>) -> Result<(), StoreError> {
        self.state.lock().begin_doubt();
        for _ in 0..ROUNDS {
            let errand = self.state.lock().errand();
            self.run(errand);
            self.store.barrier().await?;
            if !self.state.lock().is_in_doubt() {
                return Ok(());
            }
        }
        Err(Unavailable::Failed("what is taken is not known".to_owned()).into())
    }

    /// Makes everything unspent that is used, whichever node has used it, and waits until the store has written it down: a crash
    /// after it takes nothing back.
    ///
    /// # Errors
    ///
    /// If the store did not write it down.
    pub(super) async fn renew(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.store.is_shared() {
            self.hear().await?;
        }
        {
            let mut state = self.state.lock();
            let used = state.used();
            if let Some(period) = state.period() {
                state.give_back(period.begins, used);
            }
        }
        for _ in 0..ROUNDS {
            let errand = self.state.lock().errand();
            self.run(errand);
            self.store.barrier().await?;
            if self.state.lock().is_settled() {
                return Ok(());
            }
        }
        Err(Unavailable::Failed("what was given back is not written down".to_owned()).into())
    }

    /// What is known of it; nothing before the store was first asked in this period.
    pub fn standing(&self) -> Option<QuotaStanding> {
        self.state.lock().standing()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends an errand. The lock must not be held: a store that is closed answers at once.
    fn run(self: &Arc<Self>, errand: Option<Errand>) {
        let Some(errand) = errand else { return };
        let account = Arc::clone(self);
        match errand {
            Errand::Reserve { period, limit, amount } => {
                let name = self.name.clone();
                let reservation = Reservation { name, period, limit, amount };
                let begins = period.begins;
                let reply = Reply::to(move |grant: Result<Grant, StoreError>| {
                    account.answered(begins, grant, State::granted);
                });
                self.store.reserve(reservation, reply);
            }
            Errand::Refund { begins, amount } => {
                let reply = Reply::to(move |done: Result<(), StoreError>| {
                    account.answered(begins, done, State::refunded);
                });
                self.store.refund(vec![self.refund_of(begins, amount)], reply);
            }
        }
    }

    fn refund_of(&self, begins: Time, amount: u64) -> Refund {
        Refund { name: self.name.clone(), begins, amount }
    }

    /// Takes note of the store's answer and tells those who waited for it. Runs on the store's thread.
    fn answered<R>(self: &Arc<Self>, begins: Time, answer: Result<R, StoreError>, note: Note<R>) {
        let answer = answer.map_err(|why| match why {
            StoreError::Unavailable(why) => why,
            other => Unavailable::Failed(other.to_string()),
        });
        let works = answer.is_ok();
        let (told, errand) = {
            let mut state = self.state.lock();
            let told = note(&mut state, begins, answer);
            // A store that does not work is asked again by the next request, not in a circle.
            (told, if works { state.errand() } else { None })
        };
        self.run(errand);
        // Without the lock: a caller that has gone leaves its charge to be given back, which takes it.
        for (waiter, outcome) in told {
            let amount = waiter.draw.amount;
            let charged = |()| Charged(Some(Spent { account: Arc::clone(self), begins, amount }));
            drop(waiter.whose.send(outcome.map(charged)));
        }
    }

    pub(super) fn give_back(self: &Arc<Self>, begins: Time, amount: u64) {
        let errand = {
            let mut state = self.state.lock();
            state.give_back(begins, amount);
            state.errand()
        };
        self.run(errand);
    }

    pub(super) fn close(&self) {
        self.state.lock().close();
    }

    /// Whether the store is being asked something about it.
    pub(super) fn is_asking(&self) -> bool {
        self.state.lock().is_asking()
    }

    /// What is left, if the store is asked nothing about it.
    pub(super) fn take_unspent(&self) -> Option<Refund> {
        let (begins, amount) = self.state.lock().take_unspent()?;
        Some(self.refund_of(begins, amount))
    }

    /// Undoes [`take_unspent`](QuotaAccount::take_unspent).
    pub(super) fn put_unspent(&self, refund: &Refund) {
        self.state.lock().give_back(refund.begins, refund.amount);
    }
}

impl fmt::Debug for QuotaAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standing = self.standing();
        f.debug_struct("QuotaAccount")
            .field("name", &self.name)
            .field("standing", &standing)
            .finish()
    }
}

/// What a request has spent. Dropping it keeps it spent.
#[derive(Debug)]
pub struct Spent {
    account: Arc<QuotaAccount>,
    begins: Time,
    amount: u64,
}

impl Spent {
    /// Makes it unspent, because the request was not forwarded after all. Nothing happens once its period is over.
    pub fn give_back(self) {
        self.account.give_back(self.begins, self.amount);
    }

    pub(super) fn begins(&self) -> Time {
        self.begins
    }

    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

/// What was spent for somebody who waits, and may have gone: dropped on the way, it is given back.
#[derive(Debug)]
struct Charged(Option<Spent>);

impl Charged {
    fn kept(mut self) -> Spent {
        self.0.take().expect("only taken here")
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        if let Some(spent) = self.0.take() {
            spent.give_back();
        }
    }
}
