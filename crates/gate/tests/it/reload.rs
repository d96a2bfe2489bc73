//! Another policy while requests are under way.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::Place;
use crate::strategies::{Line, shared};

fn rate(rate: u64, capacity: u64, rest: &str) -> String {
    format!(
        "tenants: [ {{ id: acme, rate_limit: {{ sustained: {{ rate: {rate} }}, burst: {{ capacity: {capacity} }}{rest} }} }} ]"
    )
}

#[test]
fn counters_keep_their_tokens() {
    let place = Place::new(&rate(1, 100, ""));
    for _ in 0..60 {
        place.ask("acme", "").unwrap();
    }
    place.enforce(&rate(1, 30, ""));
    assert_eq!(place.admits("acme", ""), 30, "clamped to the lower capacity");
    place.enforce(&rate(1, 1000, ""));
    assert_eq!(place.admits("acme", ""), 0, "not filled to the higher one");
}

#[test]
fn an_unchanged_limit_keeps_its_counter_whatever_changes_beside_it() {
    let place = Place::new(&rate(1, 5, ""));
    assert_eq!(place.admits("acme", ""), 5);
    let beside = rate(1, 5, "").replace("[ {", "[ { id: a }, { id: z }, {");
    place.enforce(&beside);
    assert_eq!(place.admits("acme", ""), 0);
}

#[test]
fn another_scope_algorithm_or_window_starts_anew() {
    for rest in [", scope: user", ", algorithm: gcra"] {
        let place = Place::new(&rate(1, 5, ""));
        assert_eq!(place.admits("acme", ""), 5);
        place.enforce(&rate(1, 5, rest));
        assert_eq!(place.admits("acme", ""), 5, "{rest}");
    }
}

/// A request keeps to the policy it began with.
#[test]
fn what_is_under_way_finishes_under_the_old_policy() {
    let place = Place::new(&rate(1, 5, ""));
    let old = place.in_force();
    place.enforce("tenants: [ { id: other } ]");
    let caller = crate::caller(&place.gate, &old, "acme", "ci");
    assert!(
        place.gate.decide(&old, &caller, tollgate_policy::compile::Work::default()).is_admitted()
    );
}

/// Under steady load a line never empties: bounds that it kept would never change.
#[tokio::test(start_paused = true)]
async fn whoever_comes_to_a_line_waits_within_the_new_policys_bounds() {
    let (passes, refused) = ("200 3 passed", "50 3 refused by default:client for 150");
    for (before, after, expected) in [
        ("{ max_depth: 1 }", "{ max_depth: 2 }", passes),
        ("{ max_depth: 2 }", "{ max_depth: 1 }", refused),
        ("{ max_wait_ms: 120 }", "{ max_wait_ms: 1000 }", passes),
        ("{ max_wait_ms: 1000 }", "{ max_wait_ms: 120 }", refused),
    ] {
        let line = Line::new(&shared(before, ""));
        let local = LocalSet::new();
        let ask = |name: &str| local.spawn_local(Rc::clone(&line).request("a", name.to_owned()));
        ask("1");
        ask("2");
        local.run_until(tokio::time::sleep(Duration::from_millis(50))).await;
        line.enforce(&shared(after, ""));
        ask("3");
        local.await;
        let log = line.log();
        assert!(log.iter().any(|entry| entry == expected), "{before} {after}: {log:?}");
        // Who stood there already keeps its place.
        assert!(log.iter().any(|entry| entry == "100 2 passed"), "{before} {after}: {log:?}");
    }
}

/// A quota's identity omits the plan.
#[test]
fn used_quota_carries_over_to_another_plan() {
    let text = |plan: &str| {
        format!(
            "
plans:
  small: {{ quota: {{ limit: 10, window: month }} }}
  large: {{ quota: {{ limit: 25, window: month }} }}
tenants: [ {{ id: acme, plan: {plan} }} ]
"
        )
    };
    let place = Place::new(&text("small"));
    assert_eq!(place.admits("acme", ""), 10);
    place.enforce(&text("large"));
    assert_eq!(place.admits("acme", ""), 15);
    place.enforce(&text("small"));
    assert_eq!(place.admits("acme", ""), 0);
}

/// A time zone is the same in any letters: to correct its spelling grants nothing anew.
#[test]
fn used_quota_carries_over_to_another_spelling_of_its_time_zone() {
    let text = |plan: &str| {
        format!(
            "
plans:
  small: {{ quota: {{ limit: 10, window: month }} }}
  lower: {{ quota: {{ limit: 25, window: month, time_zone: utc }} }}
  vienna: {{ quota: {{ limit: 10, window: month, time_zone: Europe/Vienna }} }}
  upper: {{ quota: {{ limit: 25, window: month, time_zone: EUROPE/VIENNA }} }}
tenants: [ {{ id: acme, plan: {plan} }} ]
"
        )
    };
    for (before, after) in [("small", "lower"), ("vienna", "upper")] {
        let place = Place::new(&text(before));
        assert_eq!(place.admits("acme", ""), 10);
        place.enforce(&text(after));
        assert_eq!(place.admits("acme", ""), 15, "{after}");
        place.enforce(&text(before));
        assert_eq!(place.admits("acme", ""), 0, "{before}");
    }
}
