//! What the caller is told.

use http::HeaderMap;
use tollgate_gate::Lines;
use tollgate_wire::Refused;

use crate::{Place, caller, work};

const STACK: &str = "
upstreams: { api: { url: \"http://a\" } }
routes: [ { path: /x, upstream: api, rate_limit: { cost: 10 } } ]
plans:
  p:
    rate_limit: { sustained: { rate: 10 }, burst: { capacity: 100 }, scope: user }
    quota: { limit: 4, window: month }
tenants:
  - { id: acme, plan: p, rate_limit: { sustained: { rate: 50 }, strategy: observe } }
";

fn headers(place: &Place) -> HeaderMap {
    let in_force = place.in_force();
    let caller = caller(&place.gate, &in_force, "acme", "ci");
    let passage = place.gate.decide(&in_force, &caller, work(&in_force, "GET /x"));
    let lines = Lines::of(&passage);
    let mut headers = HeaderMap::new();
    match passage.is_admitted() {
        true => lines.report().write(&mut headers),
        false => headers = Refused::by_limit(&lines.report(), "r").http().into_parts().0.headers,
    }
    headers
}

#[test]
fn a_stack_of_second_and_month_is_told_for_both() {
    let place = Place::new(STACK);
    let first = headers(&place);
    // The month admits 3 more such requests, the bucket 9: the month is the tightest.
    for (name, value) in [
        ("x-ratelimit-limit", "4"),
        ("x-ratelimit-remaining", "3"),
        ("x-ratelimit-limit-second", "100"),
        ("x-ratelimit-remaining-second", "90"),
        ("x-ratelimit-remaining-month", "3"),
        ("ratelimit-policy", "\"user-second\";q=100;w=10, \"user-month\";q=4"),
        ("x-ratelimit-reset-month", "1769904000"),
    ] {
        assert_eq!(first[name], value, "{name}");
    }
    assert_eq!(first.keys().filter(|name| name.as_str().contains("tenant")).count(), 0);
}

#[test]
fn a_refusal_is_told_of_the_limit_that_refused() {
    let place = Place::new(STACK);
    for _ in 0..4 {
        assert!(!headers(&place).contains_key("retry-after"));
    }
    let refused = headers(&place);
    assert_eq!(refused["x-ratelimit-limit"], "4");
    // January has 31 days.
    assert_eq!(refused["retry-after"], (31 * 86_400).to_string().as_str());
}

#[tokio::test]
async fn looking_charges_nothing_and_a_reset_is_of_one_counter() {
    let place = Place::new(
        "
plans: { free: { rate_limit: { sustained: { rate: 1 }, burst: { capacity: 9 }, scope: user } } }
tenants: [ { id: acme, plan: free, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 5 } } } ]
",
    );
    for _ in 0..4 {
        place.ask("acme", "").unwrap();
    }
    let in_force = place.in_force();
    let caller = caller(&place.gate, &in_force, "acme", "ci");
    let work = tollgate_policy::compile::Work::default();
    let remaining = async || {
        let passage = place.gate.look(&in_force, &caller, work).await;
        assert!(passage.is_admitted());
        [passage.chain().standing(0).remaining, passage.chain().standing(1).remaining]
    };
    assert_eq!(remaining().await, [5, 1]);
    assert_eq!(remaining().await, [5, 1]);
    assert!(place.gate.reset(&in_force, (&caller, work), 1).await);
    assert_eq!(remaining().await, [5, 5]);
    assert!(!place.gate.reset(&in_force, (&caller, work), 2).await);
}
