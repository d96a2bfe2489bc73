//! What is wrong with a file whose every part has the right shape.

use tollgate_policy::compile::{Made, Policy};
use tollgate_policy::{load, shapes};

fn told(text: &str) -> Vec<String> {
    let compiled = Policy::of("t.yaml", text.as_bytes());
    let found = match &compiled {
        Ok(policy) => policy.warnings(),
        Err(faults) => &faults.diagnostics,
    };
    let severity = if compiled.is_ok() { "warning" } else { "error" };
    found.records().map(|r| format!("{severity} {}:{} {}", r.line, r.column, r.message)).collect()
}

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// what is wrong, and what is said of it
#[test]
fn every_fault_has_its_place_and_says_what_would_be_right() {
    let api = "upstreams: { api: { url: \"http://a\" } }\n";
    let rows: Vec<(String, &str)> = vec![
        (
            format!("{api}routes: [{{ path: /x, upstream: apy }}]"),
            "error 2:32 there is no upstream `apy`, did you mean `api`?",
        ),
        (
            format!("{api}routes: [{{ path: /x, upstream: api }}, {{ path: /x/, upstream: api }}]"),
            "error 2:47 the route in line 2 is for the same requests",
        ),
        (
            "tenants: [{ id: a, plan: gold }]".into(),
            "error 1:26 there is no plan `gold`",
        ),
        (
            format!("keys: [{{ tenant: a, sha256: {DIGEST} }}]"),
            "error 1:18 there is no tenant `a`",
        ),
        (
            format!(
                "tenants: [{{ id: a }}]\nkeys:\n  - {{ tenant: a, sha256: {DIGEST} }}\n  - {{ tenant: a, sha256: {DIGEST} }}"
            ),
            "error 4:26 this key is declared twice, first in line 3",
        ),
        (
            "plans: { p: { rate_limit: { algorithm: fixed_window, sustained: { rate: 5 }, burst: { capacity: 6 } } } }".into(),
            "error 1:97 a fixed_window has no burst apart from its rate: leave out the capacity of 6, write 5 or choose token_bucket",
        ),
        (
            "tenants: [{ id: a, rate_limit: { algorithm: sliding_window_log, sustained: { rate: 65537 } } }]".into(),
            "error 1:84 a sliding_window_log remembers every charge, so its rate is at most 65536 and not 65537/second: lower it, or choose sliding_window",
        ),
        (
            "plans: { p: { rate_limit: { sustained: { rate: 5 }, cost: 6 } } }".into(),
            "error 1:59 a cost of 6 can never pass: plan:p has a capacity of 5",
        ),
        (
            format!("{api}routes: [{{ path: /x, upstream: api, rate_limit: {{ cost: 6, sustained: {{ rate: 5 }} }} }}]"),
            "error 2:57 a cost of 6 can never pass: route:/x has a capacity of 5",
        ),
        (
            format!("{api}routes: [{{ path: /x, upstream: api, rate_limit: {{ cost: 60 }} }}]\nplans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 5 }} }} }} }}"),
            "warning 2:57 a cost of 60 is above plan:p's capacity of 5: callers under it are always refused",
        ),
        (
            format!("{api}routes: [{{ path: /x, upstream: api, rate_limit: {{ cost: 600 }} }}]\nplans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 5 }} }} }}, q: {{ rate_limit: {{ sustained: {{ rate: 50 }} }} }} }}"),
            "warning 2:57 a cost of 600 is above plan:p's capacity of 5 and 1 other limit's: callers under it are always refused",
        ),
        (
            "plans: { p: { rate_limit: { sustained: { rate: 5 }, consistency: strict } } }".into(),
            "error 1:66 only `local` works without Redis",
        ),
        (
            "rate_limit_sync: { enabled: true }\nplans: { p: { rate_limit: { algorithm: leaky_bucket, sustained: { rate: 5 }, strategy: queue, consistency: lease } } }".into(),
            "error 2:27 a leaky_bucket with strategy queue cannot be leased, because a slice would be let out all at once: write `consistency: strict`, or choose another strategy",
        ),
        (
            "plans: { p: { rate_limit: { sustained: { rate: 5 }, strategy: degrade, degrade: { upstream: spare } } } }".into(),
            "error 1:93 there is no upstream `spare`",
        ),
        (
            "plans: { p: { quota: [{ limit: 5, window: day }, { limit: 6, window: day }] } }".into(),
            "error 1:50 this quota has the window, zone, scope and unit of one before it",
        ),
        (
            "plans: { p: { quota: [{ limit: 5, window: day }, { limit: 6, window: day, time_zone: utc }] } }".into(),
            "error 1:50 this quota has the window, zone, scope and unit of one before it",
        ),
        (
            format!("{api}routes: [{{ path: /x, upstream: api, operation: chat }}]\nplans: {{ p: {{ operations: {{ caht: {{ sustained: {{ rate: 5 }} }} }} }} }}"),
            "warning 3:35 no route has the operation `caht`, did you mean `chat`?",
        ),
        (
            "redis: { url: \"redis://a\", urls: [\"redis://b\"] }".into(),
            "error 1:34 a single server has one URL",
        ),
        (api.to_owned(), "warning 1:12 there are no routes: every request is answered with 404"),
    ];
    for (text, expected) in rows {
        assert_eq!(told(&text), [expected], "{text}");
    }
}

