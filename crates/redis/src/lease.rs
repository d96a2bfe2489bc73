//! Leased counters: a node takes a slice of a counter's tokens and spends it by itself.
//!
//! Tokens are deducted in Redis when they are granted, so however many nodes die or are cut off, what all of them
//! admit together never exceeds the limit. A slice has an end; a node stops spending it before Redis would think it over, as it
//! counts from before it asked.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_core::remote::{self, NotLeased};
use tollgate_engine::{Decision, Refusal, Standing};

use crate::answer::{Left, refusal, standing};
use crate::command::Wanted;
use crate::figures::Shape;
use crate::slice::{Grant, Slice};
use crate::{Figures, Strict, Unavailable};

/// Counters of which this node holds slices. Clones share them.
#[derive(Clone)]
pub struct Leases(Arc<Shared>);

struct Shared {
    strict: Strict,
    lifetime: Duration,
    hasher: RandomState,
    shards: Box<[Shard]>,
    max_keys: usize,
}

type Shard = Mutex<HashMap<String, Arc<Held>>>;

/// One counter: a slice of it, and who asks for the next.
pub(crate) struct Held {
    key: String,
    slice: Mutex<Slice>,
    /// As it was last asked for.
    figures: Mutex<Option<Arc<Figures>>>,
    /// One asks; the others wait for its answer.
    asking: tokio::sync::Mutex<()>,
    /// Somebody asks in the background already.
    is_asking: AtomicBool,
}

impl Held {
    fn new(key: String) -> Held {
        Held {
            key,
            slice: Mutex::new(Slice::new(Instant::now())),
            figures: Mutex::new(None),
            asking: tokio::sync::Mutex::new(()),
            is_asking: AtomicBool::new(false),
        }
    }

    /// What was admitted while Redis could not be asked is paid from the next slices before anything else.
    pub(crate) fn owe(&self, tokens: u64) {
        self.slice.lock().owe(tokens);
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// What can be spent of it.
    pub(crate) fn left(&self) -> u64 {
        self.slice.lock().left(Instant::now())
    }

    /// Where the counter stands, so far as is known here.
    pub(crate) fn known(&self, figures: &Figures) -> Decision {
        spent(figures, &self.slice.lock(), Instant::now())
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("lifetime", &self.0.lifetime).finish_non_exhaustive()
    }
}

const SHARDS: usize = 64;

impl Leases {
    /// Whether a limit can be leased.
    pub fn supports(figures: &Figures) -> Result<(), NotLeased> {
        remote::leasable(figures.limit())
    }

    /// Slices that live for one to two `lifetime`s, of at most `max_keys` counters at once.
    pub fn new(strict: Strict, lifetime: Duration, max_keys: usize) -> Leases {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARDS).collect();
        let lifetime = lifetime.max(Duration::from_millis(10));
        Leases(Arc::new(Shared { strict, lifetime, hasher: RandomState::new(), shards, max_keys }))
    }

    /// A counter that its holder returns by itself.
    pub(crate) fn hold(key: String) -> Held {
        Held::new(key)
    }

    /// Spends `cost` of this node's slice if it is there: no call, no waiting. `false` decides nothing: it may be there
    /// to be leased, which [`take`](Leases::take) finds out.
    pub fn spend(&self, key: &str, cost: u64) -> bool {
        let held = self.0.shard(key).lock().get(key).cloned();
        held.is_some_and(|held| {
            let figures = held.figures.lock().clone();
            figures.is_some_and(|figures| self.spend_of(&held, &figures, cost).is_some())
        })
    }

    /// Spends `cost` of a slice, if it is there. It asks for more ahead of need.
    pub(crate) fn spend_of(
        &self,
        held: &Arc<Held>,
        figures: &Arc<Figures>,
        cost: u64,
    ) -> Option<Decision> {
        let now = Instant::now();
        let mut slice = held.slice.lock();
        let spent = slice.spend(cost, now).then(|| spent(figures, &slice, now));
        let is_low = slice.is_low(now);
        drop(slice);
        if is_low && self.0.strict.is_up() && !held.is_asking.swap(true, Relaxed) {
            let (leases, held, figures) = (self.clone(), Arc::clone(held), Arc::clone(figures));
            self.0.strict.runtime().spawn(async move {
                let _asking = held.asking.lock().await;
                let _ = leases.ask(&held, &figures, 0, None).await;
                held.is_asking.store(false, Relaxed);
            });
        }
        spent
    }

    /// Charges `cost`, from this node's slice where it suffices, else after asking for more.
    pub async fn take(
        &self,
        key: &str,
        figures: &Figures,
        cost: u64,
    ) -> Result<Decision, Unavailable> {
        let held = self.0.held(key, figures).ok_or(Unavailable::Overloaded)?;
        let figures = held.figures.lock().clone().unwrap_or_else(|| Arc::new(figures.clone()));
        self.take_of(&held, &figures, cost).await
    }

