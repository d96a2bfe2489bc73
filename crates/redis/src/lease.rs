//! Leased counters: a node takes a slice of a counter's tokens and spends it by itself.
//!
//! Tokens are deducted in Redis when they are granted, so however many nodes die or are cut off, what all of them
//! admit together never exceeds the limit. A slice has an end; a node stops spending it before Redis would think it over, as it
//! counts from before it asked.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_core::remote::{self, NotLeased};
use tollgate_engine::{Decision, Refusal, Standing, Time};

use crate::answer::standing;
use crate::calls::IN_BACKGROUND;
use crate::command::Wanted;
use crate::held::{Held, Spent, Taken};
use crate::shards::{most_in_shard, shards_for};
use crate::slice::Grant;
use crate::{Figures, Strict, Unavailable};

/// Counters of which this node holds slices. Clones share them.
#[derive(Clone)]
pub struct Leases(Arc<Shared>);

struct Shared {
    strict: Strict,
    lifetime: Duration,
    hasher: RandomState,
    shards: Box<[Shard]>,
    most_in_shard: AtomicUsize,
}

type Shard = Mutex<HashMap<String, Arc<Held>>>;

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("lifetime", &self.0.lifetime).finish_non_exhaustive()
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// The fewest tokens that are of use.
    least: u64,
    /// The most to hold; if unsaid, as many as are needed.
    most: Option<u64>,
    /// Whether it concerns a counter before, and one of another algorithm is left as it is.
    is_former: bool,
    /// When whoever asks began, by the limiter's clock.
    begun: Option<Time>,
}

impl Wish {
    /// As many as are needed, whoever asks.
    const ALL: Wish = Wish { least: 0, most: None, is_former: false, begun: None };
}

impl Leases {
    /// Whether a limit can be leased.
    pub fn supports(figures: &Figures) -> Result<(), NotLeased> {
        remote::leasable(figures.limit())
    }

    /// Slices that live for one to two `lifetime`s, of at most `max_keys` counters at once.
    pub fn new(strict: Strict, lifetime: Duration, max_keys: usize) -> Leases {
        let many = shards_for(max_keys);
        let most_in_shard = AtomicUsize::new(most_in_shard(max_keys, many));
        let shards = std::iter::repeat_with(Mutex::default).take(many).collect();
        let lifetime = lifetime.max(Duration::from_millis(10));
        let hasher = RandomState::new();
        Leases(Arc::new(Shared { strict, lifetime, hasher, shards, most_in_shard }))
    }

    /// At most so many counters at once from now on.
    pub fn set_max_keys(&self, max_keys: usize) {
        let most = most_in_shard(max_keys, self.0.shards.len());
        self.0.most_in_shard.store(most, Relaxed);
    }

    /// Spends `cost` of this node's slice if it is there: no call, no waiting. `false` decides nothing: it may be there
    /// to be leased, which [`take`](Leases::take) finds out.
    pub fn spend(&self, key: &str, cost: u64) -> bool {
        let held = self.0.shard(key).lock().get(key).cloned();
        held.is_some_and(|held| {
            let figures = held.figures.lock().clone();
            self.spend_of(&held, (&figures, cost), None).is_some()
        })
    }

    /// Spends `cost` of a slice, if it is there. It asks for more ahead of need. `now` is for whoever has read the limiter's
    /// clock already.
    #[inline]
    pub(crate) fn spend_of(
        &self,
        held: &Arc<Held>,
        (figures, cost): (&Arc<Figures>, u64),
        now: Option<Time>,
    ) -> Option<Spent> {
        let (spent, is_low) = match now {
            Some(now) => held.spend_at(figures, cost, now),
            None => held.spend(figures, cost),
        };
        if is_low {
            self.ask_ahead(held, figures, now);
        }
        spent
    }

