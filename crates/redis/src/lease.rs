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
use tollgate_core::Kind;
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

/// A slice, and who asks for the next.
struct Held {
    slice: Mutex<Slice>,
    figures: Figures,
    /// One asks; the others wait for its answer.
    asking: tokio::sync::Mutex<()>,
    /// Somebody asks in the background already.
    is_asking: AtomicBool,
}

/// A limit that cannot be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeased;

impl fmt::Display for NotLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a sliding_window_log cannot be leased, because each charge must be known when it is made: write \
             `consistency: strict`, or choose sliding_window"
        )
    }
}

impl std::error::Error for NotLeased {}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("lifetime", &self.0.lifetime).finish_non_exhaustive()
    }
}

const SHARDS: usize = 64;

impl Leases {
    /// Whether a limit can be leased.
    pub fn supports(figures: &Figures) -> Result<(), NotLeased> {
        if figures.limit().kind() == Kind::SlidingWindowLog { Err(NotLeased) } else { Ok(()) }
    }

    /// Slices that live for one to two `lifetime`s, of at most `max_keys` counters at once.
    pub fn new(strict: Strict, lifetime: Duration, max_keys: usize) -> Leases {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARDS).collect();
        let lifetime = lifetime.max(Duration::from_millis(10));
        Leases(Arc::new(Shared { strict, lifetime, hasher: RandomState::new(), shards, max_keys }))
    }

    /// Spends `cost` of this node's slice if it is there: no call, no waiting. `false` decides nothing: it may be there
    /// to be leased, which [`take`](Leases::take) finds out.
    pub fn spend(&self, key: &str, cost: u64) -> bool {
        let held = self.0.shard(key).lock().get(key).cloned();
        held.is_some_and(|held| self.spend_of(key, &held, cost))
    }

    fn spend_of(&self, key: &str, held: &Arc<Held>, cost: u64) -> bool {
        let now = Instant::now();
        let mut slice = held.slice.lock();
        let is_there = slice.spend(cost, now);
        let is_low = slice.is_low(now);
        drop(slice);
        if is_low && !held.is_asking.swap(true, Relaxed) {
            let (leases, held, key) = (self.clone(), Arc::clone(held), key.to_owned());
            tokio::spawn(async move {
                let _asking = held.asking.lock().await;
                let _ = leases.ask(&key, &held, 0, None).await;
                held.is_asking.store(false, Relaxed);
            });
        }
        is_there
    }

    /// Charges `cost`, from this node's slice where it suffices, else after asking for more.
    pub async fn take(
        &self,
        key: &str,
        figures: &Figures,
        cost: u64,
    ) -> Result<Decision, Unavailable> {
        let limit = figures.capacity();
        if cost > limit {
            let standing = Standing { limit, remaining: 0, reset_after: Duration::ZERO };
            return Ok(Decision { refusal: Some(Refusal::Never), standing });
        }
        let held = self.0.held(key, figures).ok_or(Unavailable::Overloaded)?;
        if self.spend_of(key, &held, cost) {
            return Ok(spent(&held));
        }
        let _asking = held.asking.lock().await;
        // Whoever asked before may have been granted enough for us too.
        if held.slice.lock().spend(cost, Instant::now()) {
            return Ok(spent(&held));
        }
        let grant = self.ask(key, &held, cost, None).await?;
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
            held.slice.lock().unspend(cost, Instant::now());
        }
    }

    /// Returns everything that is unspent, as a node does that stops. What is taken afterwards is leased anew.
    pub async fn close(&self) {
        let shards = self.0.shards.iter();
        let all: Vec<(String, Arc<Held>)> =
            shards.flat_map(|shard| shard.lock().drain().collect::<Vec<_>>()).collect();
        let returned = all.iter().map(async |(key, held)| {
            let _asking = held.asking.lock().await;
            // What cannot be returned is stranded until its counter is renewed.
            let _ = self.ask(key, held, 0, Some(0)).await;
        });
        futures_util::future::join_all(returned).await;
    }

    /// Tells Redis of the slice there was, and begins the one it grants. Whoever calls this holds `asking`.
    async fn ask(
        &self,
        key: &str,
        held: &Held,
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
        let wanted = Wanted { least: cost, most: want, told, lifetime: self.0.lifetime };
        let grant = self.0.strict.lease(key, &held.figures, wanted).await?;
        held.slice.lock().begin(grant, told, want, asked);
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
        if let Some(held) = shard.get(key)
            && held.figures == *figures
        {
            return Some(Arc::clone(held));
        }
        let most = self.max_keys.div_ceil(SHARDS);
        if shard.len() >= most {
            let now = Instant::now();
            shard.retain(|_, held| Arc::strong_count(held) > 1 || !held.slice.lock().is_over(now));
        }
        if shard.len() >= most && !shard.contains_key(key) {
            return None;
        }
        let held = Arc::new(Held {
            slice: Mutex::new(Slice::new(Instant::now())),
            figures: figures.clone(),
            asking: tokio::sync::Mutex::new(()),
            is_asking: AtomicBool::new(false),
        });
        shard.insert(key.to_owned(), Arc::clone(&held));
        Some(held)
    }
}

/// The answer to a charge that this node's slice paid: what it still holds is known, what is in Redis is not.
fn spent(held: &Held) -> Decision {
    let remaining = held.slice.lock().left(Instant::now());
    let limit = held.figures.capacity();
    Decision { refusal: None, standing: Standing { limit, remaining, reset_after: Duration::ZERO } }
}

/// What remains to a caller of this node: what is in Redis and what the node holds.
fn of_both(figures: &Figures, left: Left, ours: u64) -> Left {
    let ours = i64::try_from(ours).unwrap_or(i64::MAX);
    match figures.shape {
        Shape::Bucket { .. } => Left { one: left.one.saturating_add(ours), ..left },
        _ => Left { one: left.one.saturating_sub(ours), ..left },
    }
}
