//! Counters that the limiter decides, and of which others are told.

use std::fmt;
use std::sync::Arc;

use tollgate_engine::{Clock, Decision, Identity};
use tollgate_gate::elsewhere::{Answered, Asked, Counter, Keeper, Manner, Mark, Waiting, Whose};

use super::Terms;
use super::fallback::Owing;
use super::outage::Outage;
use crate::hybrid::Account;

/// Keeps the hybrid counters of one limit.
pub(super) struct HybridKeeper<C>(pub(super) Arc<Terms<C>>);

impl<C> fmt::Debug for HybridKeeper<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One hybrid counter.
#[derive(Debug)]
pub(super) struct Told {
    key: String,
    identity: Identity,
    account: Arc<Account>,
    outage: Outage,
}

impl<C: Clock + 'static> Keeper for HybridKeeper<C> {
    fn manner(&self) -> Manner {
        Manner::Told
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        let Terms { shared, figures, rule, .. } = &*self.0;
        let make = || {
            let key = shared.key(&(whose.name)());
            let account = shared.hybrid.account(&key, (rule, whose.identity), figures).ok_or(())?;
            let (identity, outage) = (whose.identity, Outage::new());
            Ok(Told { key, identity, account, outage })
        };
        // Of more counters than may be in use the others are not told; the limiter decides all the same.
        let told = shared.told.get_or(whose.hash, make, || ());
        told.map(|told| Counter::new(told)).map_err(|()| {
            shared.hybrid.note_unshared();
            Answered::Uncounted
        })
    }

    #[inline]
    fn is_stale(&self, asked: &Asked<'_>) -> bool {
        let told = asked.counter.get::<Told>();
        told.is_some_and(|told| self.0.shared.hybrid.is_stale(&told.account, asked.now))
    }

    fn refresh<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, ()> {
        Box::pin(async move {
            let shared = &self.0.shared;
            if let Some(told) = asked.counter.get::<Told>() {
                let deadline = shared.deadline(asked.now);
                shared.hybrid.refresh(&told.account, asked.now, deadline).await;
            }
        })
    }

    #[inline]
    fn try_charge(&self, asked: &Asked<'_>) -> Option<Answered> {
        let Terms { shared, share, rule, .. } = &*self.0;
        let told = asked.counter.get::<Told>()?;
        if shared.hybrid.is_heard(&told.account) {
            return None;
        }
        // After an outage nobody may ask for it until it is told, and whoever is refused tells nothing.
        shared.hybrid.tell_soon(&told.account);
        // The limiter has charged this request already: for one that it refuses nobody is asked.
        let left = shared.limiter.peek(rule, told.identity).remaining.saturating_add(asked.cost);
        // What is admitted meanwhile stands in the account, and is told when that is possible.
        let of = (&told.outage, told.identity);
        Some(shared.fall_back(share, of, (asked.cost, || Owing::Nothing, Some(left))))
    }

    fn give_back(&self, asked: &Asked<'_>, _: Mark) {
        let Terms { shared, share, .. } = &*self.0;
        if let Some(told) = asked.counter.get::<Told>() {
            shared.restore(share, (&told.outage, told.identity), asked.cost);
        }
    }

    #[inline]
    fn told(&self, asked: &Asked<'_>) {
        let Some(told) = asked.counter.get::<Told>() else { return };
        let Terms { shared, figures, rule, .. } = &*self.0;
        shared.hybrid.consumed_of(&told.account, (rule, figures), asked.cost);
    }

    fn untold(&self, asked: &Asked<'_>) {
        if let Some(told) = asked.counter.get::<Told>() {
            self.0.shared.hybrid.given_back_of(&told.account, asked.cost);
        }
    }

    fn look<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        // The limiter has been asked.
        Box::pin(std::future::ready(None))
    }

    fn reset<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(async move {
            let Some(told) = asked.counter.get::<Told>() else { return false };
            let Terms { shared, share, figures, .. } = &*self.0;
            shared.renew(share, told.identity);
            shared.hybrid.reset(&told.key, figures).await.is_ok()
        })
    }
}
