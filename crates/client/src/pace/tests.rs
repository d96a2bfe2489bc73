//! What the pace promises, decision by decision.

use proptest::prelude::*;
use tollgate_wire::read::LONGEST;

use super::*;

const SILENCE: Duration = Duration::from_secs(60);

fn seen() -> impl Strategy<Value = Seen> {
    let count = || proptest::option::of(prop_oneof![0u64..200, any::<u64>()]);
    let delay = || {
        let millis = prop_oneof![0u64..5_000, 0..LONGEST.as_millis() as u64];
        proptest::option::of(millis.prop_map(Duration::from_millis))
    };
    ("[ab]", count(), count(), delay(), delay(), any::<bool>()).prop_map(
        |(name, limit, remaining, reset_after, window, is_resource)| {
            let window = window.filter(|window| !window.is_zero());
            Seen { name, limit, remaining, reset_after, window, is_resource }
        },
    )
}

fn answer() -> impl Strategy<Value = (Said, bool, u64, u64)> {
    let retry = proptest::option::of(0u64..LONGEST.as_millis() as u64);
    let limits = proptest::collection::vec(seen(), 0..3);
    let never = proptest::option::of(any::<bool>());
    (limits, retry, never, any::<bool>(), 0u64..2_000, 0u64..50).prop_map(
        |(limits, retry, should_retry, is_refused, after, cost)| {
            let retry_after = retry.map(Duration::from_millis);
            (Said { limits, retry_after, should_retry }, is_refused, after, cost)
        },
    )
}

proptest! {
    /// Whatever a server says: nobody waits longer than the longest silence, and waiting so long is enough.
    #[test]
    fn nothing_said_stalls_for_ever(answers in proptest::collection::vec(answer(), 1..40)) {
        let mut pace = Pace::new(SILENCE, 7);
        let mut now = Time::from_secs(1_800_000_000);
        for (said, is_refused, after, cost) in answers {
            let wait = pace.wait(now, Load::default(), cost);
            prop_assert!(wait <= SILENCE, "{wait:?}");
            if !wait.is_zero() {
                let left = pace.wait(now + SILENCE, Load::default(), cost);
                prop_assert!(left.is_zero(), "{left:?} after {wait:?}");
            }
            let ticket = pace.send(now, cost);
            now = now + Duration::from_millis(after);
            let outcome = if is_refused { Outcome::Refused } else { Outcome::Passed };
            pace.heard(now, ticket, &said, outcome);
        }
    }
}

/// What a hundred clients wait that were told the same at the same time, sorted.
fn waits_after(said: &Said, outcome: Outcome) -> Vec<Duration> {
    let now = Time::from_secs(1_800_000_000);
    let mut waits: Vec<Duration> = (0..100)
        .map(|client| {
            let mut pace = Pace::new(SILENCE, client * 7_919 + 13);
            let ticket = pace.send(now, 1);
            pace.heard(now, ticket, said, outcome);
            pace.wait(now, Load::default(), 1)
        })
        .collect();
    waits.sort_unstable();
    waits
}

/// Everybody later than told, but not by much, and not all at once.
fn assert_spread(waits: &[Duration], told: Duration, most: Duration) {
    let (first, last) = (waits[0], waits[waits.len() - 1]);
    assert!(first >= told && last <= told + most, "{first:?} to {last:?}");
    assert!(last - first > most / 2, "{first:?} to {last:?}");
    let soon = waits.iter().filter(|wait| **wait < told + most / 4).count();
    assert!(soon < waits.len() / 2, "{soon} at once");
}

#[test]
fn not_everybody_is_back_at_once_after_a_reset() {
    let told = Duration::from_secs(30);
    let empty =
        Seen { limit: Some(100), remaining: Some(0), reset_after: Some(told), ..Seen::default() };
    let said = Said { limits: vec![empty], ..Said::default() };
    assert_spread(&waits_after(&said, Outcome::Passed), told, Duration::from_secs(1));
}

#[test]
fn not_everybody_is_back_at_once_after_a_retry_after() {
    let told = Duration::from_secs(5);
    let said = Said { retry_after: Some(told), ..Said::default() };
    assert_spread(&waits_after(&said, Outcome::Refused), told, Duration::from_millis(500));
}

/// A thousand a second of which so many are left.
fn thousand_a_second(remaining: u64) -> Said {
    let second = Some(Duration::from_secs(1));
    let (limit, remaining) = (Some(1_000), Some(remaining));
    let seen = Seen {
        name: "a".to_owned(),
        limit,
        remaining,
        reset_after: second,
        window: second,
        ..Seen::default()
    };
    Said { limits: vec![seen], ..Said::default() }
}

