//! Limits that keys of the API have for themselves.

use tollgate_engine::{Clock, FakeClock};
use tollgate_gate::{Gate, Holder, InForce, OwnLimit, OwnTerms, Passage};
use tollgate_policy::{load_fragment, shapes::RateLimit};

use crate::{HOME, NOW, cause, policy, work};

const FILE: &str = "
upstreams:
  api: { url: \"http://127.0.0.1:3000\" }
  spare: { url: \"http://127.0.0.1:3001\" }
routes:
  - { path: /x, upstream: api }
  - { path: /free, upstream: api, rate_limit: { cost: 0 } }
plans: { p: { rate_limit: { sustained: { rate: 100 }, scope: user } } }
tenants: [ { id: acme, plan: p, rate_limit: { sustained: { rate: 50 } } } ]
";

fn own<C: Clock>(gate: &Gate<C>, in_force: &InForce, id: &str, limit: &str) -> OwnLimit {
    let limit = load_fragment::<RateLimit>("body", limit.as_bytes()).unwrap().value;
    gate.own_limit(in_force.policy(), OwnTerms { id, origin: "first", rate_limit: &limit }).unwrap()
}

/// The limit of a key that is not its line's current one.
fn of_line<C: Clock>(gate: &Gate<C>, in_force: &InForce, id: &str, limit: &str) -> OwnLimit {
    let limit = load_fragment::<RateLimit>("body", limit.as_bytes()).unwrap().value;
    let terms = OwnTerms { id, origin: "first", rate_limit: &limit };
    gate.own_limit_of_line(in_force.policy(), terms).unwrap()
}

fn ask<'f, C: Clock>(
    gate: &Gate<C>,
    in_force: &'f InForce,
    own: &'f OwnLimit,
    request: &str,
) -> Passage<'f> {
    let acme = in_force.policy().tenants().number("acme").unwrap();
    let caller = gate.caller(in_force, acme, Holder::Key("first"), HOME).with_own(Some(own));
    gate.decide(in_force, &caller, work(in_force, request))
}

#[test]
fn it_is_charged_first_and_in_place_of_the_plans_and_free_routes_are_free() {
    let gate = Gate::with_clock(FakeClock::at(NOW), 1000);
    let in_force = gate.enforce(policy(FILE));
    let own = own(&gate, &in_force, "k1", "{ sustained: { rate: 2 }, scope: user }");
    let passage = ask(&gate, &in_force, &own, "GET /x");
    let sources: Vec<_> = (0..passage.len()).map(|place| passage.limit(place).source()).collect();
    assert_eq!(sources, ["key:k1", "tenant:acme"]);
    assert_eq!(cause(&ask(&gate, &in_force, &own, "GET /x")), Ok(()));
    assert_eq!(cause(&ask(&gate, &in_force, &own, "GET /x")), Err("key:k1".to_owned()));
    assert!(ask(&gate, &in_force, &own, "GET /free").is_empty());
}

#[test]
fn keys_of_one_line_share_their_counter_each_under_its_own_name() {
    let gate = Gate::with_clock(FakeClock::at(NOW), 1000);
    let in_force = gate.enforce(policy(FILE));
    let old = own(&gate, &in_force, "k1", "{ sustained: { rate: 2, window: day } }");
    let new = own(&gate, &in_force, "k2", "{ sustained: { rate: 2, window: day } }");
    assert_eq!(cause(&ask(&gate, &in_force, &old, "GET /x")), Ok(()));
    assert_eq!(cause(&ask(&gate, &in_force, &new, "GET /x")), Ok(()));
    assert_eq!(cause(&ask(&gate, &in_force, &old, "GET /x")), Err("key:k1".to_owned()));
    assert_eq!(cause(&ask(&gate, &in_force, &new, "GET /x")), Err("key:k2".to_owned()));
    // More is in force at once, and what was charged stays charged.
    let more = own(&gate, &in_force, "k2", "{ sustained: { rate: 3, window: day }, cost: 1 }");
    let passage = ask(&gate, &in_force, &more, "GET /x");
    assert_eq!(cause(&passage), Err("key:k2".to_owned()), "not filled up");
}

#[test]
fn a_key_that_was_replaced_goes_by_the_figures_of_its_line_and_gives_it_none() {
    let gate = Gate::with_clock(FakeClock::at(NOW), 1000);
    let in_force = gate.enforce(policy(FILE));
    // There is no other yet, as when keys are read in any order.
    let old = of_line(&gate, &in_force, "k1", "{ sustained: { rate: 2, window: day }, cost: 2 }");
    let more = "{ sustained: { rate: 5, window: day }, burst: { capacity: 6 } }";
    let new = own(&gate, &in_force, "k2", more);
    let told = |own: &OwnLimit| {
        let passage = ask(&gate, &in_force, own, "GET /x");
        let figures = passage.limit(0).limit();
        let standing = passage.chain().standing(0);
        (figures.capacity(), standing.limit, standing.remaining, cause(&passage))
    };
    let again = of_line(&gate, &in_force, "k1", "{ sustained: { rate: 2, window: day }, cost: 2 }");
    assert_eq!(told(&again), (6, 6, 4, Ok(())));
    assert_eq!(told(&new), (6, 6, 3, Ok(())));
    assert_eq!(told(&old), (2, 6, 1, Ok(())), "bound before the figures were others");
    // Figures that its cost is above let nothing of it pass, and are not left for its plan's.
    let small = own(&gate, &in_force, "k2", "{ sustained: { rate: 1, window: day } }");
    let again = of_line(&gate, &in_force, "k1", "{ sustained: { rate: 2, window: day }, cost: 2 }");
    assert_eq!(told(&again).3, Err("key:k1".to_owned()));
    assert_eq!(told(&small), (1, 1, 0, Ok(())));
}

/// Policies number their upstreams each in its own way; a key's limit outlives them.
#[test]
fn where_it_degrades_to_is_found_by_name_under_every_policy() {
    let gate = Gate::with_clock(FakeClock::at(NOW), 1000);
    let first = gate.enforce(policy(FILE));
    let limit = "{ sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: spare } }";
    let own = own(&gate, &first, "k1", limit);
    assert_eq!(cause(&ask(&gate, &first, &own, "GET /x")), Ok(()));
    let degraded = |in_force: &InForce| {
        let passage = ask(&gate, in_force, &own, "GET /x");
        passage.degraded().map(|(_, upstream)| upstream)
    };
    assert_eq!(degraded(&first), Some(Some(1)));
    let others = "upstreams:\n  another: { url: \"http://127.0.0.1:3002\" }";
    let second = gate.enforce(policy(&FILE.replace("upstreams:", others)));
    assert_eq!(degraded(&second), Some(Some(2)));
    let without = FILE.replace("  spare: { url: \"http://127.0.0.1:3001\" }\n", "");
    let third = gate.enforce(policy(&without));
    assert_eq!(degraded(&third), Some(None), "to the request's own");
}
