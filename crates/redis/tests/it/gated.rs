//! One limit of one node, as a gate asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_engine::{Clock, Limiter, Rule, Strategy, SystemClock, Time};
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Together, Whose,
};
use tollgate_policy::compile::Policy;
use tollgate_policy::shapes::{Consistency, Fallback};
use tollgate_redis::{Settings, SharedCounters, Sharing};

use crate::servers::{Server, until};

/// As long as nothing is slow on purpose: a busy machine is no outage.
const LONG: Duration = Duration::from_secs(20);

/// What a keeper finds one of several counters by.
pub fn hash(nth: usize) -> u128 {
    (nth as u128 + 1) << 64 | 7
}

pub const KEY: &str = "tollgate:ratelimit:one";

/// A node's clock, which need not agree with Redis'.
pub struct NodeClock {
    clock: SystemClock,
    behind: AtomicU64,
}

impl Clock for NodeClock {
    fn now(&self) -> Time {
        let behind = self.behind.load(Relaxed);
        Time::from_nanos(self.clock.now().as_nanos().saturating_sub(behind))
    }
}

/// One limit of one node, which time does not fill while a test runs, unless its rate says so.
pub struct Node {
    pub shared: SharedCounters<NodeClock>,
    limiter: Arc<Limiter<NodeClock>>,
    rule: Arc<Rule>,
    keeper: Arc<dyn Keeper>,
}

/// What the limit is.
#[derive(Clone, Copy)]
pub enum Counts {
    Bucket,
    /// The same bucket by another algorithm.
    Gcra,
    /// A leaky bucket in front of a queue.
    Paced,
    /// Windows as long as the rate's.
    Window,
    /// The same, and what is in view of the one before.
    Sliding,
    /// A month's balance.
    Quota,
}

#[derive(Clone, Copy)]
pub struct Terms {
    pub counts: Counts,
    /// By how much the node's clock is behind Redis'.
    pub behind: Duration,
    pub consistency: Consistency,
    pub capacity: u64,
    /// What comes back to a bucket: so many tokens in such a window. Of windows only the length counts.
    pub rate: (u64, &'static str),
    pub fallback: Fallback,
    pub timeout: Duration,
    /// How often hybrid counters are told.
    pub interval: Duration,
    pub max_keys: usize,
}

pub const TERMS: Terms = Terms {
    counts: Counts::Bucket,
    behind: Duration::ZERO,
    consistency: Consistency::Strict,
    capacity: 100,
    rate: (1, "day"),
    fallback: Fallback::LocalOnly,
    timeout: LONG,
    interval: Duration::from_millis(100),
    max_keys: 100_000,
};

impl Terms {
    /// A policy with such a limit.
    fn policy(self) -> Policy {
        let consistency = match self.consistency {
            Consistency::Lease => "lease",
            Consistency::Hybrid => "hybrid",
            _ => "strict",
        };
        let (capacity, (rate, window)) = (self.capacity, self.rate);
        let limit = match self.counts {
            Counts::Bucket | Counts::Gcra => {
                let is_gcra = matches!(self.counts, Counts::Gcra);
                let algorithm = if is_gcra { "gcra" } else { "token_bucket" };
                format!(
                    "rate_limit: {{ algorithm: {algorithm}, sustained: {{ rate: {rate}, window: {window} }},
    burst: {{ capacity: {capacity} }}, scope: user, consistency: {consistency} }}"
                )
            }
            Counts::Paced => format!(
                "rate_limit: {{ algorithm: leaky_bucket, sustained: {{ rate: {rate}, window: {window} }},
    burst: {{ capacity: {capacity} }}, strategy: queue, scope: user, consistency: {consistency} }}"
            ),
            Counts::Window => format!(
                "rate_limit: {{ algorithm: fixed_window, sustained: {{ rate: {capacity}, window: {window} }},
    scope: user, consistency: {consistency} }}"
            ),
            Counts::Sliding => format!(
                "rate_limit: {{ algorithm: sliding_window, sustained: {{ rate: {capacity}, window: {window} }},
    scope: user, consistency: {consistency} }}"
            ),
            Counts::Quota => format!("quota: {{ limit: {capacity}, window: month }}"),
        };
        let text = format!(
            "
rate_limit_sync: {{ enabled: true }}
plans: {{ a: {{ {limit} }} }}
tenants: [ {{ id: acme, plan: a }} ]
"
        );
        Policy::of("policy.yaml", text.as_bytes())
            .unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
    }
}

impl Node {
    pub async fn start(url: &str, terms: Terms) -> Node {
        Node::start_at(Settings::new(url).unwrap(), terms).await
    }

    /// However Redis is reached.
    pub async fn start_at(settings: Settings, terms: Terms) -> Node {
        let behind = AtomicU64::new(terms.behind.as_nanos() as u64);
        let clock = NodeClock { clock: SystemClock::new(), behind };
        let limiter = Arc::new(Limiter::with_clock(clock, 100_000));
        let sharing = Sharing {
            settings: settings.timeout(terms.timeout),
            prefix: "tollgate".to_owned(),
            interval: terms.interval,
            fallback: terms.fallback,
            max_keys: terms.max_keys,
        };
        let shared = SharedCounters::start(sharing, &limiter);
        let node = Node::with(shared, limiter, terms);
        node.up().await;
        node
    }