/// A neighbour empties the bucket while forty are on their way. That is one event, and it is over in a moment.
#[test]
fn refusals_of_what_was_sent_together_count_once() {
    let mut pace = Pace::new(SILENCE, 7);
    let mut now = Time::from_secs(1_800_000_000);
    for _ in 0..20 {
        let tickets: Vec<Ticket> = (0..40).map(|_| pace.send(now, 1)).collect();
        now = now + Duration::from_millis(40);
        for ticket in tickets {
            pace.heard(now, ticket, &thousand_a_second(900), Outcome::Passed);
        }
    }
    let tickets: Vec<Ticket> = (0..40).map(|_| pace.send(now, 1)).collect();
    now = now + Duration::from_millis(40);
    let refusal = Said { retry_after: Some(Duration::from_millis(1)), ..thousand_a_second(0) };
    for ticket in tickets {
        pace.heard(now, ticket, &refusal, Outcome::Refused);
    }
    let wait = pace.wait(now, Load::default(), 1);
    assert!(wait < Duration::from_secs(1), "{wait:?}, {:?}", pace.limits(now));
}

/// The second had three left and lacked two, but what took ten days was the month.
#[test]
fn a_wait_is_learnt_only_where_one_limit_alone_lacked_something() {
    let days = Duration::from_secs(10 * 86_400);
    let said = |of_second: u64, of_month: u64| {
        let second = Seen {
            name: "user-second".to_owned(),
            limit: Some(100),
            remaining: Some(of_second),
            reset_after: Some(Duration::from_secs((109 - of_second) / 10)),
            window: Some(Duration::from_secs(10)),
            ..Seen::default()
        };
        let month = Seen {
            name: "user-month".to_owned(),
            limit: Some(10_000),
            remaining: Some(of_month),
            reset_after: Some(days),
            window: None,
            ..Seen::default()
        };
        Said { limits: vec![second, month], ..Said::default() }
    };
    for left_of_second in [3, 50] {
        let mut pace = Pace::new(SILENCE, 7);
        let mut now = Time::from_secs(1_800_000_000);
        let ticket = pace.send(now, 1);
        pace.heard(now, ticket, &said(left_of_second + 1, 1), Outcome::Passed);
        now = now + Duration::from_millis(100);
        let ticket = pace.send(now, 5);
        let refusal = Said { retry_after: Some(days), ..said(left_of_second, 0) };
        pace.heard(now, ticket, &refusal, Outcome::Refused);
        // The quota is renewed, and all of the second is spent at once.
        now = now + days + Duration::from_secs(2);
        for (cost, left) in [(1, 99), (97, 2)] {
            let ticket = pace.send(now, cost);
            pace.heard(now, ticket, &said(left, 9_999), Outcome::Passed);
        }
        // Ten come back a second, and a part is left for others.
        let wait = pace.wait(now, Load::default(), 5);
        assert!(wait < Duration::from_secs(5), "{left_of_second}: {wait:?}");
    }
}

/// A call passes at its end, but it is at its beginning that limits are shown.
#[test]
fn calls_that_pass_without_a_word_of_a_limit_are_the_end_of_it() {
    for (said, kept) in [(Said::default(), 0), (thousand_a_second(900), 1)] {
        let mut pace = Pace::new(SILENCE, 7);
        let mut now = Time::from_secs(1_800_000_000);
        let ticket = pace.send(now, 1);
        pace.heard(now, ticket, &thousand_a_second(900), Outcome::Passed);
        for _ in 0..10 {
            now = now + Duration::from_secs(20);
            let ticket = pace.send(now, 1);
            pace.heard(now, ticket, &said, Outcome::Begun);
            pace.passed(ticket);
        }
        assert_eq!(pace.limits(now).len(), kept);
    }
}

/// A call that has begun may be refused at its end.
#[test]
fn only_what_is_over_shows_that_a_limit_smaller_than_its_cost_counts_requests() {
    for (outcome, is_proof) in [(Outcome::Begun, false), (Outcome::Passed, true)] {
        let mut pace = Pace::new(SILENCE, 7);
        let mut now = Time::from_secs(1_800_000_000);
        for left in [990, 980, 970] {
            let ticket = pace.send(now, 1_001);
            now = now + Duration::from_millis(500);
            pace.heard(now, ticket, &thousand_a_second(left), outcome);
        }
        assert_eq!(pace.counts_requests(), is_proof, "{outcome:?}");
    }
}