    /// Asks for more in the background, unless somebody does.
    #[cold]
    pub(crate) fn ask_ahead(&self, held: &Arc<Held>, figures: &Arc<Figures>, now: Option<Time>) {
        if self.0.strict.is_up() && !held.is_asking.swap(true, Relaxed) {
            let (leases, held, figures) = (self.clone(), Arc::clone(held), Arc::clone(figures));
            self.0.strict.runtime().spawn(async move {
                let _asking = held.asking.lock().await;
                let _ = leases.ask(&held, &figures, Wish { begun: now, ..Wish::ALL }).await;
                held.is_asking.store(false, Relaxed);
            });
        }
    }

    /// Charges `cost`, from this node's slice where it suffices, else after asking for more.
    pub async fn take(
        &self,
        key: &str,
        figures: &Figures,
        cost: u64,
    ) -> Result<Decision, Unavailable> {
        let held = self.0.held(key, figures).ok_or(Unavailable::Overloaded)?;
        let figures = held.figures.lock().clone();
        let deadline = Instant::now() + self.0.strict.longest_wait();
        let taken = self.take_of(&held, (&figures, cost), (None, deadline)).await;
        taken.map(|spent| spent.decision)
    }

    /// [`take`](Leases::take) of a counter that is held already, by somebody who began then by the limiter's clock and waits until
    /// the deadline at most.
    pub(crate) async fn take_of(
        &self,
        held: &Arc<Held>,
        (figures, cost): (&Arc<Figures>, u64),
        (begun, deadline): (Option<Time>, Instant),
    ) -> Result<Spent, Unavailable> {
        let limit = figures.capacity();
        if cost > limit {
            let standing = Standing { limit, remaining: 0, reset_after: Duration::ZERO };
            let decision = Decision { refusal: Some(Refusal::Never), standing };
            return Ok(Spent { decision, mark: -1 });
        }
        if let Some(spent) = self.spend_of(held, (figures, cost), None) {
            return Ok(spent);
        }
        let (reply, answer) = oneshot::channel();
        let (leases, held, figures) = (self.clone(), Arc::clone(held), Arc::clone(figures));
        // In a task of its own: whoever hangs up must not take the answer along, which is a slice for all.
        self.0.strict.runtime().spawn(async move {
            let wish = Wish { least: cost, begun, ..Wish::ALL };
            leases.take_in_turn(&held, (&figures, wish), (deadline, reply)).await;
        });
        answer.await.unwrap_or(Err(Unavailable::Closed)).map(Taken::hand_over)
    }

    /// Asks for more when those who asked before have been answered, unless their answer is ours too.
    async fn take_in_turn(
        &self,
        held: &Arc<Held>,
        (figures, wish): (&Arc<Figures>, Wish),
        (deadline, reply): (Instant, oneshot::Sender<Result<Taken, Unavailable>>),
    ) {
        let (since, cost) = (Instant::now(), wish.least);
        let Ok(_asking) = timeout_at(deadline, held.asking.lock()).await else {
            return drop(reply.send(Err(Unavailable::TimedOut)));
        };
        if reply.is_closed() {
            return;
        }
        // Whoever asked before may have been granted enough for us too, or was told that there is nothing.
        let (spent, _) = held.spend(figures, cost);
        let known = spent.or_else(|| held.refused_since(since, figures, cost));
        if let Some(spent) = known {
            return drop(reply.send(Ok(Taken::new(held, cost, spent))));
        }
        loop {
            let mut asked = pin!(self.ask(held, figures, wish));
            let Ok(granted) = timeout_at(deadline, &mut asked).await else {
                drop(reply.send(Err(Unavailable::TimedOut)));
                // What is granted belongs to this node all the same.
                return drop(asked.await);
            };
            let decided = granted.map(|grant| held.decide(figures, cost, grant));
            if let Some(decided) = decided.transpose() {
                return drop(reply.send(decided.map(|spent| Taken::new(held, cost, spent))));
            }
        }
    }

    /// Returns everything that is unspent, as a node does that stops. What is taken afterwards is leased anew.
    pub async fn close(&self) {
        let shards = self.0.shards.iter();
        let all: Vec<Arc<Held>> = shards
            .flat_map(|shard| shard.lock().drain().map(|(_, held)| held).collect::<Vec<_>>())
            .collect();
        self.give_up_all(all).await;
    }

