//! What the records promise, by counting what passes.

use std::net::IpAddr;

use tollgate_gate::Holder;
use tollgate_policy::compile::Work;

use crate::Place;

fn example(name: &str) -> Place {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    Place::new(&std::fs::read_to_string(path).unwrap())
}

const THOUSAND: &str = "
upstreams: { api: { url: \"http://a\" } }
routes:
  - { path: /v1/chat/completions, upstream: api, rate_limit: { cost: 10 } }
  - { path: /v1/models, upstream: api, rate_limit: { cost: 1 } }
  - { path: /health, upstream: api, rate_limit: { cost: 0 } }
tenants: [ { id: acme, rate_limit: { sustained: { rate: 1000, window: minute } } } ]
";

/// Record 000, example 3.
#[test]
fn a_thousand_tokens_are_100_chats_or_1000_listings_or_50_and_500() {
    let (chat, list) = ("POST /v1/chat/completions", "GET /v1/models");
    assert_eq!(Place::new(THOUSAND).admits("acme", chat), 100);
    assert_eq!(Place::new(THOUSAND).admits("acme", list), 1000);
    let both = Place::new(THOUSAND);
    for _ in 0..50 {
        both.ask("acme", chat).unwrap();
    }
    assert_eq!(both.admits("acme", list), 500);
    // And a health check is free, whoever has spent everything.
    assert_eq!(both.ask("acme", "GET /health"), Ok(()));
}

/// Record 000, example 1: burst 100, whatever the levels above have.
#[test]
fn a_customer_bursts_to_the_lowest_of_three_levels() {
    assert_eq!(example("hierarchy.yaml").admits("customer-1", "GET /v1/models"), 100);
}

/// Record 000, example 2: first come, first served.
#[test]
fn three_shops_share_one_pool() {
    let place = example("hierarchy.yaml");
    let shop =
        |name: &str, n: usize| (0..n).filter(|_| place.ask(name, "GET /v1/models").is_ok()).count();
    assert_eq!((shop("shop-a", 600), shop("shop-b", 300)), (600, 300));
    assert_eq!(shop("shop-c", 300), 100);
    assert_eq!(place.ask("shop-a", "GET /v1/models"), Err("pool:reseller".to_owned()));
}

/// Children that were promised more than there is contend for it: what all get is the total.
#[test]
fn overcommitted_children_contend_for_the_pool() {
    let place = Place::new(
        "
tenants:
  - { id: part, rate_limit: { sustained: { rate: 100 }, budget: { mode: allocated, total: 100, overcommit_ratio: 1.5 } } }
  - { id: a, parent: part, rate_limit: { sustained: { rate: 75 } } }
  - { id: b, parent: part, rate_limit: { sustained: { rate: 75 } } }
",
    );
    assert_eq!(place.admits("a", ""), 75);
    assert_eq!(place.admits("b", ""), 25);
    assert_eq!(place.ask("b", ""), Err("pool:part".to_owned()));
    // A private limit of the parent's is its own; its pool is everybody's.
    assert_eq!(place.ask("part", ""), Err("pool:part".to_owned()));
}

#[test]
fn enforced_descendants_cannot_exceed_their_ancestor_together() {
    let place = Place::new(
        "
tenants:
  - { id: part, rate_limit: { sharing: enforce, sustained: { rate: 100 } } }
  - { id: mid, parent: part, rate_limit: { sustained: { rate: 80 } } }
  - { id: a, parent: mid }
  - { id: b, parent: mid }
",
    );
    assert_eq!((place.admits("a", ""), place.admits("b", "")), (100, 0));
    assert_eq!(place.ask("b", ""), Err("tenant:part".to_owned()));
}

#[test]
fn inherited_figures_have_a_counter_each() {
    let place = Place::new(
        "
tenants:
  - { id: part, rate_limit: { sharing: inherit, sustained: { rate: 10 } } }
  - { id: a, parent: part }
  - { id: b, parent: part }
",
    );
    assert_eq!(
        (place.admits("a", ""), place.admits("b", ""), place.admits("part", "")),
        (10, 10, 10)
    );
}

/// Record 002: a burst, then the month; a refused request has cost neither.
#[test]
fn a_month_is_spent_to_the_last_request() {
    let place = Place::new(
        "
plans: { p: { rate_limit: { sustained: { rate: 5 }, scope: user }, quota: { limit: 12, window: month } } }
tenants: [ { id: acme, plan: p } ]
",
    );
    let mut passed = 0;
    for _ in 0..10 {
        passed += place.admits("acme", "");
        place.advance(1000);
    }
    assert_eq!(passed, 12);
    let in_force = place.in_force();
    let caller = crate::caller(&place.gate, &in_force, "acme", "ci");
    let refused = place.gate.decide(&in_force, &caller, Work::default());
    assert_eq!(refused.limit(refused.refused_by().unwrap()).limit().span().name(), "month");
    assert_eq!(refused.chain().standing(0).remaining, 5, "the bucket was not charged");
}

#[test]
fn users_are_counted_apart_and_keys_without_a_user_by_themselves() {
    let place = Place::new(
        "
plans: { p: { rate_limit: { sustained: { rate: 2 }, scope: user } } }
tenants: [ { id: acme, plan: p }, { id: other, plan: p } ]
",
    );
    let in_force = place.in_force();
    let number = |id: &str| in_force.policy().tenants().number(id).unwrap();
    for (tenant, holder) in [
        ("acme", Holder::User("a")),
        ("acme", Holder::User("b")),
        ("acme", Holder::Key("a")),
        ("acme", Holder::Key("b")),
        ("other", Holder::User("a")),
    ] {
        let caller = place.gate.caller(&in_force, number(tenant), holder, crate::HOME);
        let admitted = (0..5)
            .filter(|_| place.gate.decide(&in_force, &caller, Work::default()).is_admitted())
            .count();
        assert_eq!(admitted, 2, "{tenant} {holder:?}");
    }
}

/// addresses that are counted together, and one that is not
#[test]
fn addresses_are_counted_by_their_network() {
    for (together, apart) in [
        (["203.0.113.7", "::ffff:203.0.113.7"], "203.0.113.8"),
        (["2001:db8:1:2::1", "2001:db8:1:2:ffff::9"], "2001:db8:1:3::1"),
    ] {
        let place = Place::new(
            "tenants: [ { id: acme, rate_limit: { sustained: { rate: 2 }, scope: ip } } ]",
        );
        let in_force = place.in_force();
        let number = in_force.policy().tenants().number("acme").unwrap();
        let passes = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            let caller = place.gate.caller(&in_force, number, Holder::User("x"), address);
            place.gate.decide(&in_force, &caller, Work::default()).is_admitted()
        };
        assert!(passes(together[0]) && passes(together[1]));
        assert!(!passes(together[0]) && !passes(together[1]));
        assert!(passes(apart));
    }
}

#[test]
fn scopes_global_and_route_are_counted_for_all() {
    let place = Place::new(
        "
upstreams: { api: { url: \"http://a\", rate_limit: { sustained: { rate: 3 }, scope: global } } }
routes:
  - { path: /a, upstream: api }
  - { path: /b, upstream: api, rate_limit: { sustained: { rate: 1 }, scope: route } }
tenants: [ { id: x, plan: p }, { id: y, plan: p } ]
plans: { p: {} }
",
    );
    place.ask("x", "GET /b").unwrap();
    assert_eq!(place.ask("y", "GET /b"), Err("route:/b".to_owned()));
    place.ask("y", "GET /a").unwrap();
    place.ask("x", "GET /a").unwrap();
    assert_eq!(place.ask("x", "GET /a"), Err("upstream:api".to_owned()));
}
