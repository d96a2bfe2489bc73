//! Counters of a gate that nodes share.
//!
//! ```text
//! limit ─ consistency ─▶ hybrid: the limiter decides, the others are told      ┐
//!                        lease:  a slice of it decides, else Redis is asked    ├─▶ while Redis cannot be asked: the fallback
//!                        strict: Redis decides all of a chain at once          ┘
//! ```

mod fallback;
mod hybrid;
mod lease;
mod outage;
mod strict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tollgate_engine::{Clock, Limiter, Rule, Time};
use tollgate_gate::Handles;
use tollgate_gate::elsewhere::{Elsewhere, Keeper};
use tollgate_policy::compile::PlacedLimit;
use tollgate_policy::shapes::{Consistency, Fallback};

use self::fallback::{Outages, Owing, Share};
use self::hybrid::{HybridKeeper, Told};
use self::lease::{LeaseKeeper, Leased};
use self::outage::Common;
use self::strict::{Counted, StrictKeeper};
use crate::calls::IN_BACKGROUND;
use crate::newest::{Newest, NewestOfAll};
use crate::nodes::{self, Nodes};
use crate::{Figures, Hybrid, Leases, Settings, Strict, Took};

/// How long slices live, once to twice; and how often idle ones are returned.
const LIFETIME: Duration = Duration::from_secs(5);
const SWEEP_EVERY: u32 = 5;

/// How nodes count together.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Where Redis is.
    pub settings: Settings,
    /// What all keys begin with.
    pub prefix: String,
    /// τ.
    pub interval: Duration,
    /// What becomes of requests while Redis cannot be asked.
    pub fallback: Fallback,
    /// The most counters in use at once.
    pub max_keys: usize,
}

/// Keeps the counters of a gate in Redis: of all limits that are not `local`. Clones are the same counters.
pub struct SharedCounters<C>(Arc<Shared<C>>);

/// What the keepers of all limits share.
pub(crate) struct Shared<C> {
    prefix: String,
    strict: Strict,
    hybrid: Hybrid<C>,
    leases: Leases,
    limiter: Arc<Limiter<C>>,
    nodes: Nodes,
    outages: Outages,
    newest: NewestOfAll,
    counted: Handles<Counted>,
    leased: Handles<Leased>,
    /// What quotas have in common under all of their limits.
    quotas: Handles<Common>,
    told: Handles<Told>,
}

/// How it goes, for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct SharingState {
    /// Whether Redis can be asked: whether the breaker is closed.
    pub is_up: bool,
    /// How often the breaker has opened.
    pub times_opened: u64,
    /// How long calls took.
    pub took: Took,
    /// Nodes that count together.
    pub nodes: u64,
    /// Charges that the fallback decided.
    pub fallbacks: u64,
    /// Hybrid counters in use.
    pub hybrid_in_use: usize,
    /// Charges of hybrid counters that the others are not told of, because there are more in use than may be.
    pub unshared: u64,
    /// The longest that a charge made on another node stays unknown here: 2τ + d.
    pub staleness: Duration,
    /// By how much at most all nodes together admitted more of one hybrid counter than its limit, in the last one or two
    /// minutes.
    pub overshoot: u64,
}

impl<C: Clock + 'static> SharedCounters<C> {
    /// Begins to connect, on the current runtime, and goes on trying: it need not be there.
    pub fn start(sharing: Sharing, limiter: &Arc<Limiter<C>>) -> SharedCounters<C> {
        let Sharing { settings, prefix, interval, fallback, max_keys } = sharing;
        let strict = Strict::start(settings);
        let hybrid = Hybrid::start(strict.clone(), Arc::clone(limiter), (interval, max_keys));
        let shared = Arc::new(Shared {
            hybrid,
            leases: Leases::new(strict.clone(), LIFETIME, max_keys),
            limiter: Arc::clone(limiter),
            nodes: Nodes::new(&prefix),
            outages: Outages::new(fallback, max_keys),
            newest: NewestOfAll::default(),
            counted: Handles::new(max_keys),
            leased: Handles::new(max_keys),
            quotas: Handles::new(max_keys),
            told: Handles::new(max_keys),
            prefix,
            strict,
        });
        // Apart from one another: a node that has much to tell is alive all the while.
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(shared) = weak.upgrade() {
                shared.nodes.beat(&shared.strict).await;
                a_beat(shared).await;
            }
        });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let mut beats = 0u32;
            while let Some(shared) = weak.upgrade() {
                shared.recover().await;
                beats = beats.wrapping_add(1);
                if beats.is_multiple_of(SWEEP_EVERY) {
                    shared.sweep().await;
                }
                a_beat(shared).await;
            }
        });
        SharedCounters(shared)
    }

    /// Returns what is leased and tells what was consumed: after the last request. Answers of how many counters that was not
    /// possible: what was leased of them is stranded until they are renewed.
    pub async fn close(&self) -> usize {
        let shared = &self.0;
        shared.recover().await;
        // Leases first: there may be no time for all, and what is leased strands.
        let all = shared.leased.all();
        let held = all.iter().map(|leased| Arc::clone(leased.held())).collect();
        let stranded = shared.leases.give_up_all(held).await;
        shared.hybrid.close().await;
        shared.nodes.leave(&shared.strict).await;
        stranded + shared.outages.owing()
    }

    /// How it goes.
    pub fn state(&self) -> SharingState {
        let shared = &self.0;
        SharingState {
            is_up: shared.strict.is_up(),
            times_opened: shared.strict.times_opened(),
            took: shared.strict.took(),
            nodes: shared.nodes.count(),
            fallbacks: shared.outages.decided(),
            hybrid_in_use: shared.hybrid.in_use(),
            unshared: shared.hybrid.unshared(),
            staleness: shared.hybrid.staleness() + shared.hybrid.round_trip(),
            overshoot: shared.hybrid.overshoot(),
        }
    }
}

