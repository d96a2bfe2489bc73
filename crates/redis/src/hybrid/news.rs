//! What an answer does to this node's own counter.

use tollgate_engine::{Before, Clock, Identity, Limiter, Rule, Standing};

use crate::ledger::News;

impl News {
    /// Does to this node's own counter what the news mean to it.
    pub fn apply<C: Clock>(self, limiter: &Limiter<C>, rule: &Rule, identity: Identity) {
        let before = match self {
            News::Others(consumed, _) => return limiter.absorb(rule, identity, consumed),
            // How deep in debt it is already does not show in what remains: it is not to owe the same a second time.
            News::Left(..0) | News::Anew(_) => Before::Forgotten,
            News::Left(_) => Before::Kept,
        };
        limiter.absorb_by(rule, identity, before, |remaining| {
            self.charge(i64::try_from(remaining).unwrap_or(i64::MAX))
        });
    }

    /// The same after a rest or a long silence: others' charges are made up for no further than to what Redis has left.
    ///
    /// That is as safe: Redis has charged all that it was told to a counter that is never above its capacity, so whoever has
    /// no more than it has, less what it was not told, keeps the limit. And it is all that is owed: while its own counter was
    /// full, time brought the node nothing, so all that the others did would lock it out for as long again.
    ///
    /// Only then: charges that a request in doubt holds here are in no account yet, and would be taken for some of the others'.
    pub fn catch_up<C: Clock>(self, limiter: &Limiter<C>, rule: &Rule, identity: Identity) {
        if !matches!(self, News::Others(..)) {
            return self.apply(limiter, rule, identity);
        }
        let remaining = remaining(rule, &limiter.peek(rule, identity));
        limiter.absorb(rule, identity, self.charge(remaining));
    }
}

/// What remains of a counter, and of a bucket in debt how deep it is: that shows in when it is full again, as does what is left
/// of one that lets nothing out for a moment after each charge. A window's debt does not show; it ends with the window.
fn remaining(rule: &Rule, standing: &Standing) -> i64 {
    let limit = rule.limit();
    let signed = |tokens: u128| i64::try_from(tokens).unwrap_or(i64::MAX);
    match limit.rate() {
        Some(rate) if limit.kind().has_burst() && standing.remaining == 0 => {
            let missing = standing.reset_after.as_nanos().saturating_mul(rate.tokens().into());
            let missing = missing.div_ceil(rate.window().nanos().into());
            signed(standing.limit.into()).saturating_sub(signed(missing))
        }
        _ => signed(standing.remaining.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_engine::{FakeClock, Limit, Rate};

    use super::*;

    #[test]
    fn a_debt_is_no_deeper_than_redis_says() {
        for (is_paced, other) in [(false, 0), (true, 0), (false, 30)] {
            let clock = FakeClock::default();
            let limiter = Limiter::with_clock(clock.clone(), 10);
            let limit = Limit::leaky_bucket(Rate::per_second(10)).burst(20);
            let limit = if is_paced { limit.paced() } else { limit };
            let rule = limiter.define("user", limit.build().unwrap());
            let id = limiter.identity("alice");
            let owes = || limiter.peek(&rule, id).reset_after;
            limiter.absorb(&rule, id, other);
            News::Others(25 - other.min(25), -5).catch_up(&limiter, &rule, id);
            assert_eq!(owes(), Duration::from_millis(2500.max(100 * other)), "as it was told");
            News::Others(1000, -40).catch_up(&limiter, &rule, id);
            assert_eq!(owes(), Duration::from_secs(6), "as Redis says");
            News::Others(1000, -35).catch_up(&limiter, &rule, id);
            assert_eq!(owes(), Duration::from_secs(6), "nothing is forgiven");
            clock.advance(Duration::from_secs(5));
            News::Others(3, -100).catch_up(&limiter, &rule, id);
            assert_eq!(owes(), Duration::from_millis(1300), "as it was told");
        }
    }
}
