//! What decides while Redis cannot be asked.
//!
//! With `local_only` a node has its fair share of the limit: as much of it as there were nodes when they were last counted, and
//! at the beginning no more than its share of what was last known to be left. What was admitted so and time has not paid off
//! is charged when Redis is back, so that nobody is granted it a second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tollgate_core::{Kind, Limit, Rate, Window};
use tollgate_engine::{Clock, Decision, Identity, Limiter, Rule};
use tollgate_gate::elsewhere::{Answered, Counter, Mark};
use tollgate_policy::compile::PlacedLimit;
use tollgate_policy::shapes::Fallback;

use super::Shared;
use crate::Figures;

/// What becomes of requests while Redis cannot be asked, and how many it became of.
#[derive(Debug)]
pub(super) struct Outages {
    fallback: Fallback,
    decided: AtomicU64,
    /// Counters that were decided here and of which somebody has to be told.
    owing: Mutex<Vec<Owing>>,
}

/// A counter of which somebody has to be told when Redis is back.
#[derive(Debug)]
pub(super) enum Owing {
    Strict(Counter, Arc<Figures>),
    Leased(Counter),
    /// It is told by other means.
    Nothing,
}

/// A charge that the fallback has made.
pub(super) const BY_SHARE: Mark = Mark(1);

impl Outages {
    pub(super) fn new(fallback: Fallback) -> Outages {
        Outages { fallback, decided: AtomicU64::new(0), owing: Mutex::default() }
    }

    /// Those of which somebody has to be told, once.
    pub(super) fn take_owing(&self) -> Vec<Owing> {
        std::mem::take(&mut self.owing.lock())
    }

    pub(super) fn decided(&self) -> u64 {
        self.decided.load(Relaxed)
    }
}

/// A node's share of one limit.
#[derive(Debug)]
pub(super) struct Share {
    name: String,
    limit: Limit,
    /// For how many nodes it was last made.
    made: Mutex<Option<(u64, Arc<Rule>)>>,
}

impl Share {
    pub(super) fn new(limit: &PlacedLimit) -> Share {
        Share {
            name: format!("share:{}", limit.counter()),
            limit: limit.limit().clone(),
            made: Mutex::new(None),
        }
    }

    /// The limit of one of so many nodes.
    fn rule<C: Clock>(&self, limiter: &Limiter<C>, nodes: u64) -> Arc<Rule> {
        let mut made = self.made.lock();
        match &*made {
            Some((of, rule)) if *of == nodes => Arc::clone(rule),
            _ => {
                let rule = limiter.define(&self.name, share_of(&self.limit, nodes));
                *made = Some((nodes, Arc::clone(&rule)));
                rule
            }
        }
    }
}

/// What one counter has to do with outages.
#[derive(Debug)]
pub(super) struct Outage {
    /// Which outage it was last decided in.
    which: AtomicU64,
    /// What was admitted in it.
    admitted: AtomicU64,
    /// What Redis last said was left.
    known: AtomicU64,
    /// The share it was decided by.
    share: Mutex<Option<Arc<Rule>>>,
}

const UNKNOWN: u64 = u64::MAX;

impl Outage {
    pub(super) fn new() -> Outage {
        Outage {
            which: AtomicU64::new(UNKNOWN),
            admitted: AtomicU64::new(0),
            known: AtomicU64::new(UNKNOWN),
            share: Mutex::new(None),
        }
    }

    pub(super) fn note(&self, remaining: u64) {
        self.known.store(remaining, Relaxed);
    }

    /// Whether nothing has to be told of it.
    pub(super) fn is_settled(&self) -> bool {
        self.admitted.load(Relaxed) == 0
    }

    /// What was admitted in an outage that is over and time has not paid off, once.
    pub(super) fn take_owed<C: Clock>(&self, limiter: &Limiter<C>, identity: Identity) -> u64 {
        let admitted = self.admitted.swap(0, Relaxed);
        let share = self.share.lock().take();
        let Some(share) = share.filter(|_| admitted > 0) else { return 0 };
        let standing = limiter.peek(&share, identity);
        admitted.min(standing.limit.saturating_sub(standing.remaining))
    }
}

