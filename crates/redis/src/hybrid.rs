//! Hybrid counters: nodes decide by themselves, and tell one another soon after.
//!
//! Each node has the whole limit in memory. Every interval τ it tells Redis what it has admitted, and is told what the
//! others have, which it charges to its own counter, into debt if need be. So a charge made anywhere is known everywhere
//! after 2τ + d at most: τ until it is told, τ until the next node asks, and a round trip d. What all nodes admit together
//! exceeds the limit by no more than the others admit in that time, and as the debt is paid off first, the excess never adds up.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tollgate_engine::{Clock, Identity, Limiter, Rule};

use crate::ledger::Ledger;
use crate::{Figures, Strict};

/// Counters that nodes decide by themselves and share afterwards. Clones share them.
pub struct Hybrid<C>(Arc<Shared<C>>);

struct Shared<C> {
    strict: Strict,
    limiter: Arc<Limiter<C>>,
    interval: Duration,
    /// What this process is called beside a counter.
    node: String,
    max_keys: usize,
    hasher: RandomState,
    shards: Box<[Shard]>,
    /// An account has become due at once.
    hurry: Notify,
    /// The most that others were seen to consume of one counter while it stayed unknown here.
    overshoot: AtomicU64,
    /// The longest round trip of late, in microseconds.
    round_trip: AtomicU64,
}

type Shard = Mutex<HashMap<String, Arc<Account>>>;

/// Callers on many threads seldom meet at the same one.
const SHARDS: usize = 64;

/// A counter in use here.
pub(crate) struct Account {
    key: String,
    identity: Identity,
    /// Consumed since the ledger was last written: all that a request touches.
    unwritten: AtomicU64,
    /// Rounds in which nothing was consumed here.
    idle: AtomicU32,
    book: Mutex<Book>,
}

/// What is known of a counter, for whoever shares it.
struct Book {
    rule: Arc<Rule>,
    figures: Arc<Figures>,
    ledger: Ledger,
    due: Instant,
    /// When it was last settled, and how often the breaker had opened by then.
    settled: (Instant, u64),
}

/// A counter that has not been used for so many rounds is asked about ever more seldom, and then no more.
const RESTING: u32 = 4;
const FORGOTTEN: u32 = 64;

impl Account {
    /// Writes down what was consumed meanwhile.
    fn write_down(&self, book: &mut Book) {
        book.ledger.consume(self.unwritten.swap(0, Relaxed));
    }

    fn unconsume(&self, cost: u64) {
        let taken = self
            .unwritten
            .fetch_update(Relaxed, Relaxed, |unwritten| Some(unwritten.saturating_sub(cost)));
        let rest = cost.saturating_sub(taken.unwrap_or(0));
        if rest > 0 {
            self.book.lock().ledger.unconsume(rest);
        }
    }
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
        let shared = Arc::new(Shared {
            strict,
            limiter,
            interval: interval.max(Duration::from_millis(1)),
            node: format!("{random:016x}"),
            max_keys,
            hasher: RandomState::new(),
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            hurry: Notify::new(),
            overshoot: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            loop {
                let Some(shared) = weak.upgrade() else { return };
                let (hurry, pause) = (shared.hurry.notified(), shared.interval / 8);
                let _ = timeout(pause.max(Duration::from_millis(1)), hurry).await;
                let due = shared.due(Instant::now());
                join_all(due.iter().map(|account| shared.sync(account))).await;
            }
        });
        Hybrid(shared)
    }

    /// The counter that is called `key` in Redis; `None` if there are too many in use.
    pub(crate) fn account(
        &self,
        key: &str,
        charge: (&Arc<Rule>, Identity),
        figures: &Arc<Figures>,
    ) -> Option<Arc<Account>> {
        let mut accounts = self.0.shard(key).lock();
        if let Some(account) = accounts.get(key) {
            return Some(Arc::clone(account));
        }
        if accounts.len() >= self.0.max_keys.div_ceil(SHARDS) {
            return None;
        }
        let now = Instant::now();
        let book = Book {
            rule: Arc::clone(charge.0),
            figures: Arc::clone(figures),
            ledger: Ledger::begin(),
            due: now,
            settled: (now, self.0.strict.times_opened()),
        };
        let account = Arc::new(Account {
            key: key.to_owned(),
            identity: charge.1,
            unwritten: AtomicU64::new(0),
            // Its first charge is told at once.
            idle: AtomicU32::new(RESTING),
            book: Mutex::new(book),
        });
        accounts.insert(key.to_owned(), Arc::clone(&account));
        Some(account)
    }

    /// Enters what the limiter has admitted of a counter.
    #[inline]
    pub(crate) fn consumed_of(
        &self,
        account: &Account,
        (rule, figures): (&Arc<Rule>, &Arc<Figures>),
        cost: u64,
    ) {
        account.unwritten.fetch_add(cost, Relaxed);
        if account.idle.load(Relaxed) != 0 {
            self.woken(account, (rule, figures));
        }
    }

    /// A counter that was idle is in use again, perhaps under other figures.
    #[cold]
    fn woken(&self, account: &Account, (rule, figures): (&Arc<Rule>, &Arc<Figures>)) {
        let was_idle = account.idle.swap(0, Relaxed) >= RESTING;
        let mut book = account.book.lock();
        // Figures may have changed; the counter in Redis keeps what it has.
        if !Arc::ptr_eq(&book.figures, figures) {
            (book.rule, book.figures) = (Arc::clone(rule), Arc::clone(figures));
        }
        if was_idle {
            book.due = Instant::now();
            self.0.hurry.notify_one();
        }
    }

    /// Decides by other figures from now on.
    pub(crate) fn adopt(&self, account: &Account, (rule, figures): (&Arc<Rule>, &Arc<Figures>)) {
        self.woken(account, (rule, figures));
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
        let Some(account) = self.account(key, charge, figures) else { return false };
        self.consumed_of(&account, (charge.0, figures), cost);
        true
    }

    /// Takes back what was entered a moment ago, because the request was refused elsewhere.
    pub fn given_back(&self, key: &str, cost: u64) {
        if let Some(account) = self.0.shard(key).lock().get(key) {
            account.unconsume(cost);
        }
    }

    /// Tells Redis everything at once, as a node does that stops.
    pub async fn close(&self) {
        let of = |shard: &Shard| shard.lock().values().cloned().collect::<Vec<_>>();
        let all: Vec<Arc<Account>> = self.0.shards.iter().flat_map(of).collect();
        join_all(all.iter().map(|account| self.0.sync(account))).await;
    }

    /// How many counters are shared now.
    pub fn in_use(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The longest that a charge made elsewhere stays unknown here, but for a round trip: 2τ.
    pub fn staleness(&self) -> Duration {
        2 * self.0.interval
    }

    /// The longest round trip since this was last asked.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.0.round_trip.swap(0, Relaxed))
    }

    /// The most that others were seen to consume of one counter in 2τ + d, since this was last asked: by so much at most
    /// all nodes together admit more than its limit.
    pub fn overshoot(&self) -> u64 {
        self.0.overshoot.swap(0, Relaxed)
    }
}

