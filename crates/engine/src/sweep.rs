//! Looking through all counters now and then, a part at a time.
//!
//! Nothing is asked of a request here. A pass carries counters over to the figures in force, gives back the memory of those
//! that equal new ones, and then knows which rules no counter bears: what is kept of those that nobody holds is freed.

use std::time::Duration;

use tollgate_core::Time;

use crate::counters::Counters;
use crate::eviction::UNUSED_FOR;
use crate::rules::Unheld;
use crate::sync::Ordering::Relaxed;

/// In how many parts a pass through a store is made, however large that is.
const PARTS: usize = 128;

/// How far a pass through all shards has come.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    next_shard: usize,
    /// The rules that nobody held when it began.
    unheld: Vec<Unheld>,
    /// By number, as far as those of the unheld reach: whether a counter bears it.
    in_use: Vec<bool>,
    evicted: usize,
    /// For how long a counter must have equalled a new one to be forgotten.
    unused_for: Duration,
}

impl Counters {
    /// Looks through every shard.
    pub(crate) fn sweep(&self, now: Time) -> usize {
        let mut pass = Pass::default();
        while self.sweep_part(&mut pass, now) {}
        pass.evicted
    }

    /// Looks through the next few shards, and tells whether the pass goes on. If somebody is at it already it need not
    /// be done again.
    pub(crate) fn sweep_next(&self, now: Time) -> bool {
        self.pass.try_lock().is_some_and(|mut pass| {
            // A full store would give at once to others what whoever comes often needs again.
            pass.unused_for = UNUSED_FOR;
            self.sweep_part(&mut pass, now)
        })
    }

    fn sweep_part(&self, pass: &mut Pass, now: Time) -> bool {
        if pass.next_shard == 0 {
            let (unheld, unused_for) = (self.rules.read().unheld(), pass.unused_for);
            *pass = Pass { unheld, unused_for, ..Pass::default() };
            let numbers = pass.unheld.iter().map(|unheld| unheld.id as usize + 1);
            pass.in_use = vec![false; numbers.max().unwrap_or(0)];
        }
        let until = (pass.next_shard + self.shards.len().div_ceil(PARTS)).min(self.shards.len());
        for shard in pass.next_shard..until {
            self.sweep_shard(shard, pass, now);
        }
        pass.next_shard = until % self.shards.len();
        if pass.next_shard > 0 {
            return true;
        }
        let is_free = |unheld: &Unheld| !pass.in_use[unheld.id as usize];
        let mut rules = self.rules.write();
        pass.unheld.drain(..).filter(is_free).for_each(|unheld| rules.release(unheld));
        false
    }

    fn sweep_shard(&self, index: usize, pass: &mut Pass, now: Time) {
        let shard = &self.shards[index];
        let mut table = shard.lock();
        let rules = self.rules.read();
        let mut soonest = Time::MAX;
        let gone = table.retain(|slot| {
            let (id, state) = rules.latest(slot.rule, slot.state());
            slot.rule = id;
            slot.set_state(state);
            let renewed = rules.renewed_at(id, state);
            if renewed + pass.unused_for <= now {
                return false;
            }
            soonest = soonest.min(renewed);
            if let Some(in_use) = pass.in_use.get_mut(id as usize) {
                *in_use = true;
            }
            true
        });
        self.none_before_in[index].store(soonest.as_nanos(), Relaxed);
        self.forgot(gone);
        pass.evicted += gone;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::{Limit, Rate};

    use crate::{FakeClock, Limiter};

    fn bucket(rate: u64) -> Limit {
        Limit::token_bucket(Rate::per_second(rate)).burst(100).build().expect("good figures")
    }

    fn limiter() -> (FakeClock, Limiter<FakeClock>) {
        let clock = FakeClock::default();
        (clock.clone(), Limiter::with_clock(clock, 10_000))
    }

    /// In as many parts as it takes, at most as many as there are shards.
    fn pass(limiter: &Limiter<FakeClock>) {
        let parts = (0..limiter.counters().shards.len()).take_while(|_| limiter.sweep_next());
        assert!(parts.count() < limiter.counters().shards.len());
    }

    fn rules(limiter: &Limiter<FakeClock>) -> usize {
        limiter.counters().rules.read().len()
    }

    #[test]
    fn rules_that_nobody_holds_are_freed_part_by_part_and_counters_keep_their_tokens() {
        let (clock, limiter) = limiter();
        let ids: Vec<_> = (0..500u64).map(|n| limiter.identity(&n)).collect();
        let old = limiter.define("user", bucket(1));
        ids.iter().for_each(|id| limiter.check(&old, *id, 50).expect("full"));
        drop(old);
        let new = limiter.define("user", bucket(2));
        for n in 0..5 {
            let gone = limiter.define(&format!("gone {n}"), bucket(1));
            limiter.check(&gone, ids[0], 1).expect("full");
        }
        // Two rules of one counter, and five whose counters are not renewed yet.
        assert_eq!(rules(&limiter), 7);
        pass(&limiter);
        assert_eq!(rules(&limiter), 6);
        clock.advance(Duration::from_secs(10));
        pass(&limiter);
        assert_eq!(rules(&limiter), 1);
        assert!(ids.iter().all(|id| limiter.peek(&new, *id).remaining == 70));
    }

    #[test]
    fn whoever_only_defines_keeps_a_bounded_number_of_rules() {
        let (_, limiter) = limiter();
        let mut most = 0;
        for n in 0..20_000 {
            let rule = limiter.define("user", bucket(1 + n % 2));
            limiter.check(&rule, limiter.identity(&n), u64::from(n < 100)).expect("full");
            most = most.max(rules(&limiter));
        }
        assert!(most <= 3_000, "{most}");
    }

    /// A number that was freed and given to another rule is not freed on account of the first.
    #[test]
    fn a_pass_frees_no_number_that_was_given_away_meanwhile() {
        let (_, limiter) = limiter();
        drop(limiter.define("first", bucket(1)));
        assert!(limiter.sweep_next());
        limiter.sweep();
        let second = limiter.define("second", bucket(1));
        // Only in shards that the pass has been through.
        let all = (0..10_000u64).map(|n| limiter.identity(&n));
        let passed = limiter.counters().pass.lock().next_shard;
        let shard_of = |id| limiter.counters().shard_of(second.key(id));
        let ids: Vec<_> = all.filter(|id| shard_of(*id) < passed).collect();
        ids.iter().for_each(|id| limiter.check(&second, *id, 10).expect("full"));
        drop(second);
        pass(&limiter);
        assert_eq!(rules(&limiter), 1);
        let second = limiter.define("second", bucket(1));
        assert!(ids.iter().all(|id| limiter.peek(&second, *id).remaining == 90));
    }
}
