//! Quotas of a gate, balanced durably.
//!
//! The gate knows a counter by a hash, the store by a name. The hash leads to an account without making the name; the
//! name is made when the account is not there yet.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::{Decision, Limit, Refusal, Standing, Time};
use tollgate_engine::Rule;
use tollgate_gate::Handles;
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Mark, Waiting, Whose,
};
use tollgate_policy::compile::{Place, PlacedLimit};
use tollgate_policy::shapes::{Consistency, OnError};

use super::{Draw, NotSpent, QuotaAccount, QuotaBook, QuotaPeriod};
use crate::{Store, StoreError, Unavailable};

/// Keeps the quotas of a gate in a store: of all limits that are quotas and that nodes do not share otherwise.
///
/// Clones are the same quotas.
#[derive(Clone, Debug)]
pub struct Quotas(Arc<Shared>);

struct Shared {
    book: QuotaBook,
    on_error: OnError,
    known: Handles<Balance>,
    is_failing: AtomicBool,
    uncounted: AtomicU64,
    refused: AtomicU64,
}

/// How many handles there are to so many accounts. Fewer than the book keeps: of those that are forgotten here it can forget some too.
fn known_of(max_accounts: usize) -> usize {
    max_accounts.div_ceil(2)
}

/// An account as requests hold it.
struct Balance {
    account: Arc<QuotaAccount>,
    /// When the store was last asked whether somebody has given back what is used up, in nanoseconds.
    asked_again: AtomicU64,
}

/// How often that is at most, of each quota.
const PAUSE: Duration = Duration::from_secs(1);

/// Requests whose quota could not be counted because the store did not work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaFailures {
    /// They passed.
    pub uncounted: u64,
    /// They were refused.
    pub refused: u64,
}

