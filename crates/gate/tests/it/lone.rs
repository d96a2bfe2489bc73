//! Requests that meet a single limit.

use tollgate_gate::Lines;
use tollgate_policy::compile::Work;

use crate::{Place, caller, work};

/// A policy whose callers of `acme` meet one limit with these settings.
fn one_limit(settings: &str) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://a\" }} }}
routes:
  - {{ path: /plain, upstream: api }}
  - {{ path: /five, upstream: api, rate_limit: {{ cost: 5 }} }}
  - {{ path: /free, upstream: api, rate_limit: {{ cost: 0 }} }}
  - {{ path: /own, upstream: api, rate_limit: {{ sustained: {{ rate: 3 }} }} }}
  - {{ path: /read, upstream: api, operation: read }}
plans: {{ p: {{ rate_limit: {{ {settings} }} }} }}
tenants: [ {{ id: acme, plan: p }} ]
"
    )
}

/// Whether a request passes without a chain; what the response tells then.
fn lone(place: &Place, user: &str, request: &str) -> Option<http::HeaderMap> {
    let in_force = place.in_force();
    let caller = caller(&place.gate, &in_force, "acme", user);
    let lone = place.gate.admit_lone(&in_force, &caller, work(&in_force, request))?;
    assert_eq!(lone.limit().source(), "plan:p");
    Some(lone.report().headers())
}

/// The same by a chain.
fn chained(place: &Place, user: &str, request: &str) -> Option<http::HeaderMap> {
    let in_force = place.in_force();
    let caller = caller(&place.gate, &in_force, "acme", user);
    let passage = place.gate.decide(&in_force, &caller, work(&in_force, request));
    passage.is_admitted().then(|| Lines::of(&passage).report().headers())
}

#[test]
fn a_single_limit_decides_and_tells_as_a_chain_of_one_does() {
    for settings in [
        "sustained: { rate: 10 }, burst: { capacity: 30 }, scope: user",
        "sustained: { rate: 10 }, burst: { capacity: 30 }, scope: tenant",
        "sustained: { rate: 10 }, scope: ip, algorithm: gcra",
        "sustained: { rate: 10 }, scope: global, algorithm: leaky_bucket",
        "sustained: { rate: 10 }, scope: user, algorithm: fixed_window",
        "sustained: { rate: 10 }, scope: user, algorithm: sliding_window",
        "sustained: { rate: 10 }, scope: user, algorithm: sliding_window_log",
        "sustained: { rate: 10 }, scope: route",
        "sustained: { rate: 10 }, scope: user, cost: 2",
    ] {
        let (one, other) = (Place::new(&one_limit(settings)), Place::new(&one_limit(settings)));
        let mut without_chain = 0;
        for n in 0..200_u64 {
            let user = ["ada", "bob", "eve"][n as usize % 3];
            let request = ["", "GET /plain", "GET /five"][n as usize / 3 % 3];
            let told = lone(&one, user, request);
            without_chain += usize::from(told.is_some());
            let told = told.or_else(|| chained(&one, user, request));
            assert_eq!(told, chained(&other, user, request), "{settings}, request {n}");
            for place in [&one, &other] {
                place.advance(n * 7 % 160);
            }
        }
        // A log is not held as other counters are.
        assert_eq!(without_chain > 0, !settings.contains("log"), "{settings}: {without_chain}");
    }
}

#[test]
fn what_meets_more_than_one_limit_or_none_is_left_to_the_chain() {
    let place = Place::new(&one_limit("sustained: { rate: 10 }, scope: user"));
    assert!(chained(&place, "ada", "GET /plain").is_some());
    assert!(lone(&place, "ada", "GET /plain").is_some());
    for request in ["GET /own", "GET /free", "GET /read"] {
        // `/read` has an operation, of which a plan may say something.
        assert!(chained(&place, "ada", request).is_some());
        assert!(lone(&place, "ada", request).is_none(), "{request}");
    }
    for strategy in ["queue", "degrade", "observe"] {
        let text =
            one_limit(&format!("sustained: {{ rate: 10 }}, scope: user, strategy: {strategy}"));
        let place = Place::new(&text);
        assert!(chained(&place, "ada", "").is_some());
        assert!(lone(&place, "ada", "").is_none(), "{strategy}");
    }
}

#[test]
fn a_refused_request_is_charged_nothing_and_left_to_the_chain() {
    let place = Place::new(&one_limit("sustained: { rate: 3 }, scope: user"));
    assert!(lone(&place, "ada", "").is_none(), "nobody has counted her yet");
    assert!(chained(&place, "ada", "").is_some());
    assert!(lone(&place, "ada", "").is_some() && lone(&place, "ada", "").is_some());
    for _ in 0..5 {
        assert!(lone(&place, "ada", "").is_none());
    }
    place.advance(334);
    assert_eq!(lone(&place, "ada", "").unwrap()["x-ratelimit-remaining"], "0");
}

/// Figures changed at run time: the counter is brought over by the chain, once.
#[test]
fn after_a_reload_the_new_figures_decide() {
    let place = Place::new(&one_limit("sustained: { rate: 100 }, scope: user"));
    assert!(chained(&place, "ada", "").is_some() && lone(&place, "ada", "").is_some());
    let old = place.in_force();
    place.enforce(&one_limit("sustained: { rate: 5 }, scope: user"));
    assert!(lone(&place, "ada", "").is_none());
    assert_eq!(chained(&place, "ada", "").unwrap()["x-ratelimit-limit"], "5");
    assert_eq!(lone(&place, "ada", "").unwrap()["x-ratelimit-remaining"], "3");
    // Whoever still holds the old policy does not decide by it.
    let caller = caller(&place.gate, &old, "acme", "ada");
    assert!(place.gate.admit_lone(&old, &caller, Work::default()).is_none());
}
