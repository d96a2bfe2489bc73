//! Hybrid counters: nodes decide by themselves, and tell one another soon after.
//!
//! Each node has the whole limit in memory. Every interval τ it tells Redis what it has admitted, and is told what the
//! others have, which it charges to its own counter, into debt if need be. So a charge made anywhere is known everywhere
//! after 2τ + d at most: τ until it is told, τ until the next node asks, and a round trip d. What all nodes admit together
//! exceeds the limit by no more than the others admit in that time, and as the debt is paid off first, the excess never adds up.
//! Of a counter that is new here, or was not asked for in the last τ because it rested, too little is known for that: whoever wants
//! a decision has it asked for first.

mod account;
mod agenda;
mod news;
mod peak;
mod rounds;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_engine::{Clock, Identity, Limiter, Rule, Time};

pub(crate) use self::account::Account;
use self::account::RESTING;
use self::agenda::Agenda;
use self::peak::Peak;
use crate::calls::IN_BACKGROUND;
use crate::ledger::Statement;
use crate::shards::{most_in_shard, shards_for};
use crate::{Figures, Strict, Unavailable};

/// Counters that nodes decide by themselves and share afterwards. Clones share them.
pub struct Hybrid<C>(Arc<Shared<C>>);

struct Shared<C> {
    strict: Strict,
    limiter: Arc<Limiter<C>>,
    interval: Duration,
    /// What this process is called beside a counter.
    node: String,
    hasher: RandomState,
    shards: Box<[Shard]>,
    most_in_shard: AtomicUsize,
    agenda: Arc<Agenda>,
    /// Charges that the others are not told of, because there are too many counters in use.
    unshared: AtomicU64,
    /// The most that others were seen to consume of one counter while it stayed unknown here.
    overshoot: Peak,
    /// The longest that anything due took to be told and answered, in microseconds.
    round_trip: Peak,
}

type Shard = Mutex<Accounts>;

/// The accounts of a shard.
#[derive(Default)]
struct Accounts {
    by_key: HashMap<String, Arc<Account>>,
    /// When room was last looked for among those that rest.
    searched: Option<Instant>,
}

impl<C> Clone for Hybrid<C> {
    fn clone(&self) -> Hybrid<C> {
        Hybrid(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for Hybrid<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hybrid").field("interval", &self.0.interval).finish_non_exhaustive()
    }
}

impl<C: Clock + 'static> Hybrid<C> {
    /// Shares what `limiter` admits every `interval`, for at most `max_keys` counters, on the current runtime.
    pub fn start(
        strict: Strict,
        limiter: Arc<Limiter<C>>,
        (interval, max_keys): (Duration, usize),
    ) -> Hybrid<C> {
        let random = RandomState::new().hash_one(interval);
        let shards = shards_for(max_keys);
        let (agenda, now) = (Arc::<Agenda>::default(), Instant::now());
        let shared = Arc::new(Shared {
            strict: strict.clone(),
            limiter,
            interval: interval.max(Duration::from_millis(1)),
            node: format!("{random:016x}"),
            hasher: RandomState::new(),
            shards: std::iter::repeat_with(Mutex::default).take(shards).collect(),
            most_in_shard: AtomicUsize::new(most_in_shard(max_keys, shards)),
            agenda: Arc::clone(&agenda),
            unshared: AtomicU64::new(0),
            overshoot: Peak::new(now),
            round_trip: Peak::new(now),
        });
        tokio::spawn(rounds::run(Arc::downgrade(&shared), agenda, strict));
        Hybrid(shared)
    }

    /// At most so many counters are shared from now on.
    pub fn set_max_keys(&self, max_keys: usize) {
        let most = most_in_shard(max_keys, self.0.shards.len());
        self.0.most_in_shard.store(most, Relaxed);
    }

    /// The counter that is called `key` in Redis, told under these figures; `None` if there are too many in use.
    pub(crate) fn account(
        &self,
        key: &str,
        charge: (&Arc<Rule>, Identity),
        figures: &Arc<Figures>,
    ) -> Option<Arc<Account>> {
        let mut accounts = self.0.shard(key).lock();
        if let Some(account) = accounts.by_key.get(key).cloned() {
            drop(accounts);
            // Another algorithm's counter has the same name.
            if !account.has(figures) {
                account.adopt(charge.0, figures);
            }
            return Some(account);
        }
        let now = Instant::now();
        if !self.0.has_room(&mut accounts, now) {
            return None;
        }
        let strict = &self.0.strict;
        // What is admitted of one that begins in an outage is told only afterwards.
        let heard = strict.is_up().then(|| strict.times_opened());
        let account = Arc::new(Account::new(key, charge, figures, (now, heard)));
        accounts.by_key.insert(key.to_owned(), Arc::clone(&account));
        drop(accounts);
        // Its first charge is about to be entered, and is told at once.
        self.0.agenda.put(&account, now + self.0.interval / 8);
        Some(account)
    }

    /// Enters what the limiter has admitted of a counter.
    #[inline]
    pub(crate) fn consumed_of(
        &self,
        account: &Arc<Account>,
        (rule, figures): (&Arc<Rule>, &Arc<Figures>),
        cost: u64,
    ) {
        account.unwritten.fetch_add(cost, Relaxed);
        if account.idle.load(Relaxed) != 0 || !account.has(figures) {
            self.woken(account, (rule, figures));
        }
    }