/// A chain has the limit of the route's own upstream, so a spare's goes uncharged.
#[test]
fn a_spare_upstream_whose_limit_is_not_charged_is_warned_of_once() {
    let upstreams = |spare: &str| {
        format!(
            "upstreams: {{ api: {{ url: \"http://a\" }}, spare: {{ url: \"http://b\"{spare} }} }}\n"
        )
    };
    let limited = upstreams(", rate_limit: { sustained: { rate: 5 } }");
    let routes = "routes: [{ path: /x, upstream: api }, { path: /y, upstream: spare }]\n";
    let limit = |strategy: &str| {
        format!(
            "rate_limit: {{ sustained: {{ rate: 5 }}, strategy: {strategy}, degrade: {{ upstream: spare }} }}"
        )
    };
    let plan = |strategy: &str| format!("plans: {{ p: {{ {} }} }}", limit(strategy));
    let warning = "requests that are degraded to `spare` are not charged to its limit";
    let at = |place: &str| vec![format!("warning {place} {warning}")];
    assert_eq!(told(&format!("{limited}{routes}{}", plan("degrade"))), at("3:93"));
    // Who inherits it has it from the same place, and a pool beside it says the same.
    let tenants = limit("degrade")
        .replace("sustained", "sharing: inherit, budget: { mode: shared }, sustained");
    let tenants = format!(
        "tenants: [{{ id: a, {tenants} }}, {{ id: b, parent: a }}, {{ id: c, parent: a }}]"
    );
    assert_eq!(told(&format!("{limited}{routes}{tenants}")), at("3:142"));

    let none: [String; 0] = [];
    assert_eq!(told(&format!("{limited}{routes}{}", plan("reject"))), none);
    assert_eq!(told(&format!("{}{routes}{}", upstreams(""), plan("degrade"))), none);
    // In the chain of every request there is.
    let all = "routes: [{ path: /y, upstream: spare }]\n";
    assert_eq!(told(&format!("{limited}{all}{}", plan("degrade"))), none);
}

#[test]
fn faults_of_every_section_are_told_in_one_run() {
    let text = "
routes: [{ path: /x, upstream: a }, { path: /x, upstream: b }]
plans: { p: { rate_limit: { sustained: { rate: 5 }, cost: 6 } } }
tenants: [{ id: t, plan: q }, { id: u, parent: v }]
";
    assert_eq!(told(text).len(), 6, "{:#?}", told(text));
}

/// Broken before: whoever had an unknown parent was not looked at, and its keys were told to have no tenant.
#[test]
fn a_tenant_without_a_place_is_looked_at_and_exists_for_its_keys() {
    let text = format!(
        "
tenants:
  - {{ id: t, parent: nope, plan: gold, quota: [{{ limit: 1, window: day }}, {{ limit: 2, window: day }}] }}
  - {{ id: t, rate_limit: {{ sustained: {{ rate: 5 }}, cost: 6 }} }}
keys:
  - {{ tenant: t, sha256: {DIGEST} }}
  - {{ tenant: t, sha256: {DIGEST}, plan: gold }}
"
    );
    assert_eq!(
        told(&text),
        [
            "error 3:22 there is no tenant `nope`",
            "error 3:34 there is no plan `gold`",
            "error 3:75 this quota has the window, zone, scope and unit of one before it",
            "error 4:11 tenant `t` is declared twice, first in line 3",
            "error 4:58 a cost of 6 can never pass: tenant:t has a capacity of 5",
            "error 7:26 this key is declared twice, first in line 6",
            "error 7:98 there is no plan `gold`",
        ]
    );
}

/// Broken before: a limit of impossible figures was not asked where it degrades to.
#[test]
fn a_limit_of_impossible_figures_has_its_other_faults_told() {
    let limit = "{ algorithm: fixed_window, sustained: { rate: 5 }, burst: { capacity: 6 }, consistency: strict, degrade: { upstream: spare } }";
    let text = format!(
        "plans: {{ p: {{ rate_limit: {limit} }} }}\ntenants: [{{ id: t, rate_limit: {limit} }}]\n"
    );
    assert_eq!(told(&text).len(), 6, "{:#?}", told(&text));
}

