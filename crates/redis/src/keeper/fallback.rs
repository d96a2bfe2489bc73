//! What decides while Redis cannot be asked.
//!
//! With `local_only` a node has its fair share of the limit: as much of it as there were nodes when they were last counted, and
//! at the beginning no more than its share of what was last known to be left. What was admitted so and time has not paid off
//! is charged when Redis is back, so that nobody is granted it a second time. Until that is done, and until Redis has said
//! anew what is left, the share goes on as it is: it fills up with time, however often Redis comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tollgate_core::{Kind, Limit, Rate, Window};
use tollgate_engine::{Before, Clock, Decision, Identity, Limiter, Rule};
use tollgate_gate::elsewhere::{Answered, Counter, Mark};
use tollgate_policy::compile::PlacedLimit;
use tollgate_policy::shapes::Fallback;

use super::Shared;
use super::outage::{Known, Outage};
use crate::Figures;

/// What becomes of requests while Redis cannot be asked, and how many it became of.
#[derive(Debug)]
pub(super) struct Outages {
    fallback: Fallback,
    decided: AtomicU64,
    /// Counters that were decided here and of which somebody has to be told, at most so many.
    owing: Mutex<Vec<Owing>>,
    most_owing: AtomicUsize,
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
    pub(super) fn new(fallback: Fallback, most_owing: usize) -> Outages {
        let (decided, most_owing) = (AtomicU64::new(0), AtomicUsize::new(most_owing));
        Outages { fallback, decided, owing: Mutex::default(), most_owing }
    }

    /// At most so many from now on.
    pub(super) fn set_most_owing(&self, most_owing: usize) {
        self.most_owing.store(most_owing, Relaxed);
    }

    /// Those of which somebody has to be told.
    pub(super) fn take_owing(&self) -> Vec<Owing> {
        std::mem::take(&mut self.owing.lock())
    }

    /// How many there are of them.
    pub(super) fn owing(&self) -> usize {
        self.owing.lock().len()
    }

    /// Of this one somebody has still to be told.
    pub(super) fn put_back(&self, owing: Owing) {
        self.owing.lock().push(owing);
    }

    /// Takes note of one; `false` if there are too many.
    fn list(&self, owing: Owing) -> bool {
        let mut all = self.owing.lock();
        let has_room = all.len() < self.most_owing.load(Relaxed);
        if has_room {
            all.push(owing);
        }
        has_room
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

impl<C: Clock + 'static> Shared<C> {
    /// Decides a charge that Redis cannot be asked about. `owing` tells of whom somebody has to be told when it is back, and
    /// `left` what a counter that this node decides by itself had left before it.
    #[cold]
    pub(super) fn fall_back(
        &self,
        share: &Share,
        (outage, identity): (&Outage, Identity),
        (cost, owing, left): (u64, impl FnOnce() -> Owing, Option<u64>),
    ) -> Answered {
        self.outages.decided.fetch_add(1, Relaxed);
        match self.outages.fallback {
            Fallback::FailOpen => Answered::Uncounted,
            Fallback::FailClosed => {
                Answered::Unavailable("Limits that nodes share cannot be counted at present.")
            }
            Fallback::LocalOnly => {
                let decision = self.by_share(share, (outage, identity), (cost, owing, left));
                Answered::Decided(decision, BY_SHARE)
            }
        }
    }

    /// Of a counter that this node decides by itself so much is left here, before this charge. The others have as much, so
    /// the node's share is at most its share of that. It is only lowered, and what the node admits lowers what is left by
    /// less than its share: so it is the same however often this is said, and outages which follow one another grant nothing
    /// anew. Where nothing was used the share is as it is.
    fn share_what_is_left(&self, share: &Share, (rule, identity): (&Rule, Identity), left: u64) {
        // Else what is left says nothing of how much is used, or comes back at another time than the share's.
        let kind = share.limit.kind();
        let is_alike = kind.has_burst() || matches!(kind, Kind::FixedWindow | Kind::Quota);
        if is_alike && !share.limit.is_paced() && left < share.limit.capacity() {
            let most = left / self.nodes.count();
            self.limiter.absorb_by(rule, identity, Before::Kept, |has| has.saturating_sub(most));
        }
    }

    fn by_share(
        &self,
        share: &Share,
        (outage, identity): (&Outage, Identity),
        (cost, owing, left): (u64, impl FnOnce() -> Owing, Option<u64>),
    ) -> Decision {
        let nodes = self.nodes.count();
        let rule = share.rule(&self.limiter, nodes);
        let mut untold = outage.untold.lock();
        if !untold.is_listed {
            // What was known is used once: of the next outage it would say nothing.
            let mut known = outage.common.known.lock();
            let is_begun = !outage.common.is_settled();
            let left = if is_begun { None } else { known.take() };
            let now = self.limiter.clock().now();
            // Of a paced bucket nothing is left for a moment after each charge, which says nothing of how much of it is used.
            let says_what_is_left = |known: &Known| now < known.renewed && !rule.limit().is_paced();
            if let Some(known) = left.filter(says_what_is_left) {
                // With other figures a bucket keeps its tokens, and a window its count.
                let is_bucket = share.limit.kind().has_burst();
                let left = known.remaining.min(share.limit.capacity()) / nodes;
                let used = known.used.div_ceil(nodes);
                let rest = |whole: u64| if is_bucket { whole.saturating_sub(left) } else { used };
                self.limiter.absorb_by(&rule, identity, Before::Forgotten, rest);
            }
            untold.is_listed = match owing() {
                Owing::Nothing => true,
                owing => self.outages.list(owing),
            };
            if untold.is_listed {
                outage.common.listed.fetch_add(1, Relaxed);
            }
        }
        if let Some(left) = left {
            self.share_what_is_left(share, (&rule, identity), left);
        }
        let decision = self.limiter.decide(&rule, identity, cost);
        if decision.is_allowed() {
            untold.admitted = untold.admitted.saturating_add(cost);
        }
        untold.share = Some(rule);
        decision
    }

    /// Makes a node's share of a counter new again, as the counter is.
    pub(super) fn renew(&self, share: &Share, identity: Identity) {
        self.limiter.reset(&share.rule(&self.limiter, self.nodes.count()), identity);
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
        let mut untold = outage.untold.lock();
        untold.admitted = untold.admitted.saturating_sub(cost);
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
            let share = Limit::of(kind, rate).burst(part(limit.capacity()));
            if limit.is_paced() { share.paced().build() } else { share.build() }
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
        let paced = Limit::leaky_bucket(Rate::per_second(7)).burst(100).paced().build().unwrap();
        assert!(share_of(&paced, 4).is_paced());
        assert!(!share_of(&bucket, 4).is_paced());
    }
}