    /// [`take`](Leases::take) of a counter that is held already.
    pub(crate) async fn take_of(
        &self,
        held: &Arc<Held>,
        figures: &Arc<Figures>,
        cost: u64,
    ) -> Result<Decision, Unavailable> {
        let limit = figures.capacity();
        if cost > limit {
            let standing = Standing { limit, remaining: 0, reset_after: Duration::ZERO };
            return Ok(Decision { refusal: Some(Refusal::Never), standing });
        }
        if let Some(spent) = self.spend_of(held, figures, cost) {
            return Ok(spent);
        }
        let _asking = held.asking.lock().await;
        // Whoever asked before may have been granted enough for us too.
        {
            let (mut slice, now) = (held.slice.lock(), Instant::now());
            if slice.spend(cost, now) {
                return Ok(spent(figures, &slice, now));
            }
        }
        let grant = self.ask(held, figures, cost, None).await?;
        let now = Instant::now();
        let mut slice = held.slice.lock();
        let is_there = slice.spend(cost, now);
        let left = of_both(figures, grant.left, slice.left(now));
        let refusal = (!is_there).then(|| refusal(figures, left, cost, grant.at));
        Ok(Decision { refusal, standing: standing(figures, left, grant.at) })
    }

    /// Puts back what was taken a moment ago, because the request was refused elsewhere.
    pub fn give_back(&self, key: &str, cost: u64) {
        if let Some(held) = self.0.shard(key).lock().get(key) {
            self.give_back_of(held, cost);
        }
    }

    /// [`give_back`](Leases::give_back) to a counter that is held.
    pub(crate) fn give_back_of(&self, held: &Held, cost: u64) {
        held.slice.lock().unspend(cost, Instant::now());
    }

    /// Returns everything that is unspent, as a node does that stops. What is taken afterwards is leased anew.
    pub async fn close(&self) {
        let shards = self.0.shards.iter();
        let all: Vec<Arc<Held>> = shards
            .flat_map(|shard| shard.lock().drain().map(|(_, held)| held).collect::<Vec<_>>())
            .collect();
        futures_util::future::join_all(all.iter().map(|held| self.give_up(held))).await;
    }

    /// Returns what is unspent of one counter. What cannot be returned is stranded until the counter is renewed.
    pub(crate) async fn give_up(&self, held: &Held) {
        let figures = held.figures.lock().clone();
        if let Some(figures) = figures {
            let _asking = held.asking.lock().await;
            let _ = self.ask(held, &figures, 0, Some(0)).await;
        }
    }

    /// Tells Redis of the slice there was, and begins the one it grants. Whoever calls this holds `asking`.
    async fn ask(
        &self,
        held: &Held,
        figures: &Arc<Figures>,
        cost: u64,
        want: Option<u64>,
    ) -> Result<Grant, Unavailable> {
        let asked = Instant::now();
        let (told, want) = {
            let mut slice = held.slice.lock();
            let want = want.unwrap_or_else(|| slice.demand(cost, self.0.lifetime, asked));
            let told = slice.report(want, asked);
            (told, want)
        };
        *held.figures.lock() = Some(Arc::clone(figures));
        let wanted = Wanted { least: cost, most: want, told, lifetime: self.0.lifetime };
        let grant = self.0.strict.lease(&held.key, figures, wanted).await?;
        let whole = standing(figures, grant.left, grant.at);
        let mut slice = held.slice.lock();
        slice.begin(grant, told, want, asked);
        slice.note_elsewhere(whole.remaining, asked + whole.reset_after);
        Ok(grant)
    }
}

impl Shared {
    fn shard(&self, key: &str) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The slice of a counter, perhaps an empty one; `None` if this node holds as many as it may.
    fn held(&self, key: &str, figures: &Figures) -> Option<Arc<Held>> {
        let mut shard = self.shard(key).lock();
        if let Some(held) = shard.get(key) {
            let mut known = held.figures.lock();
            if known.as_deref() != Some(figures) {
                *known = Some(Arc::new(figures.clone()));
            }
            return Some(Arc::clone(held));
        }
        let most = self.max_keys.div_ceil(SHARDS);
        if shard.len() >= most {
            let now = Instant::now();
            shard.retain(|_, held| Arc::strong_count(held) > 1 || !held.slice.lock().is_over(now));
        }
        if shard.len() >= most {
            return None;
        }
        let held = Arc::new(Held::new(key.to_owned()));
        *held.figures.lock() = Some(Arc::new(figures.clone()));
        shard.insert(key.to_owned(), Arc::clone(&held));
        Some(held)
    }
}

/// The answer to a charge that this node's slice paid: what it still holds, and what Redis had when it was last asked.
fn spent(figures: &Figures, slice: &Slice, now: Instant) -> Decision {
    let limit = figures.capacity();
    let (remaining, reset_after) = slice.known(limit, now);
    Decision { refusal: None, standing: Standing { limit, remaining, reset_after } }
}

/// What remains to a caller of this node: what is in Redis and what the node holds.
fn of_both(figures: &Figures, left: Left, ours: u64) -> Left {
    let ours = i64::try_from(ours).unwrap_or(i64::MAX);
    match figures.shape {
        Shape::Bucket { .. } => Left { one: left.one.saturating_add(ours), ..left },
        _ => Left { one: left.one.saturating_sub(ours), ..left },
    }
}