#[test]
fn what_the_api_made_is_judged_together_with_the_file() {
    let file = "
plans: { free: {} }
tenants:
  - { id: part, rate_limit: { sustained: { rate: 100 }, budget: { mode: allocated } } }
  - { id: a, parent: part, rate_limit: { sustained: { rate: 60 } } }
";
    let made = |rate: u64, plan: &str| {
        let text = format!(
            "plans: {{ {plan}: {{}} }}\ntenants: [{{ id: b, parent: part, plan: free, rate_limit: {{ sustained: {{ rate: {rate} }} }} }}]"
        );
        let shapes::File { tenants, plans, .. } = load("made", text.as_bytes()).unwrap().value;
        Made { tenants, plans }
    };
    let compile = |made: Made| Policy::compile(load("t.yaml", file.as_bytes()).unwrap(), made);
    let policy = compile(made(40, "gold")).unwrap();
    assert!(policy.plan("gold").is_some() && policy.plan("free").is_some());
    assert_eq!(policy.tenants().get("b").unwrap().pools().len(), 1);
    let faults = compile(made(41, "gold")).unwrap_err();
    assert_eq!((faults.budgets[0].asked, faults.budgets[0].available), (41.0, 40.0));
    let faults = compile(made(40, "free")).unwrap_err();
    let message = faults.diagnostics.records().next().map(|record| record.message.to_owned());
    assert_eq!(message.as_deref(), Some("plan `free` was made by the API already"));
    // Deleting the other is refused while it is used, and where nothing runs there is no API to delete it by.
    let help = faults.diagnostics.records().next().and_then(|record| record.help);
    assert!(
        help.unwrap().starts_with("take it out of the file, and start or reload again"),
        "{help:?}"
    );
}

/// The file has no place for them, so the message must tell whom it is about.
#[test]
fn faults_of_what_the_api_made_name_it() {
    let told = |file: &str, made: &str| -> Vec<String> {
        let shapes::File { tenants, plans, .. } = load("made", made.as_bytes()).unwrap().value;
        let made = Made { tenants, plans };
        let faults = Policy::compile(load("t.yaml", file.as_bytes()).unwrap(), made).unwrap_err();
        let records = faults.diagnostics.records();
        records
            .map(|r| format!("{}:{} {} / {}", r.line, r.column, r.message, r.help.unwrap_or("")))
            .collect()
    };
    let file = "tenants:\n  - { id: acme }\n  - { id: shop }\n";
    assert_eq!(
        told(file, "tenants: [{ id: shop }]"),
        [
            "3:11 tenant `shop` was made by the API already / take it out of the file, and start or reload again; to move it there, first delete it by the API, which it takes when no key and no tenant uses it"
        ]
    );
    // What the file says twice is still told as the file's own.
    assert_eq!(
        told(&format!("{file}  - {{ id: shop }}\n"), "tenants: [{ id: shop }]"),
        [
            "3:11 tenant `shop` was made by the API already / take it out of the file, and start or reload again; to move it there, first delete it by the API, which it takes when no key and no tenant uses it",
            "4:11 tenant `shop` is declared twice, first in line 3 / give it another id, or leave one of them out",
        ]
    );
    assert_eq!(
        told(
            file,
            "tenants: [{ id: a, parent: part }, { id: b, parent: part }, { id: c, plan: gold }]"
        ),
        [
            "2:3 tenant `a` of the API: there is no tenant `part` / create `part` first",
            "2:3 tenant `b` of the API: there is no tenant `part` / create `part` first",
            "2:3 tenant `c` of the API: there is no plan `gold` / create `gold` first",
        ]
    );
    let degrade =
        "rate_limit: { sustained: { rate: 5 }, strategy: degrade, degrade: { upstream: spare } }";
    assert_eq!(
        told(
            file,
            &format!("plans: {{ p: {{ {degrade} }} }}\ntenants: [{{ id: a, parent: acne }}]")
        ),
        [
            "1:1 plan `p` of the API: there is no upstream `spare` / declare `spare`",
            "2:3 tenant `a` of the API: there is no tenant `acne`, did you mean `acme`? / write `acme`, or create `acne` first",
        ]
    );
    // A file that no longer allows what was made while another did: without its name nobody would know what to mend.
    let strict = "rate_limit: { sustained: { rate: 5 }, consistency: strict }";
    let both = format!("plans: {{ gold: {{ {strict} }} }}\ntenants: [{{ id: a, {strict} }}]");
    let all = told(file, &both);
    assert!(all.iter().any(|fault| fault.contains("plan `gold` of the API: ")), "{all:?}");
    assert!(all.iter().any(|fault| fault.contains("tenant `a` of the API: ")), "{all:?}");
}
