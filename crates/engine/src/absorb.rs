//! Charges that others have made: a counter that several nodes share is told of them afterwards.

use tollgate_core::Time;

use crate::cell::Cell;
use crate::chain::{Chain, Charge, Room};
use crate::counters::Counters;
use crate::locked::Locked;
use crate::slots::Slot;
use crate::sync::Ordering::Relaxed;
use crate::{Clock, Identity, Limiter, Rule};

impl<C: Clock> Limiter<C> {
    /// Charges what was consumed elsewhere, without asking. More than is there leaves a debt, which later time pays off
    /// before anything passes here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_engine::{FakeClock, Limit, Limiter, Rate};
    ///
    /// # fn main() -> Result<(), tollgate_engine::LimitError> {
    /// let clock = FakeClock::default();
    /// let limiter = Limiter::with_clock(clock.clone(), 1000);
    /// let rule = limiter.define("user", Limit::token_bucket(Rate::per_second(10)).burst(20).build()?);
    /// let alice = limiter.identity("alice");
    ///
    /// limiter.absorb(&rule, alice, 25);
    /// clock.advance(Duration::from_millis(500));
    /// assert!(limiter.check(&rule, alice, 1).is_err());
    /// clock.advance(Duration::from_millis(100));
    /// assert!(limiter.check(&rule, alice, 1).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn absorb(&self, rule: &Rule, identity: Identity, consumed: u64) {
        let told = Told { before: Before::Kept, consumed: |_| consumed, is_own: false };
        self.counters().absorb(Charge::new(rule, identity).cost(0), &told, self.clock().now());
    }

    /// Charges what is to be consumed of what remains, in one step: nobody finds the counter in between, as one that was
    /// made new and not charged yet. An identity that is counted with others, because the store is full, is passed over:
    /// what remains there is not its own.
    ///
    /// `consumed` is called while the counter is locked: it may not ask this limiter for anything.
    ///
    /// ```
    /// use tollgate_engine::{Before, FakeClock, Limit, Limiter, Rate};
    ///
    /// # fn main() -> Result<(), tollgate_engine::LimitError> {
    /// let limiter = Limiter::with_clock(FakeClock::default(), 1000);
    /// let rule = limiter.define("user", Limit::token_bucket(Rate::per_second(10)).burst(20).build()?);
    /// let alice = limiter.identity("alice");
    ///
    /// limiter.absorb(&rule, alice, 25);
    /// limiter.absorb_by(&rule, alice, Before::Forgotten, |remaining| remaining - 3);
    /// assert_eq!(limiter.peek(&rule, alice).remaining, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn absorb_by(
        &self,
        rule: &Rule,
        identity: Identity,
        before: Before,
        consumed: impl Fn(u64) -> u64,
    ) {
        let told = Told { before, consumed, is_own: true };
        self.counters().absorb(Charge::new(rule, identity).cost(0), &told, self.clock().now());
    }

    /// Puts back what was charged a moment ago to one counter: of a meter, what time has not paid off since.
    pub fn restore(&self, rule: &Rule, identity: Identity, cost: u64) {
        let mut chain = Chain::new();
        chain.push(Charge::new(rule, identity).cost(0));
        let now = self.clock().now();
        self.counters().look(&mut chain, now);
        chain.charges[0].cost = cost;
        chain.charges[0].is_charged = cost > 0;
        self.counters().give_back(&mut chain, 0..1, || self.clock().now());
    }
}

/// What becomes of a counter's past when it is told of charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It stands.
    Kept,
    /// The counter is made new first.
    Forgotten,
}

/// What a counter is told.
struct Told<F> {
    before: Before,
    /// What to charge where so much remains.
    consumed: F,
    /// Whether only a counter of the identity's own is meant.
    is_own: bool,
}

impl Counters {
    fn absorb<F: Fn(u64) -> u64>(&self, charge: Charge<'_>, told: &Told<F>, now: Time) {
        let mut chain = Chain::new();
        chain.push(charge);
        let mut locked = Locked::none();
        loop {
            locked.lock(self, &mut chain.charges);
            let (charges, successors) = (&mut chain.charges[..], &mut chain.successors);
            let charge = &mut charges[0];
            let table = locked.table(charge);
            let place = match table.find(charge.key()) {
                Ok(place) => {
                    if !charge.rule.decides(table.slot(place)) {
                        self.reconcile(table.slot(place), charge, successors, now);
                    }
                    place
                }
                Err(_) => {
                    self.succeed(charge, successors);
                    // What is not there is new, and need not be there if it is not charged.
                    charge.cost = (told.consumed)(charge.rule(successors).limit().capacity());
                    if charge.cost == 0 {
                        return;
                    }
                    if charge.room != Room::Overflow && !self.has_room(table, charge.key(), now) {
                        locked.release();
                        if !told.is_own {
                            self.find_room(charge, now);
                            continue;
                        }
                        self.find_room_to_look(charge, now);
                        if charge.room == Room::Overflow {
                            return;
                        }
                        continue;
                    }
                    self.held.fetch_add(1, Relaxed);
                    // Making room may have moved others.
                    let (Ok(place) | Err(place)) = table.find(charge.key());
                    table.insert(place, Slot::new(charge.key(), charge.rule(successors).id))
                }
            };
            let mut cell = Cell::new(table, place, charge.rule(successors).limit());
            if told.before == Before::Forgotten {
                cell.renew();
            }
            match (told.consumed)(cell.remaining(now)) {
                0 => {}
                cost => cell.charge(cost, now),
            }
            self.note_renewal(charge.key(), || cell.renewed_at());
            return;
        }
    }
}
