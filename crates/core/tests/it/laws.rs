//! What every algorithm promises, whatever its figures.

use proptest::prelude::*;
use tollgate_core::{Counter, Limit, Rate, Refusal, Time};

use crate::traces::{
    BEGIN, Step, earlier, later, limit_and_steps, limit_or_quota_and_steps, meter, refilled_in,
    steps, steps_within,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_caller_that_waits_exactly_as_told_passes_and_not_a_nanosecond_sooner(
        (limit, steps) in limit_and_steps()
    ) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        for Step { after, cost } in steps {
            now = later(now, after);
            match counter.take(cost, now).refusal {
                None => {}
                Some(Refusal::Never) => prop_assert!(cost > counter.limit().capacity()),
                Some(Refusal::Wait(nanos)) => {
                    prop_assert!(nanos > 0);
                    if now.as_nanos().saturating_add(nanos) < Time::MAX.as_nanos() {
                        prop_assert!(counter.peek(cost, later(now, nanos)).is_allowed());
                        prop_assert!(!counter.peek(cost, later(now, nanos - 1)).is_allowed());
                    }
                }
            }
        }
    }

    #[test]
    fn remaining_is_the_largest_cost_that_would_pass((limit, steps) in limit_and_steps()) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        for Step { after, cost } in steps {
            now = later(now, after);
            let standing = counter.take(cost, now).standing;
            prop_assert!(standing.remaining <= standing.limit);
            prop_assert!(standing.remaining == 0 || counter.peek(standing.remaining, now).is_allowed());
            prop_assert!(!counter.peek(standing.remaining + 1, now).is_allowed());
        }
    }

    #[test]
    fn at_reset_everything_is_there_again((limit, steps) in limit_and_steps()) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        for Step { after, cost } in steps {
            now = later(now, after);
            let standing = counter.take(cost, now).standing;
            let reset = now + standing.reset_after;
            if reset < Time::MAX {
                prop_assert_eq!(counter.standing(reset).remaining, standing.limit);
            }
            if standing.remaining < standing.limit && reset < Time::MAX {
                let before = counter.standing(earlier(reset, 1));
                // The weight of a sliding window's last token rounds up until it is gone.
                prop_assert!(before.remaining < standing.limit);
            }
        }
    }

    #[test]
    fn refused_charge_and_peek_consume_nothing((limit, steps) in limit_and_steps()) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        for Step { after, cost } in steps {
            now = later(now, after);
            let before = counter.standing(now);
            let peeked = counter.peek(cost, now);
            prop_assert_eq!(counter.standing(now), before);
            let taken = counter.take(cost, now);
            prop_assert_eq!(peeked, taken);
            if taken.is_allowed() {
                prop_assert!(taken.standing.remaining <= before.remaining - cost);
            } else {
                prop_assert_eq!(taken.standing, before);
            }
        }
    }

    /// Over every interval of length T at most capacity + rate · T, to the token.
    #[test]
    fn meters_admit_at_most_capacity_and_rate_over_every_interval(
        ((rate, capacity, limit), steps) in meter().prop_flat_map(|m| {
            let steps = steps(m.1);
            (Just(m), steps)
        })
    ) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        let mut admitted: Vec<(Time, u64)> = Vec::new();
        for Step { after, cost } in steps {
            now = later(now, after);
            if counter.take(cost, now).is_allowed() {
                admitted.push((now, cost));
            }
        }
        for (i, &(from, _)) in admitted.iter().enumerate() {
            let mut sum = 0u128;
            for &(to, cost) in &admitted[i..] {
                sum += u128::from(cost);
                prop_assert!(within(sum, rate, capacity, from, to));
            }
        }
    }

    /// Time that stands still, jumps or goes backwards grants nothing: the same bound holds over the
    /// whole span of moments seen.
    #[test]
    fn time_going_backwards_grants_nothing(
        ((rate, capacity, limit), steps, back) in meter().prop_flat_map(|m| {
            // Moments as far apart as it takes to refill: what is granted must show beside what is earned.
            let steps = steps_within(m.1, refilled_in(m.0, m.1));
            (Just(m), steps, proptest::collection::vec(any::<bool>(), 60))
        })
    ) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        let (mut first, mut last, mut sum) = (BEGIN, BEGIN, 0u128);
        for (Step { after, cost }, back) in steps.into_iter().zip(back) {
            now = if back { earlier(now, after) } else { later(now, after) };
            (first, last) = (first.min(now), last.max(now));
            if counter.take(cost, now).is_allowed() {
                sum += u128::from(cost);
            }
        }
        prop_assert!(within(sum, rate, capacity, first, last));
    }

    /// The same for every algorithm: a moment before the latest charge never shows more than that charge's, and
    /// what is charged in it is missing from it.
    #[test]
    fn an_earlier_moment_never_shows_more(
        ((limit, steps), back) in (limit_or_quota_and_steps(), proptest::collection::vec(any::<bool>(), 60))
    ) {
        let (mut counter, mut now) = (Counter::new(limit), BEGIN);
        counter.take(1, now);
        let mut latest = now;
        for (Step { after, cost }, back) in steps.into_iter().zip(back) {
            now = if back { earlier(now, after) } else { later(now, after) };
            let seen = latest.max(now);
            let before = counter.standing(seen).remaining;
            prop_assert!(counter.standing(now).remaining <= before);
            let taken = counter.take(cost, now);
            let left = counter.standing(seen).remaining;
            prop_assert!(counter.standing(now).remaining <= left);
            match taken.is_allowed() {
                true => prop_assert!(left <= before - cost),
                false => prop_assert_eq!(left, before),
            }
            latest = if taken.is_allowed() { seen } else { latest };
        }
    }

    #[test]
    fn no_moment_and_no_cost_panics(
        (limit, _) in limit_and_steps(),
        asked in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..40)
    ) {
        let mut counter = Counter::new(limit);
        for (nanos, cost, force) in asked {
            let now = Time::from_nanos(nanos);
            if force {
                let receipt = counter.charge(cost, now);
                if cost % 2 == 0 {
                    counter.give_back(receipt, Time::from_nanos(nanos.rotate_left(7)));
                }
            } else {
                counter.take(cost, now);
            }
            let standing = counter.standing(now);
            prop_assert!(standing.remaining <= standing.limit);
        }
    }
}

