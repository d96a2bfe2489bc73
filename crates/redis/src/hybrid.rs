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
}

type Shard = Mutex<HashMap<String, Account>>;

/// Callers on many threads seldom meet at the same one.
const SHARDS: usize = 64;

/// A counter in use here.
#[derive(Clone)]
struct Account {
    rule: Arc<Rule>,
    identity: Identity,
    figures: Arc<Figures>,
    ledger: Ledger,
    due: Instant,
    /// Rounds in which nothing was consumed here.
    idle: u32,
}

/// A counter that has not been used for so many rounds is asked about ever more seldom, and then no more.
const RESTING: u32 = 4;
const FORGOTTEN: u32 = 64;

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
        });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            loop {
                let Some(shared) = weak.upgrade() else { return };
                let (hurry, pause) = (shared.hurry.notified(), shared.interval / 8);
                let _ = timeout(pause.max(Duration::from_millis(1)), hurry).await;
                let due = shared.due(Instant::now());
                join_all(due.into_iter().map(|(key, account)| shared.sync(key, account))).await;
            }
        });
        Hybrid(shared)
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
        let mut accounts = self.0.shard(key).lock();
        if let Some(account) = accounts.get_mut(key) {
            account.ledger.consume(cost);
            let was_idle = std::mem::take(&mut account.idle) >= RESTING;
            // Figures may have changed; the counter in Redis keeps what it has.
            if !Arc::ptr_eq(&account.figures, figures) {
                (account.rule, account.figures) = (Arc::clone(charge.0), Arc::clone(figures));
            }
            if was_idle {
                account.due = Instant::now();
                self.0.hurry.notify_one();
            }
            return true;
        }
        if accounts.len() >= self.0.max_keys.div_ceil(SHARDS) {
            return false;
        }
        let mut ledger = Ledger::default();
        ledger.consume(cost);
        let (rule, figures) = (Arc::clone(charge.0), Arc::clone(figures));
        let account =
            Account { rule, identity: charge.1, figures, ledger, due: Instant::now(), idle: 0 };
        accounts.insert(key.to_owned(), account);
        self.0.hurry.notify_one();
        true
    }

    /// Takes back what was entered a moment ago, because the request was refused elsewhere.
    pub fn given_back(&self, key: &str, cost: u64) {
        if let Some(account) = self.0.shard(key).lock().get_mut(key) {
            account.ledger.unconsume(cost);
        }
    }

    /// Tells Redis everything at once, as a node does that stops.
    pub async fn close(&self) {
        let copies = |shard: &Shard| {
            let accounts = shard.lock();
            accounts.iter().map(|(key, account)| (key.clone(), account.clone())).collect::<Vec<_>>()
        };
        let all: Vec<(String, Account)> = self.0.shards.iter().flat_map(copies).collect();
        join_all(all.into_iter().map(|(key, account)| self.0.sync(key, account))).await;
    }

    /// How many counters are shared now.
    pub fn in_use(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The longest that a charge made elsewhere stays unknown here, but for a round trip: 2τ.
    pub fn staleness(&self) -> Duration {
        2 * self.0.interval
    }
}

impl<C: Clock> Shared<C> {
    /// The accounts that are due, put off so that none is settled twice at once; those long unused are dropped.
    fn due(&self, now: Instant) -> Vec<(String, Account)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let mut accounts = shard.lock();
            accounts.retain(|_, account| account.idle < FORGOTTEN || account.ledger.unsent() > 0);
            for (key, account) in accounts.iter_mut().filter(|(_, account)| account.due <= now) {
                account.due = now + self.interval;
                all.push((key.clone(), account.clone()));
            }
        }
        all
    }

    fn shard(&self, key: &str) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    async fn sync(&self, key: String, account: Account) {
        let (told, asked) = (account.ledger.statement(), Instant::now());
        let settled = self.strict.sync(&key, &account.figures, (&self.node, told)).await;
        // Else its sum will say it again; meanwhile this node decides by what it knows.
        let Ok(settled) = settled else { return };
        let news = {
            let mut accounts = self.shard(&key).lock();
            let Some(held) = accounts.get_mut(&key) else { return };
            held.idle = if told.unsent == 0 { held.idle.saturating_add(1) } else { 0 };
            held.ledger.settle(told, settled)
        };
        let remaining = self.limiter.peek(&account.rule, account.identity).remaining;
        self.limiter.absorb(&account.rule, account.identity, news.charge(remaining));
        let next = self.next(&account);
        if let Some(held) = self.shard(&key).lock().get_mut(&key) {
            held.due = match next(held.idle) {
                later if later > self.interval => held.due.max(asked + later),
                sooner => held.due.min(asked + sooner),
            };
        }
    }

    /// How soon to ask again: sooner near the limit, later where nothing happens.
    fn next(&self, account: &Account) -> impl Fn(u32) -> Duration + use<C> {
        let standing = self.limiter.peek(&account.rule, account.identity);
        let interval = self.interval;
        let is_near = standing.remaining < standing.limit / 4;
        move |idle| match idle {
            0 if is_near => interval / 4,
            0..RESTING => interval,
            _ => interval * 4,
        }
    }
}