impl<C: Clock + 'static> Elsewhere for SharedCounters<C> {
    fn keeper(&self, limit: &PlacedLimit, rule: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        let consistency = limit.consistency();
        if consistency == Consistency::Local {
            return None;
        }
        // A policy with a limit that is out of range is not compiled.
        let figures = Arc::new(Figures::of(limit.limit()).ok()?);
        let terms = Arc::new(Terms {
            shared: Arc::clone(&self.0),
            share: Share::new(limit),
            figures,
            rule: Arc::clone(rule),
            newest: self.0.newest.note(limit),
        });
        match consistency {
            Consistency::Local => None,
            Consistency::Hybrid => Some(Arc::new(HybridKeeper(terms))),
            Consistency::Lease => Some(Arc::new(LeaseKeeper(terms))),
            Consistency::Strict => Some(Arc::new(StrictKeeper(terms))),
        }
    }

    fn set_max_keys(&self, max_keys: usize) {
        let Shared { hybrid, leases, outages, counted, leased, quotas, told, .. } = &*self.0;
        hybrid.set_max_keys(max_keys);
        leases.set_max_keys(max_keys);
        outages.set_most_owing(max_keys);
        counted.set_most(max_keys);
        leased.set_most(max_keys);
        quotas.set_most(max_keys);
        told.set_most(max_keys);
    }
}

/// Waits for the next beat. What was admitted while nobody could be told is told as soon as anybody can be.
async fn a_beat<C>(shared: Arc<Shared<C>>) {
    let strict = shared.strict.clone();
    drop(shared);
    let _ = tokio::time::timeout(nodes::EVERY, strict.comes_up()).await;
}

/// What a keeper knows of its limit.
pub(crate) struct Terms<C> {
    shared: Arc<Shared<C>>,
    share: Share,
    figures: Arc<Figures>,
    rule: Arc<Rule>,
    newest: Arc<Newest>,
}

impl<C: Clock + 'static> Shared<C> {
    fn key(&self, name: &str) -> String {
        format!("{}:ratelimit:{name}", self.prefix)
    }

    /// How long a request has waited that was begun then.
    fn waited(&self, begun: Time) -> Duration {
        let now = self.limiter.clock().now();
        Duration::from_nanos(now.as_nanos().saturating_sub(begun.as_nanos()))
    }

    /// Until when it waits, however often it has to.
    fn deadline(&self, begun: Time) -> Instant {
        Instant::now() + self.strict.longest_wait().saturating_sub(self.waited(begun))
    }

    fn runtime(&self) -> &Handle {
        self.strict.runtime()
    }

    /// Tells what was admitted while nobody could be told. What cannot be told now is told next time.
    async fn recover(&self) {
        if !self.strict.is_up() {
            return;
        }
        let tell = |owing| async move {
            if !self.tell(&owing).await {
                self.outages.put_back(owing);
            }
        };
        stream::iter(self.outages.take_owing()).for_each_concurrent(IN_BACKGROUND, tell).await;
    }

    async fn tell(&self, owing: &Owing) -> bool {
        match owing {
            Owing::Strict(counter, figures) => match counter.get::<Counted>() {
                Some(counted) => counted.recover(self, figures).await,
                None => true,
            },
            Owing::Leased(counter) => {
                counter.get::<Leased>().is_none_or(|leased| leased.recover(self))
            }
            Owing::Nothing => true,
        }
    }

    /// Returns slices that nobody spends any more, and forgets counters that nobody uses. What cannot be returned now is
    /// returned next time.
    async fn sweep(&self) {
        let mut idle = Vec::new();
        self.leased.sweep(|leased| {
            let is_done = leased.held().is_done();
            if !is_done {
                idle.push(Arc::clone(leased.held()));
            }
            is_done
        });
        self.leases.give_up_all(idle).await;
        self.counted.sweep(|counted| counted.is_settled());
        self.quotas.sweep(|common| common.is_settled());
        self.told.sweep(|_| true);
    }
}

impl<C> Clone for SharedCounters<C> {
    fn clone(&self) -> SharedCounters<C> {
        SharedCounters(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for SharedCounters<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCounters").field("strict", &self.0.strict).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for Terms<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("rule", &self.rule).finish_non_exhaustive()
    }
}
