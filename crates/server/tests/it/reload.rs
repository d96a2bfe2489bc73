//! What changes while the service runs.

use tollgate_server::{Limits, LoadError, Outcome};

use crate::support::{acme, ask, get, limits, policy};

fn rated(rate: u64) -> String {
    format!(
        "
plans: {{ free: {{ rate_limit: {{ sustained: {{ rate: {rate} }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: free }} ]
"
    )
}

#[tokio::test]
async fn another_policy_is_in_force_at_once_and_counters_keep_their_tokens() {
    let (limits, _) = limits(&rated(10));
    let mut service = acme(&limits);
    for _ in 0..7 {
        ask(&mut service, get("/")).await;
    }
    limits.reload(policy(&rated(20)));
    let answer = ask(&mut service, get("/")).await;
    assert_eq!(
        (answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
        ("20", "2")
    );
    limits.reload(policy(&rated(1)));
    assert_eq!(ask(&mut service, get("/")).await.header("x-ratelimit-limit"), "1");
    assert_eq!(ask(&mut service, get("/")).await.status, 429);
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.yaml");
    std::fs::write(&file, rated(10)).unwrap();
    let limits = Limits::from_file(&file).unwrap();
    std::fs::write(&file, "plans: { free: { rate_limit: { sustained: { rate: 0 } } } }").unwrap();
    let error = limits.reload_from_file(&file).unwrap_err();
    assert!(
        matches!(error, LoadError::Faulty(_)) && error.to_string().contains("limits.yaml:1:"),
        "{error}"
    );
    let answer = ask(&mut acme(&limits), get("/")).await;
    assert_eq!(answer.header("x-ratelimit-limit"), "10");
    std::fs::write(&file, rated(30)).unwrap();
    limits.reload_from_file(&file).unwrap();
    assert_eq!(ask(&mut acme(&limits), get("/")).await.header("x-ratelimit-limit"), "30");

    let missing = Limits::from_file(folder.path().join("none.yaml")).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read "), "{missing}");
}

#[tokio::test]
async fn while_too_much_is_pending_everybody_is_refused_and_nothing_is_charged() {
    let (limits, _) = limits(&rated(10));
    let mut service = acme(&limits);
    limits.set_pending(100);
    assert_eq!(ask(&mut service, get("/")).await.status, 200);
    limits.set_pending(150);
    let refused = ask(&mut service, get("/")).await;
    assert_eq!((refused.status.as_u16(), refused.verdict().outcome()), (503, Outcome::Overloaded));
    assert_eq!(refused.header("retry-after-ms"), "500");
    assert_eq!(refused.json()["error"]["code"], "BACKPRESSURE");
    assert_eq!(refused.json()["error"]["source"], "service");
    limits.backpressure().set_threshold(200);
    assert_eq!(ask(&mut service, get("/")).await.header("x-ratelimit-remaining"), "8");
}