    /// The same node with another limit, as after a reload.
    pub fn reloaded(&self, terms: Terms) -> Node {
        Node::with(self.shared.clone(), Arc::clone(&self.limiter), terms)
    }

    fn with(
        shared: SharedCounters<NodeClock>,
        limiter: Arc<Limiter<NodeClock>>,
        terms: Terms,
    ) -> Node {
        let policy = terms.policy();
        // There are limits that nobody has written too.
        let mut ours = policy.limits().iter().filter(|limit| limit.source() == "plan:a");
        let limit = ours.find(|limit| limit.consistency() == terms.consistency).unwrap();
        let rule = limiter.define(limit.counter(), limit.limit().clone());
        let keeper = shared.keeper(limit, &rule).unwrap();
        Node { shared, limiter, rule, keeper }
    }

    /// From now on its clock agrees with Redis'.
    pub fn catches_up(&self) {
        self.limiter.clock().behind.store(0, Relaxed);
    }

    pub async fn up(&self) {
        until("Redis is up", || self.shared.state().is_up).await;
    }

    pub async fn down(&self) {
        until("the breaker opens", || !self.shared.state().is_up).await;
    }

    /// What is left of a hybrid counter, as far as this node knows. One that rests is asked for, as by a request: however late
    /// the others tell what they did, who goes on asking hears of it.
    pub fn left(&self) -> u64 {
        self.left_of("one", 1)
    }

    pub fn left_of(&self, name: &str, hash: u128) -> u64 {
        let counter = self.counter_of(name, hash);
        self.keeper.is_stale(&Asked {
            counter: &counter,
            cost: 1,
            now: self.limiter.clock().now(),
        });
        self.limiter.peek(&self.rule, self.limiter.identity(name)).remaining
    }

    /// Waits until enough is known of a hybrid counter to decide by, as a request does before it is charged.
    pub async fn hears_of(&self, name: &str, hash: u128) {
        let counter = self.counter_of(name, hash);
        let asked = Asked { counter: &counter, cost: 1, now: self.limiter.clock().now() };
        if self.keeper.is_stale(&asked) {
            self.keeper.refresh(asked).await;
        }
    }

    pub fn counter_of(&self, name: &str, hash: u128) -> Counter {
        let identity = self.limiter.identity(name);
        let whose = Whose { hash, identity, name: &|| name.to_owned() };
        self.keeper.counter(&whose).unwrap()
    }

    pub fn counter(&self) -> Counter {
        self.counter_of("one", 1)
    }

    pub async fn ask_for(&self, counter: &Counter, cost: u64) -> Answered {
        let asked = Asked { counter, cost, now: self.limiter.clock().now() };
        if let Some(answered) = self.keeper.try_charge(&asked) {
            return answered;
        }
        if self.keeper.manner() == Manner::Alone {
            return self.keeper.charge(asked).await;
        }
        let together = [Together { keeper: &*self.keeper, asked, strategy: Strategy::Reject }];
        self.keeper.charge_together(&together).await.answers[0]
    }

    /// Gives back what was charged then.
    pub fn give_back(&self, counter: &Counter, cost: u64, charged: Answered) {
        let Answered::Decided(_, mark) = charged else { panic!("it was not charged") };
        self.keeper.give_back(&Asked { counter, cost, now: self.limiter.clock().now() }, mark);
    }

    pub async fn is_admitted(&self) -> bool {
        self.admits("one", 1).await
    }

    /// Of the counter of this name and hash.
    pub async fn admits(&self, name: &str, hash: u128) -> bool {
        match self.keeper.manner() {
            Manner::Told => self.is_admitted_here(name, hash),
            _ => is_admitted(self.ask_for(&self.counter_of(name, hash), 1).await),
        }
    }

    /// The limiter decides, the keeper besides if it wants to, and if both admit it the keeper is told.
    fn is_admitted_here(&self, name: &str, hash: u128) -> bool {
        let identity = self.limiter.identity(name);
        if !self.limiter.decide(&self.rule, identity, 1).is_allowed() {
            return false;
        }
        let counter = self.counter_of(name, hash);
        let asked = Asked { counter: &counter, cost: 1, now: self.limiter.clock().now() };
        let passes = self.keeper.try_charge(&asked).is_none_or(is_admitted);
        match passes {
            true => self.keeper.told(&asked),
            false => self.limiter.restore(&self.rule, identity, 1),
        }
        passes
    }

    /// Asks so often, and tells how many were admitted.
    pub async fn drain(&self, times: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..times {
            admitted += u64::from(self.is_admitted().await);
        }
        admitted
    }
}

pub fn is_admitted(answered: Answered) -> bool {
    match answered {
        Answered::Decided(decision, _) => decision.is_allowed(),
        Answered::Uncounted => true,
        Answered::Unavailable(_) => false,
    }
}

pub fn tokens(server: &Server) -> Option<i64> {
    server.ask(&["HGET", KEY, "tokens"])
}