impl<C: Clock + 'static> Shared<C> {
    /// Decides a charge that Redis cannot be asked about. `owing` tells of whom somebody has to be told when it is back.
    #[cold]
    pub(super) fn fall_back(
        &self,
        share: &Share,
        (outage, identity): (&Outage, Identity),
        (cost, owing): (u64, impl FnOnce() -> Owing),
    ) -> Answered {
        self.outages.decided.fetch_add(1, Relaxed);
        match self.outages.fallback {
            Fallback::FailOpen => Answered::Uncounted,
            Fallback::FailClosed => {
                Answered::Unavailable("Limits that nodes share cannot be counted at present.")
            }
            Fallback::LocalOnly => {
                let decision = self.by_share(share, (outage, identity), (cost, owing));
                Answered::Decided(decision, BY_SHARE)
            }
        }
    }

    fn by_share(
        &self,
        share: &Share,
        (outage, identity): (&Outage, Identity),
        (cost, owing): (u64, impl FnOnce() -> Owing),
    ) -> Decision {
        let nodes = self.nodes.count();
        let rule = share.rule(&self.limiter, nodes);
        let which = self.strict.times_opened();
        if outage.which.swap(which, Relaxed) != which {
            self.limiter.reset(&rule, identity);
            let (whole, known) = (rule.limit().capacity(), outage.known.load(Relaxed));
            if known != UNKNOWN {
                self.limiter.absorb(&rule, identity, whole.saturating_sub(known / nodes));
            }
            *outage.share.lock() = Some(Arc::clone(&rule));
            match owing() {
                Owing::Nothing => {}
                owing => self.outages.owing.lock().push(owing),
            }
        }
        let decision = self.limiter.decide(&rule, identity, cost);
        if decision.is_allowed() {
            outage.admitted.fetch_add(cost, Relaxed);
        }
        decision
    }

    /// Gives back what the fallback has charged.
    pub(super) fn restore(
        &self,
        share: &Share,
        (outage, identity): (&Outage, Identity),
        cost: u64,
    ) {
        let rule = share.rule(&self.limiter, self.nodes.count());
        self.limiter.restore(&rule, identity, cost);
        let less = |admitted: u64| Some(admitted.saturating_sub(cost));
        let _ = outage.admitted.fetch_update(Relaxed, Relaxed, less);
    }
}

/// A fair share of a limit: its rate and its capacity divided among so many, at least 1.
fn share_of(limit: &Limit, nodes: u64) -> Limit {
    let part = |whole: u64| (whole / nodes).max(1);
    let scaled = match (limit.kind(), limit.rate(), limit.calendar()) {
        (Kind::Quota, _, Some((period, zone))) => {
            Limit::quota(part(limit.capacity()), period, zone)
        }
        (kind, Some(rate), _) if kind.has_burst() => {
            // By the day, so that little is lost by rounding.
            let a_day = Window::Day.nanos() / rate.window().nanos();
            let rate = Rate::per_day(part(rate.tokens().saturating_mul(a_day)));
            Limit::of(kind, rate).burst(part(limit.capacity())).build()
        }
        (kind, Some(rate), _) => {
            Limit::of(kind, Rate::new(part(rate.tokens()), rate.window())).build()
        }
        (_, None, _) => return limit.clone(),
    };
    scaled.unwrap_or_else(|_| limit.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit() {
        let bucket = Limit::token_bucket(Rate::per_second(7)).burst(100).build().unwrap();
        let share = share_of(&bucket, 4);
        assert_eq!(share.capacity(), 25);
        assert_eq!(share.rate(), Some(Rate::per_day(7 * 86_400 / 4)));
        let window = Limit::fixed_window(Rate::per_minute(10)).build().unwrap();
        assert_eq!(share_of(&window, 4).capacity(), 2);
        let quota = Limit::quota(1000, tollgate_core::Period::Month, "UTC").unwrap();
        assert_eq!(share_of(&quota, 3).capacity(), 333);
        assert_eq!(share_of(&quota, 3000).capacity(), 1);
        assert_eq!(share_of(&bucket, 1).capacity(), 100);
    }
}
