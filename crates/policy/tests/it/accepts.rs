//! What is accepted, and what it comes out as.

use tollgate_policy::shapes::{
    Algorithm, BudgetMode, Consistency, DefaultLimit, Defaults, File, Scope, Sharing, Strategy,
    Window,
};
use tollgate_policy::{AccessLog, load};

use crate::FULL;

fn read(text: &str) -> File {
    load("test.yaml", text.as_bytes()).unwrap_or_else(|faults| panic!("{faults}")).value
}

#[test]
fn every_field_is_read() {
    let file = read(FULL);
    assert_eq!(file.server.trusted_proxies.len(), 3);
    assert_eq!(file.server.tls.unwrap().cert.as_str(), "cert.pem");
    assert!(
        matches!(file.defaults.client, DefaultLimit::Given(limit) if limit.sustained.rate == 50)
    );
    assert_eq!(file.defaults.tenant, DefaultLimit::Off);

    let names: Vec<_> = file.upstreams.keys().map(tollgate_policy::UpstreamName::as_str).collect();
    assert_eq!(names, ["api", "spare"], "in the order of the file");
    assert_eq!(file.upstreams["spare"].urls().len(), 2);
    assert_eq!(file.upstreams["api"].urls()[0].authority(), "127.0.0.1:3000");

    let costs: Vec<_> = file.routes.iter().map(|r| r.rate_limit.as_ref().unwrap().cost).collect();
    assert_eq!(costs, [Some(10), Some(0), None]);
    assert_eq!(file.plans["pro"].operations["chat"].sustained.window, Window::Minute);
    assert_eq!(file.plans["free"].quota.as_slice().len(), 1);
    assert_eq!(file.plans["pro"].quota.as_slice().len(), 2);

    let limit = file.tenants[0].rate_limit.as_ref().unwrap();
    assert_eq!((limit.sharing, limit.cost), (Sharing::Enforce, 2));
    assert_eq!((limit.budget.mode, limit.budget.total), (BudgetMode::Allocated, Some(800)));
    assert_eq!(limit.budget.overcommit_ratio.to_bits(), 1.5f64.to_bits());
    assert_eq!(limit.terms.burst.as_ref().unwrap().capacity, 500);
    assert_eq!(limit.terms.strategy, Strategy::Queue);
    assert!(!limit.terms.response_headers);
    assert_eq!(limit.terms.degrade.upstream.as_ref().unwrap().as_str(), "spare");
    assert_eq!(limit.terms.consistency, Some(Consistency::Local));

    let key = &file.keys[0];
    assert_eq!(key.sha256.as_bytes()[0], 0x9f);
    assert_eq!(key.expires_at.unwrap().to_string(), "2027-01-31T00:00:00Z");
    assert_eq!(key.rate_limit.as_ref().unwrap().terms.algorithm, Algorithm::Gcra);
}

#[test]
fn every_default_is_as_documented() {
    let file = read("{}");
    assert_eq!(file, File::default());
    assert_eq!(file.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(file.server.admin_listen.to_string(), "127.0.0.1:9090");
    assert_eq!(file.server.access_log, AccessLog::None);
    assert_eq!(file.server.drain_timeout_ms, 30_000);
    assert_eq!(file.auth.header.as_str(), "x-api-key");
    assert_eq!((file.auth.failures.rate, file.auth.failures.capacity), (10, 50));
    assert_eq!(file.redis.url.as_str(), "redis://127.0.0.1:6379");
    assert_eq!((file.redis.timeout_ms, file.redis.prefix.as_str()), (50, "tollgate"));
    assert_eq!(file.rate_limit_sync.sync_interval_ms, 100);
    assert_eq!((file.counters.max_keys, file.usage.retention_days), (1_000_000, 400));
    assert!(file.defaults.client.is_built_in() && file.defaults.tenant.is_built_in());
    assert_eq!(Defaults::built_in_client().terms.scope, Scope::User);

    let file = read("tenants: [{ id: a, rate_limit: { sustained: { rate: 5 } } }]");
    let limit = file.tenants[0].rate_limit.as_ref().unwrap();
    assert_eq!((limit.sharing, limit.budget.mode), (Sharing::Private, BudgetMode::Unlimited));
    assert_eq!((limit.sustained.window, limit.cost), (Window::Second, 1));
    assert_eq!(limit.terms.algorithm, Algorithm::TokenBucket);
    assert_eq!((limit.terms.scope, limit.terms.strategy), (Scope::Tenant, Strategy::Reject));
    assert!(limit.terms.response_headers && limit.terms.burst.is_none());
    assert_eq!((limit.terms.queue.max_wait_ms, limit.terms.queue.max_depth), (1000, 100));
    assert_eq!(limit.terms.consistency, None);
}

#[test]
fn whole_number_may_be_written_in_any_way() {
    for text in ["1000", "+1000", "1e3", "1000.0", "1.0e+3", "0x3e8", "0o1750", "10000e-1"] {
        let file = read(&format!("counters: {{ max_keys: {text} }}"));
        assert_eq!(file.counters.max_keys, 1000, "{text}");
    }
}

#[test]
fn alias_repeats_a_value() {
    let text = "\
plans:
  free: &free { rate_limit: &slow { sustained: { rate: 5 } } }
  trial: *free
keys: [{ tenant: a, sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', rate_limit: *slow }]
";
    let file = read(text);
    assert_eq!(file.plans["free"], file.plans["trial"]);
    assert_eq!(file.keys[0].rate_limit, file.plans["free"].rate_limit);
}

#[test]
fn what_is_written_is_read_again() {
    for text in [FULL, "{}", "storage: { redis: true }", "defaults: { client: null }"] {
        let file = read(text);
        assert_eq!(read(&serde_json::to_string(&file).unwrap()), file);
    }
}
