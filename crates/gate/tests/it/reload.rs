//! Another policy while requests are under way.

use crate::Place;

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