impl Quotas {
    /// The quotas in a store, at most about so many of them in memory.
    pub fn new(store: Store, max_accounts: usize, on_error: OnError) -> Quotas {
        Quotas(Arc::new(Shared {
            book: QuotaBook::new(store, max_accounts),
            on_error,
            known: Handles::cache(known_of(max_accounts)),
            is_failing: AtomicBool::new(false),
            uncounted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Gives back what is reserved of quotas that nobody has spent since the last call. To be called now and then, so that
    /// they strand nothing in a crash.
    pub fn settle_idle(&self) {
        self.0.known.sweep(|_| true);
        self.0.book.settle_idle();
    }

    /// Spends nothing more, and gives back exactly what is reserved and not spent: after the last request.
    ///
    /// # Errors
    ///
    /// If the store does not work: then up to a block of each quota is stranded, unless this is called again and works.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.0.book.close().await
    }

    /// How many quotas are in memory.
    pub fn len(&self) -> usize {
        self.0.book.len()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.0.book.is_empty()
    }

    /// What could not be counted so far.
    pub fn failures(&self) -> QuotaFailures {
        self.0.failures()
    }
}

impl Elsewhere for Quotas {
    fn keeper(&self, limit: &PlacedLimit, _: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        let is_ours = limit.place() == Place::Quota && limit.consistency() == Consistency::Local;
        let shared = Arc::clone(&self.0);
        is_ours.then(|| Arc::new(QuotaKeeper { shared, limit: limit.limit().clone() }) as _)
    }

    fn set_max_keys(&self, max_keys: usize) {
        self.0.book.set_max_accounts(max_keys);
        self.0.known.set_most(known_of(max_keys));
    }
}

impl Shared {
    fn balance(&self, whose: &Whose<'_>) -> Result<Arc<Balance>, Unavailable> {
        let make = || self.book.account(&(whose.name)()).map(Balance::new);
        let full = || Unavailable::Failed("too many quotas are in use at once".to_owned());
        self.known.get_or(whose.hash, make, full).or_else(|_| {
            // The book is full of accounts that only the handles here keep in use: so much room is made at once that it is rare.
            self.known.forget();
            self.known.get_or(whose.hash, make, full)
        })
    }

    /// What becomes of a request whose quota cannot be counted: said once when it begins.
    #[cold]
    fn failed(&self, why: &Unavailable) -> Answered {
        let is_new = !self.is_failing.swap(true, Relaxed);
        match self.on_error {
            OnError::FailOpen => {
                self.uncounted.fetch_add(1, Relaxed);
                if is_new {
                    tracing::error!(
                        "quotas cannot be counted, and requests pass uncounted (storage.on_error: fail_open): {why}"
                    );
                }
                Answered::Uncounted
            }
            OnError::FailClosed => {
                self.refused.fetch_add(1, Relaxed);
                if is_new {
                    tracing::error!(
                        "quotas cannot be counted, and requests that have one are answered 503 \
                         (storage.on_error: fail_closed): {why}"
                    );
                }
                Answered::Unavailable("Quotas cannot be counted at present.")
            }
        }
    }

    fn failures(&self) -> QuotaFailures {
        QuotaFailures {
            uncounted: self.uncounted.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }

    fn works(&self) {
        if self.is_failing.load(Relaxed) && self.is_failing.swap(false, Relaxed) {
            let QuotaFailures { uncounted, refused } = self.failures();
            tracing::warn!(uncounted, refused, "quotas are counted again");
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas").field("book", &self.book).finish_non_exhaustive()
    }
}

impl Balance {
    fn new(account: Arc<QuotaAccount>) -> Balance {
        Balance { account, asked_again: AtomicU64::new(0) }
    }

    /// Asks the store now and then, for whoever is refused by what is known here asks it nothing.
    #[cold]
    fn ask_again(&self, now: Time) {
        let (now, last) = (now.as_nanos(), self.asked_again.load(Relaxed));
        let is_due = u128::from(now.abs_diff(last)) >= PAUSE.as_nanos();
        if is_due && self.asked_again.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            self.account.ask_again();
        }
    }
}

/// The quotas of one limit.
#[derive(Debug)]
struct QuotaKeeper {
    shared: Arc<Shared>,
    limit: Limit,
}

impl QuotaKeeper {
    /// What a charge draws; `None` past the calendar's last year.
    fn draw(&self, asked: &Asked<'_>) -> Option<Draw> {
        let (begins, ends) = self.limit.period_at(asked.now)?;
        let period = QuotaPeriod { begins, ends };
        Some(Draw { amount: asked.cost, limit: self.limit.capacity(), period })
    }

    /// The answer to a draw after which, or because of which, so much is used.
    fn decision(draw: &Draw, used: u64, now: Time, is_spent: bool) -> Decision {
        let reset_after = draw.period.ends - now;
        let standing =
            Standing { limit: draw.limit, remaining: draw.limit.saturating_sub(used), reset_after };
        let wait = u64::try_from(reset_after.as_nanos()).unwrap_or(u64::MAX - 1).max(1);
        let refusal = match is_spent {
            true => None,
            false if draw.amount > draw.limit => Some(Refusal::Never),
            false => Some(Refusal::Wait(wait)),
        };
        Decision { refusal, standing }
    }

    /// What would be answered if so much is used.
    fn foreseen(draw: &Draw, used: u64, now: Time) -> Decision {
        let passes = used.saturating_add(draw.amount) <= draw.limit;
        QuotaKeeper::decision(draw, used, now, passes)
    }

    fn answered(&self, draw: &Draw, now: Time, why: &NotSpent) -> Option<Answered> {
        match why {
            NotSpent::Exhausted { used } => {
                let decision = QuotaKeeper::decision(draw, *used, now, false);
                Some(Answered::Decided(decision, Mark::default()))
            }
            NotSpent::MustWait => None,
            NotSpent::Unavailable(why) => Some(self.shared.failed(why)),
        }
    }
}

impl Keeper for QuotaKeeper {
    fn manner(&self) -> Manner {
        Manner::Alone
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        match self.shared.balance(whose) {
            Ok(balance) => Ok(Counter::new(balance)),
            Err(why) => Err(self.shared.failed(&why)),
        }
    }

    fn foresee(&self, asked: &Asked<'_>) -> Option<Decision> {
        let draw = self.draw(asked)?;
        let balance = asked.counter.get::<Balance>()?;
        let used = balance.account.used_in(draw.period)?;
        let foreseen = QuotaKeeper::foreseen(&draw, used, asked.now);
        let may_pass = draw.amount <= draw.limit;
        if foreseen.refusal.is_some() && may_pass && self.shared.book.store().is_shared() {
            balance.ask_again(asked.now);
        }
        Some(foreseen)
    }

    fn try_charge(&self, asked: &Asked<'_>) -> Option<Answered> {
        let (Some(draw), Some(balance)) = (self.draw(asked), asked.counter.get::<Balance>()) else {
            return Some(Answered::Uncounted);
        };
        match balance.account.try_spend_at(draw) {
            Ok((used, begins)) => {
                let decision = QuotaKeeper::decision(&draw, used, asked.now, true);
                Some(Answered::Decided(decision, Mark(begins.as_nanos())))
            }
            Err(why) => self.answered(&draw, asked.now, &why),
        }
    }

    fn charge<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Answered> {
        Box::pin(async move {
            let (Some(draw), Some(balance)) = (self.draw(&asked), asked.counter.get::<Balance>())
            else {
                return Answered::Uncounted;
            };
            match balance.account.spend(draw).await {
                Ok(spent) => {
                    self.shared.works();
                    let used = balance.account.used_in(draw.period).unwrap_or(draw.amount);
                    let decision = QuotaKeeper::decision(&draw, used, asked.now, true);
                    Answered::Decided(decision, Mark(spent.begins().as_nanos()))
                }
                Err(why) => self.answered(&draw, asked.now, &why).unwrap_or(Answered::Uncounted),
            }
        })
    }

    fn give_back(&self, asked: &Asked<'_>, mark: Mark) {
        if let Some(balance) = asked.counter.get::<Balance>() {
            balance.account.give_back(Time::from_nanos(mark.0), asked.cost);
        }
    }

    fn look<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(async move {
            let draw = self.draw(&asked)?;
            let account = &asked.counter.get::<Balance>()?.account;
            let (store, mut used) = (self.shared.book.store(), account.used_in(draw.period));
            // Others may have used more since, or given some of it back; but whoever looks in an outage is not kept waiting.
            let may_have_changed = store.is_shared() && !self.shared.is_failing.load(Relaxed);
            if used.is_none() || may_have_changed {
                let taken = store.quota_taken(account.name(), draw.period.begins).await.ok();
                let reserved = account.reserved_in(draw.period);
                used = taken.map(|taken| taken.saturating_sub(reserved)).or(used);
            }
            Some(QuotaKeeper::foreseen(&draw, used?, asked.now))
        })
    }

    fn reset<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(async move {
            let (Some(draw), Some(balance)) = (self.draw(&asked), asked.counter.get::<Balance>())
            else {
                return false;
            };
            // What is not known here cannot be given back.
            let known = balance.account.spend(Draw { amount: 0, ..draw }).await;
            let is_known = matches!(known, Ok(_) | Err(NotSpent::Exhausted { .. }));
            is_known && balance.account.renew().await.is_ok()
        })
    }
}