impl<C: Clock> Shared<C> {
    /// The accounts that are due, put off so that none is settled twice at once; those long unused are dropped.
    fn due(&self, now: Instant) -> Vec<Arc<Account>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|_, account| {
                let mut book = account.book.lock();
                account.write_down(&mut book);
                if book.due <= now {
                    book.due = now + self.interval;
                    all.push(Arc::clone(account));
                }
                account.idle.load(Relaxed) < FORGOTTEN
                    || book.ledger.unsent() > 0
                    || Arc::strong_count(account) > 1
            });
        }
        all
    }

    fn shard(&self, key: &str) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    async fn sync(&self, account: &Account) {
        let (asked, opened) = (Instant::now(), self.strict.times_opened());
        let (told, rule, figures) = {
            let mut book = account.book.lock();
            account.write_down(&mut book);
            if book.settled.1 != opened {
                self.forgive(account, &mut book);
            }
            (book.ledger.statement(), Arc::clone(&book.rule), Arc::clone(&book.figures))
        };
        let settled = self.strict.sync(&account.key, &figures, (&self.node, told)).await;
        // Else its sum will say it again; meanwhile this node decides by what it knows.
        let Ok(settled) = settled else { return };
        let now = Instant::now();
        let (news, since) = {
            let mut book = account.book.lock();
            if told.unsent == 0 && account.unwritten.load(Relaxed) == 0 {
                account.idle.fetch_add(1, Relaxed);
            }
            let since = std::mem::replace(&mut book.settled, (now, opened)).0;
            (book.ledger.settle(told, settled), since)
        };
        self.measure(news.others(), (now - asked, now - since));
        let remaining = self.limiter.peek(&rule, account.identity).remaining;
        self.limiter.absorb(&rule, account.identity, news.charge(remaining));
        let next = self.next(&rule, account);
        let mut book = account.book.lock();
        book.due = match next {
            later if later > self.interval => book.due.max(asked + later),
            sooner => book.due.min(asked + sooner),
        };
    }

    /// Of what was admitted while nobody could be told, time has paid off what this node's own counter no longer owes. The
    /// others are told the rest: Redis' counter was refilled all the while, but only until it was full.
    fn forgive(&self, account: &Account, book: &mut Book) {
        let standing = self.limiter.peek(&book.rule, account.identity);
        let owed = standing.limit.saturating_sub(standing.remaining);
        let paid = book.ledger.unsent().saturating_sub(owed);
        book.ledger.unconsume(paid);
    }

    /// Notes how much of a counter stays unknown here at most, by what others have consumed since it was last settled.
    fn measure(&self, others: u64, (round_trip, since): (Duration, Duration)) {
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        self.round_trip.fetch_max(micros, Relaxed);
        let rate = others as f64 / since.max(Duration::from_millis(1)).as_secs_f64();
        let unknown = (2 * self.interval + round_trip).as_secs_f64();
        self.overshoot.fetch_max((rate * unknown).ceil() as u64, Relaxed);
    }

    /// How soon to ask again: sooner near the limit, later where nothing happens.
    fn next(&self, rule: &Rule, account: &Account) -> Duration {
        let standing = self.limiter.peek(rule, account.identity);
        let is_near = standing.remaining < standing.limit / 4;
        match account.idle.load(Relaxed) {
            0 if is_near => self.interval / 4,
            0..RESTING => self.interval,
            _ => self.interval * 4,
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("key", &self.key).finish_non_exhaustive()
    }
}
