//! Which limits a request meets, in which order, at which cost.

use tollgate_policy::compile::{Client, Policy, Work};
use tollgate_policy::{Explanation, Question};

fn policy(text: &str) -> Policy {
    Policy::of("t.yaml", text.as_bytes()).unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

fn explain(text: &str, question: &Question<'_>) -> Explanation {
    policy(text).explain(question).unwrap_or_else(|why| panic!("{why}"))
}

fn sources(text: &str, question: &Question<'_>) -> Vec<String> {
    explain(text, question).chain.into_iter().map(|link| link.source).collect()
}

const ACME: Question<'_> = Question { tenant: "acme", user: None, plan: None, route: None };
const CI: Question<'_> = Question { user: Some("ci"), ..ACME };

const PLANS: &str = "
plans:
  free: { rate_limit: { sustained: { rate: 10 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 100 }, scope: user } }
  balance: { quota: { limit: 1000, window: month } }
";
const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// what the file says beside the plans, whose request, what it is charged to
#[test]
fn precedence_is_key_then_plan_then_defaults() {
    let key =
        |rest: &str| format!("keys: [{{ tenant: acme, user: ci, sha256: {DIGEST}{rest} }}]\n");
    let limit = "{ sustained: { rate: 7 } }";
    let rows: Vec<(&str, String, Question<'_>, &[&str])> = vec![
        (
            "nothing is configured",
            "tenants: [{ id: acme }]".into(),
            ACME,
            &["default:client", "default:tenant"],
        ),
        (
            "the tenant has a plan",
            "tenants: [{ id: acme, plan: free }]".into(),
            ACME,
            &["plan:free"],
        ),
        (
            "the key's plan goes before the tenant's",
            format!("tenants: [{{ id: acme, plan: free }}]\n{}", key(", plan: pro")),
            CI,
            &["plan:pro"],
        ),
        (
            "the key's own limit goes before its plan's",
            format!(
                "tenants: [{{ id: acme }}]\n{}",
                key(", id: k, plan: pro, rate_limit: { sustained: { rate: 1 } }")
            ),
            CI,
            &["key:k"],
        ),
        (
            "a tenant's limit is enough for the built-in defaults to stay away",
            format!("tenants: [{{ id: acme, rate_limit: {limit} }}]"),
            ACME,
            &["tenant:acme"],
        ),
        (
            "so is one from above",
            "tenants: [{ id: acme, parent: part }, { id: part, rate_limit: { sharing: enforce, sustained: { rate: 7 } } }]".into(),
            ACME,
            &["tenant:acme", "tenant:part"],
        ),
        (
            "so is a pool from above, though the limit is private",
            "tenants: [{ id: acme, parent: part }, { id: part, rate_limit: { sustained: { rate: 7 }, budget: { mode: shared } } }]".into(),
            ACME,
            &["pool:part"],
        ),
        (
            "so is a quota",
            "tenants: [{ id: acme, quota: { limit: 5, window: day } }]".into(),
            ACME,
            &["tenant:acme"],
        ),
        (
            "so is a plan that is a quota alone",
            "tenants: [{ id: acme, plan: balance }]".into(),
            ACME,
            &["plan:balance"],
        ),
        (
            "a written default for clients is for all without a client's limit",
            format!(
                "defaults: {{ client: {limit} }}\ntenants: [{{ id: acme, rate_limit: {limit} }}]"
            ),
            ACME,
            &["default:client", "tenant:acme"],
        ),
        (
            "also where the plan is a quota alone",
            format!("defaults: {{ client: {limit} }}\ntenants: [{{ id: acme, plan: balance }}]"),
            ACME,
            &["default:client", "plan:balance"],
        ),
        (
            "a written default for tenants is for all whom the tree does not limit",
            format!("defaults: {{ tenant: {limit} }}\ntenants: [{{ id: acme, plan: free }}]"),
            ACME,
            &["plan:free", "default:tenant"],
        ),
        (
            "replacing one default leaves the other as it is built in",
            format!("defaults: {{ tenant: {limit} }}\ntenants: [{{ id: acme }}]"),
            ACME,
            &["default:client", "default:tenant"],
        ),
        (
            "null switches one off",
            "defaults: { client: null }\ntenants: [{ id: acme }]".into(),
            ACME,
            &["default:tenant"],
        ),
        (
            "null switches both off",
            "defaults: { client: null, tenant: null }\ntenants: [{ id: acme }]".into(),
            ACME,
            &[],
        ),
        (
            "the default for tenants is never for the anonymous",
            format!("defaults: {{ tenant: {limit} }}"),
            Question { tenant: "anonymous", ..ACME },
            &["default:client"],
        ),
        (
            "nor for tenants above",
            format!(
                "defaults: {{ tenant: {limit} }}\ntenants: [{{ id: acme, parent: part }}, {{ id: part }}]"
            ),
            ACME,
            &["default:client", "default:tenant"],
        ),
    ];
    for (claim, text, question, expected) in rows {
        assert_eq!(sources(&format!("{PLANS}{text}"), &question), expected, "{claim}");
    }
}

const LAW: &str = "
upstreams:
  api: { url: \"http://a\", rate_limit: { sustained: { rate: 9000 }, scope: global } }
routes:
  - { path: \"/chat/{room}\", methods: [POST], upstream: api, operation: chat, rate_limit: { cost: 10, sustained: { rate: 50 } } }
  - { path: /list, upstream: api }
  - { path: /health, upstream: api, rate_limit: { cost: 0 } }
plans:
  pro:
    rate_limit: { sustained: { rate: 100 }, scope: user, cost: 2 }
    operations: { chat: { sustained: { rate: 60, window: minute }, scope: user } }
    quota: [{ limit: 1000, window: month }, { limit: 5000, window: month, unit: tokens, scope: tenant }]
tenants:
  - { id: system, rate_limit: { sharing: enforce, sustained: { rate: 1000 }, budget: { mode: allocated } } }
  - { id: part, rate_limit: { sharing: inherit, sustained: { rate: 500 }, budget: { mode: shared } } }
  - { id: acme, parent: part, plan: pro, rate_limit: { sustained: { rate: 200 } }, quota: { limit: 9, window: year } }
";

#[test]
fn a_chain_is_in_the_order_of_the_law() {
    let explained =
        explain(LAW, &Question { route: Some("POST /chat/lobby"), user: Some("ci"), ..ACME });
    let chain: Vec<_> = explained
        .chain
        .iter()
        .map(|link| (link.source.as_str(), link.policy.as_str(), link.cost, link.key.as_str()))
        .collect();
    let expected = [
        ("plan:pro", "user-second", 10, "user:plan:pro/acme/ci:second"),
        ("operation:pro/chat", "user-minute", 10, "user:operation:pro/chat/acme/ci:minute"),
        ("tenant:acme", "tenant-second", 10, "tenant:tenant:acme/acme:second"),
        ("pool:part", "tenant-second-2", 10, "tenant:pool:part/part:second"),
        ("tenant:system", "tenant-second-3", 10, "tenant:tenant:system/system:second"),
        ("pool:system", "tenant-second-4", 10, "tenant:pool:system/system:second"),
        (
            "route:POST /chat/{room}",
            "tenant-second-5",
            10,
            "tenant:route:POST /chat/%7Broom%7D/acme:second",
        ),
        ("upstream:api", "global-second", 10, "global:upstream:api/all:second"),
        ("plan:pro", "user-month", 1, "user:quota/acme/ci:month"),
        ("plan:pro", "tenant-month", 10, "tenant:quota-tokens/acme:month"),
        ("tenant:acme", "user-year", 1, "user:tenant:acme:quota/acme/ci:year"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(source, policy, cost, key)| {
            (*source, *policy, *cost, format!("tollgate:ratelimit:{key}"))
        })
        .collect();
    let expected: Vec<_> = expected.iter().map(|(s, p, c, k)| (*s, *p, *c, k.as_str())).collect();
    assert_eq!(chain, expected);
    assert_eq!(explained.cost, 10);
}

/// Few are looked at one by one, many are found by a hash.
#[test]
fn tenants_are_found_by_their_ids_however_many_there_are() {
    for many in [0, 1, 5, 6, 7, 8, 40] {
        let ids: Vec<String> = (0..many).map(|n| format!("tenant-{n}")).collect();
        let listed: Vec<String> = ids.iter().map(|id| format!("{{ id: {id} }}")).collect();
        let policy = policy(&format!("tenants: [ {} ]", listed.join(", ")));
        let tenants = policy.tenants();
        for id in ids.iter().map(String::as_str).chain(["system", "anonymous"]) {
            let number = tenants.number(id).unwrap();
            assert_eq!(tenants.all()[number].id(), id);
        }
        for unknown in ["", "tenant-", "tenant-x", "System"] {
            assert_eq!(tenants.number(unknown), None, "{unknown} of {many}");
        }
    }
}

#[test]
fn a_chain_gone_through_at_once_is_the_same_as_step_by_step() {
    let policy = policy(LAW);
    let acme = Client::of(&policy, policy.tenants().number("acme").unwrap());
    let route = policy.routes().iter().find(|route| route.name() == "POST /chat/{room}").unwrap();
    let chain = policy.chain(acme, Work::on(route));
    let mut left = chain.clone();
    let steps: Vec<_> = std::iter::from_fn(|| left.next()).map(|(id, _)| id).collect();
    assert!(steps.len() > 8);
    for begun in 0..=steps.len() {
        let mut chain = chain.clone();
        assert!((0..begun).all(|_| chain.next().is_some()));
        let mut rest = Vec::new();
        chain.for_each(|(id, _)| rest.push(id));
        assert_eq!(rest, steps[begun..]);
    }
}

#[test]
fn a_route_without_a_cost_charges_each_limits_own() {
    let explained = explain(LAW, &Question { route: Some("GET /list"), ..ACME });
    let costs: Vec<_> = explained.chain.iter().map(|link| (&*link.source, link.cost)).collect();
    assert_eq!(costs[0], ("plan:pro", 2));
    assert!(costs[1..].iter().all(|(_, cost)| *cost == 1), "{costs:?}");
}

#[test]
fn a_cost_of_nothing_is_charged_to_nothing() {
    let explained = explain(LAW, &Question { route: Some("GET /health"), ..ACME });
    assert_eq!((explained.chain.len(), explained.cost), (0, 0));
}

/// Figures are folded; algorithm, scope and strategy are a tenant's own, else its source's.
#[test]
fn a_silent_tenant_counts_as_its_source_does_with_a_counter_of_its_own() {
    let text = "
tenants:
  - { id: acme, parent: part }
  - { id: other, parent: part, rate_limit: { sustained: { rate: 50, window: minute } } }
  - { id: part, rate_limit: { sharing: inherit, algorithm: fixed_window, scope: ip, strategy: observe, sustained: { rate: 30, window: minute } } }
";
    let silent = &explain(text, &ACME).chain[0];
    assert_eq!((silent.algorithm, silent.scope, silent.rate), ("fixed_window", "ip", 30));
    assert_eq!(silent.key, "tollgate:ratelimit:ip:tenant:acme/<ip>:minute");
    assert_eq!(silent.file, "t.yaml:5");
    let own = &explain(text, &Question { tenant: "other", ..ACME }).chain[0];
    assert_eq!((own.algorithm, own.scope, own.rate), ("token_bucket", "tenant", 30));
}

/// A window algorithm has no burst: it is limited by the folded rate alone.
#[test]
fn a_window_below_a_bucket_takes_its_rate() {
    let text = "
tenants:
  - { id: acme, parent: part, rate_limit: { algorithm: sliding_window, sustained: { rate: 100, window: minute } } }
  - { id: part, rate_limit: { sharing: inherit, sustained: { rate: 50, window: minute }, burst: { capacity: 5 } } }
";
    let explained = explain(text, &ACME);
    let link = &explained.chain[0];
    assert_eq!((link.rate, link.capacity, link.algorithm), (50, 50, "sliding_window"));
    // A window has no burst that would be lower.
    let effective = explained.effective.unwrap();
    assert_eq!((effective.sustained.rate, &*effective.sustained.from), (50, "part"));
    assert_eq!((effective.burst.capacity, &*effective.burst.from), (50, "part"));
}

#[test]
fn the_effective_minimum_knows_pools() {
    let text = "
tenants:
  - { id: part, rate_limit: { sustained: { rate: 100 }, budget: { mode: shared, total: 50 } } }
  - { id: acme, parent: part }
";
    for tenant in ["part", "acme"] {
        let question = Question { tenant, ..ACME };
        let explained = explain(text, &question);
        let effective = explained.effective.as_ref().unwrap();
        let (sustained, burst) = (&effective.sustained, &effective.burst);
        assert_eq!(
            (sustained.rate, &*sustained.window, &*sustained.from),
            (50, "second", "pool:part")
        );
        assert_eq!((burst.capacity, &*burst.from), (50, "pool:part"));
        let told = explained.to_string();
        assert!(told.contains("tenant tree: at most 50 a second (set by pool:part)"), "{told}");
    }
}

#[test]
fn hybrid_is_the_default_where_nodes_count_together_and_quotas_lease() {
    let text = "
rate_limit_sync: { enabled: true }
plans:
  free:
    rate_limit: { sustained: { rate: 10 } }
    operations: { chat: { sustained: { rate: 1 }, consistency: strict } }
    quota: { limit: 5, window: day }
tenants: [{ id: acme, plan: free }]
";
    let words: Vec<String> = policy(text)
        .limits()
        .iter()
        .filter(|limit| !limit.source().starts_with("default"))
        .map(|limit| format!("{:?}", limit.consistency()))
        .collect();
    assert_eq!(words, ["Hybrid", "Strict", "Lease"]);
}

#[test]
fn questions_without_an_answer_say_why() {
    let policy = policy(LAW);
    for (question, why) in [
        (Question { tenant: "acne", ..ACME }, "there is no tenant `acne`, did you mean `acme`?"),
        (Question { plan: Some("por"), ..ACME }, "there is no plan `por`, did you mean `pro`?"),
        (
            Question { route: Some("GET /nowhere"), ..ACME },
            "no route is for `GET /nowhere`: it is answered with 404",
        ),
        (
            Question { route: Some("nonsense"), ..ACME },
            "`nonsense` is no request: write a method and a path, as in `POST /v1/x`",
        ),
    ] {
        assert_eq!(policy.explain(&question).unwrap_err().to_string(), why);
    }
}