    /// Returns what is unspent of these counters, and tells of how many that was not possible.
    pub(crate) async fn give_up_all(&self, all: Vec<Arc<Held>>) -> usize {
        let give_up = |held: Arc<Held>| async move { self.give_up(&held).await.is_err() };
        let failed = stream::iter(all).map(give_up).buffer_unordered(IN_BACKGROUND);
        failed.fold(0, |sum, is_failed| ready(sum + usize::from(is_failed))).await
    }

    /// Pays what is owed and returns what is unspent of one counter. What Redis may have been told and did not acknowledge is
    /// stranded until the counter is renewed.
    pub(crate) async fn give_up(&self, held: &Arc<Held>) -> Result<(), Unavailable> {
        let figures = held.figures.lock().clone();
        let _asking = held.asking.lock().await;
        // All of it if that much is there, else what there is.
        for least in [held.owed(), 0] {
            match held.owed() {
                0 => break,
                owed => {
                    // By the newest policy it may count otherwise.
                    let (most, is_former) = (Some(owed), !held.is_newest(&figures));
                    self.ask(held, &figures, Wish { least, most, is_former, ..Wish::ALL }).await?
                }
            };
        }
        if !held.is_done() {
            self.ask(held, &figures, Wish { most: Some(0), is_former: true, ..Wish::ALL }).await?;
        }
        Ok(())
    }

    /// The same for a counter that nobody holds any more, in the background.
    pub(crate) fn give_up_later(&self, held: &Arc<Held>) {
        if !held.is_done() {
            let (leases, held) = (self.clone(), Arc::clone(held));
            self.0.strict.runtime().spawn(async move { leases.give_up(&held).await });
        }
    }

    /// Tells Redis of the slice there was, and begins the one it grants. Whoever calls this holds `asking`.
    async fn ask(
        &self,
        held: &Held,
        figures: &Arc<Figures>,
        Wish { least, most, is_former, begun }: Wish,
    ) -> Result<Grant, Unavailable> {
        let asked = Instant::now();
        let (told, want) = {
            let mut slice = held.slice.lock();
            let want = most.unwrap_or_else(|| slice.demand(least, self.0.lifetime, asked));
            let told = slice.report(want, asked);
            (told, want)
        };
        *held.figures.lock() = Arc::clone(figures);
        let lifetime = self.0.lifetime;
        let wanted = Wanted { least, most: want, told, lifetime, is_former };
        let granted = self.0.strict.lease(held.key(), figures, wanted).await;
        let grant = granted.inspect_err(|why| {
            if !why.may_have_run() {
                held.slice.lock().untell(told, want);
            }
        })?;
        let whole = standing(figures, grant.left, grant.at);
        let mut slice = held.slice.lock();
        slice.begin(grant, told, want, asked);
        slice.granted_under(figures.capacity());
        slice.note_elsewhere((whole.remaining, whole.reset_after), asked);
        if let Some(begun) = begun {
            slice.asked_since(begun, (grant.lives, whole.reset_after));
        }
        drop(slice);
        held.hear(grant, figures);
        Ok(grant)
    }
}

impl Shared {
    fn shard(&self, key: &str) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % self.shards.len()]
    }

    /// The slice of a counter, perhaps an empty one; `None` if this node holds as many as it may.
    fn held(&self, key: &str, figures: &Figures) -> Option<Arc<Held>> {
        let mut shard = self.shard(key).lock();
        if let Some(held) = shard.get(key) {
            let mut known = held.figures.lock();
            if **known != *figures {
                *known = Arc::new(figures.clone());
            }
            return Some(Arc::clone(held));
        }
        let most = self.most_in_shard.load(Relaxed);
        if shard.len() >= most {
            let now = Instant::now();
            shard.retain(|_, held| Arc::strong_count(held) > 1 || !held.slice.lock().is_over(now));
        }
        if shard.len() >= most {
            return None;
        }
        let held = Arc::new(Held::new(key.to_owned(), &Arc::new(figures.clone()), None));
        shard.insert(key.to_owned(), Arc::clone(&held));
        Some(held)
    }
}