    /// A counter that was idle is in use again, or under other figures.
    #[cold]
    fn woken(&self, account: &Arc<Account>, (rule, figures): (&Arc<Rule>, &Arc<Figures>)) {
        let was_idle = account.idle.swap(0, Relaxed) >= RESTING;
        // Figures may have changed; the counter in Redis keeps what it has.
        account.adopt(rule, figures);
        if was_idle {
            self.0.agenda.put(account, Instant::now());
        }
    }

    /// Whether too little is known of a counter to decide by, and Redis can be asked: it is new here, has rested, or there was
    /// an outage.
    #[inline]
    pub(crate) fn is_stale(&self, account: &Arc<Account>, now: Time) -> bool {
        let is_stale = account.is_stale(now, self.0.strict.times_opened());
        is_stale && self.0.can_ask(account) && {
            self.0.want(account);
            true
        }
    }

    /// Whether the others hear of a counter: Redis can be asked, and has answered for it since the last outage.
    #[inline]
    pub(crate) fn is_heard(&self, account: &Account) -> bool {
        let strict = &self.0.strict;
        strict.is_up() && account.is_heard(strict.times_opened())
    }

    /// Has a counter told as soon as can be.
    pub(crate) fn tell_soon(&self, account: &Arc<Account>) {
        if self.0.can_ask(account) {
            account.is_wanted.store(true, Relaxed);
            self.0.agenda.put(account, Instant::now());
        }
    }

    /// Waits until enough is known of a counter to decide by, or Redis cannot be asked, or until the deadline.
    pub(crate) async fn refresh(&self, account: &Arc<Account>, now: Time, deadline: Instant) {
        self.0.refresh(account, now, deadline).await;
    }

    /// Takes back what was entered a moment ago.
    pub(crate) fn given_back_of(&self, account: &Account, cost: u64) {
        account.unconsume(cost);
    }

    /// Enters what the limiter has admitted to `identity` under `rule`. `key` is what the counter is called in Redis.
    ///
    /// `false` if there are too many counters in use: then this charge stays unknown to the others.
    pub fn consumed(
        &self,
        key: &str,
        charge: (&Arc<Rule>, Identity),
        figures: &Arc<Figures>,
        cost: u64,
    ) -> bool {
        let Some(account) = self.account(key, charge, figures) else {
            self.note_unshared();
            return false;
        };
        self.consumed_of(&account, (charge.0, figures), cost);
        true
    }

    /// Takes back what was entered a moment ago, because the request was refused elsewhere.
    pub fn given_back(&self, key: &str, cost: u64) {
        if let Some(account) = self.0.shard(key).lock().by_key.get(key) {
            account.unconsume(cost);
        }
    }

    /// Makes the counter that is called `key` in Redis new. Other nodes make their own counters new when they next ask; this
    /// node's own is for the caller to make new.
    pub async fn reset(&self, key: &str, figures: &Figures) -> Result<(), Unavailable> {
        self.0.strict.sync(key, figures, (&self.0.node, Statement::RESET)).await.map(drop)
    }

    /// Tells Redis everything that it has not been told, at once, as a node does that stops.
    pub async fn close(&self) {
        let of = |shard: &Shard| shard.lock().by_key.values().cloned().collect::<Vec<_>>();
        let all: Vec<Arc<Account>> = self.0.shards.iter().flat_map(of).collect();
        let tell = |account: Arc<Account>| async move { self.0.tell_untold(&account).await };
        stream::iter(all).for_each_concurrent(IN_BACKGROUND, tell).await;
    }

    /// Notes a charge of a counter that is not shared.
    pub(crate) fn note_unshared(&self) {
        self.0.unshared.fetch_add(1, Relaxed);
    }

    /// How many charges the others were not told of, because there were too many counters in use.
    pub fn unshared(&self) -> u64 {
        self.0.unshared.load(Relaxed)
    }

    /// How many counters are shared now.
    pub fn in_use(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().by_key.len()).sum()
    }

    /// The longest that a charge made elsewhere stays unknown here, but for a round trip: 2τ.
    pub fn staleness(&self) -> Duration {
        2 * self.0.interval
    }

    /// d: the longest that a counter which was due waited for its turn and its answer, in the last one or two minutes.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.0.round_trip.read(Instant::now()))
    }

    /// The most that others were seen to consume of one counter in 2τ + d, in the last one or two minutes: by so much at
    /// most all nodes together admit more than its limit.
    pub fn overshoot(&self) -> u64 {
        self.0.overshoot.read(Instant::now())
    }
}

impl<C> Shared<C> {
    /// Whether Redis can be asked for an account; else the fallback decides.
    fn can_ask(&self, account: &Account) -> bool {
        self.strict.is_up() && !account.has_failed(self.strict.times_opened())
    }

    /// Somebody wants to know of an account that may rest. Whoever is refused by it does not wait for an answer, and uses nothing
    /// that would have it told; but it may have been made new elsewhere.
    #[cold]
    fn want(&self, account: &Arc<Account>) {
        if !account.is_wanted.load(Relaxed) && !account.is_wanted.swap(true, Relaxed) {
            let settled = account.book.lock().settled;
            // Mostly it is asked for at once, or used.
            let soon = Instant::now() + self.interval / 8;
            self.agenda.put(account, soon.max(settled + RESTING * self.interval));
        }
    }

    fn shard(&self, key: &str) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % self.shards.len()]
    }
}
