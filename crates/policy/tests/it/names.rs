//! What counters are called: legibly, and each by a name of its own.

use std::collections::HashMap;

use tollgate_policy::compile::{PlacedLimit, Policy};
use tollgate_policy::{Caller, Holder};

const FILE: &str = "
tenants: [{ id: acme }, { id: b }, { id: key }, { id: v1 }]
plans:
  free: { rate_limit: { sustained: { rate: 10 }, scope: user }, quota: { limit: 9, window: month, scope: user } }
upstreams: { api: { url: 'http://127.0.0.1:1' } }
routes:
  - { upstream: api, path: /v1, rate_limit: { sustained: { rate: 1 }, scope: user } }
  - { upstream: api, path: /v1/acme, rate_limit: { sustained: { rate: 1 }, scope: user } }
  - { upstream: api, path: /v1/acme/b, rate_limit: { sustained: { rate: 1 }, scope: user } }
  - { upstream: api, path: '/v1/b:key:b', rate_limit: { sustained: { rate: 1 }, scope: user } }
";

fn policy() -> Policy {
    Policy::of("t.yaml", FILE.as_bytes()).unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

fn limits_of_users(policy: &Policy) -> Vec<&PlacedLimit> {
    let limits = policy.limits().iter();
    let of_users: Vec<_> = limits.filter(|limit| limit.counter().starts_with("user:")).collect();
    assert_eq!(of_users.len(), 7, "the default, a plan, its quota, routes");
    of_users
}

fn name(policy: &Policy, counter: &str, (tenant, holder): (&str, Holder<'_>)) -> String {
    let limits = limits_of_users(policy);
    let limit = limits.iter().find(|limit| limit.counter() == counter).unwrap();
    policy.counter_name(limit, &Caller { tenant, holder, ip: None, route: None })
}

/// Two limits once shared a counter in Redis: user `b/c` of tenant `acme` on the route `/v1`, and user `c` of tenant `b` on `/v1/acme`.
#[test]
fn no_two_counters_have_one_name() {
    let policy = policy();
    let pieces = ["b", "c", "key", "acme", "/", ":", ":key:", ":ip:", "%", "%2F", "64", "::"];
    let mut users: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
    for _ in 0..2 {
        let longer: Vec<String> =
            users.iter().flat_map(|user| pieces.map(|piece| format!("{user}{piece}"))).collect();
        users.extend(longer);
    }
    users.sort();
    users.dedup();
    let addresses = ["203.0.113.7", "2001:db8::", "b::"].map(|text| text.parse().unwrap());
    let mut whose = HashMap::new();
    for limit in limits_of_users(&policy) {
        for tenant in ["acme", "b", "key", "v1"] {
            let ids = ["b", "c", "acme"].map(Holder::Key);
            let by_address = addresses.map(Holder::Address);
            let holders = users.iter().map(|user| Holder::User(user));
            for holder in holders.chain(ids).chain(by_address) {
                let caller = Caller { tenant, holder, ip: None, route: None };
                let name = policy.counter_name(limit, &caller);
                let own = format!("{tenant}, {holder:?} of {}", limit.counter());
                if let Some(other) = whose.insert(name.clone(), own.clone()) {
                    panic!("{name} is {own} and {other}");
                }
            }
        }
    }
}

#[test]
fn names_are_legible_and_stay_what_they_were() {
    let policy = policy();
    let long = "x".repeat(129);
    let rows = [
        ("user:plan:free", Holder::User("ann@example.com"), "acme/ann@example.com:second"),
        // Balances are kept by these names for months.
        ("user:quota", Holder::User("team/ann"), "acme/team/ann:month"),
        ("user:quota", Holder::User("github:17"), "acme/github:17:month"),
        ("user:route:/v1", Holder::User("ann"), "acme/ann:second"),
        ("user:route:/v1", Holder::User("team/ann:17"), "acme/team%2Fann%3A17:second"),
        ("user:route:/v1", Holder::Key("k-1"), "acme:key:k-1:second"),
        ("user:plan:free", Holder::User("{tag}%"), "acme/%7Btag%7D%25:second"),
        (
            "user:plan:free",
            Holder::User(&long),
            "acme/%sha256-0ec9eb33e74510bcdd1f2ea55206e82f:second",
        ),
    ];
    for (counter, holder, rest) in rows {
        assert_eq!(name(&policy, counter, ("acme", holder)), format!("{counter}/{rest}"));
    }
}