/// `sum ≤ capacity + rate · (to − from)`, exactly.
fn within(sum: u128, rate: Rate, capacity: u64, from: Time, to: Time) -> bool {
    let window = u128::from(rate.window().nanos());
    let span = u128::from(to.as_nanos() - from.as_nanos());
    sum * window <= u128::from(capacity) * window + u128::from(rate.tokens()) * span
}

/// Asked again the moment it may, a counter admits exactly capacity + rate · T, for ever.
#[test]
fn nothing_drifts_over_millions_of_charges() {
    let awkward = [
        Rate::per_second(3),
        Rate::per_minute(7),
        Rate::per_hour(999_983),
        Rate::per_day(86_399),
        Rate::per_second(999_999_937),
    ];
    for rate in awkward {
        let limit = Limit::token_bucket(rate).burst(11).build().unwrap();
        let (mut counter, mut now, mut admitted) = (Counter::new(limit), BEGIN, 0u128);
        for _ in 0..2_000_000 {
            match counter.take(1, now).refusal {
                None => admitted += 1,
                Some(refusal) => now = now + refusal.retry_after().unwrap(),
            }
        }
        let span = u128::from((now.as_nanos()) - BEGIN.as_nanos());
        let earned = span * u128::from(rate.tokens()) / u128::from(rate.window().nanos());
        let there = u128::from(counter.standing(now).remaining);
        assert_eq!(11 + earned, admitted + there, "{rate}");
    }
}
