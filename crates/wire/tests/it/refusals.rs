//! Refusals and other faults as HTTP.

use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tollgate_core::Refusal;
use tollgate_wire::{Line, Problem, Refused, Report};

use crate::{NOW, per_second, text};

fn body(response: &Response<bytes::Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn refused(line: Line<'static>, refusal: Refusal) -> [Line<'static>; 1] {
    [line.refusal(Some(refusal))]
}

#[test]
fn a_limit_refuses_with_429_and_says_everything_it_knows() {
    let lines = [
        per_second(10, 100, 3).cost(10).refusal(Some(Refusal::Wait(700_000_000))),
        per_second(5, 50, 20).nth(2),
        per_second(1, 10, 2).nth(3).cost(10).refusal(Some(Refusal::Wait(7_000_000_001))),
    ];
    let report = Report::refused(&lines, 2, NOW);
    let response = Refused::by_limit(&report, "req-1").http();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let rows = [
        ("content-type", "application/problem+json"),
        ("cache-control", "no-store"),
        ("retry-after", "8"),
        ("retry-after-ms", "7001"),
        ("x-ratelimit-retry-after-ms", "7001"),
        ("x-request-id", "req-1"),
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "2"),
        ("ratelimit", r#""user-second-3";r=2;t=8"#),
    ];
    for (name, value) in rows {
        assert_eq!(text(response.headers(), name), Some(value), "{name}");
    }
    let message = "The limit user-second-3 of plan:free is used up. Try again in 8 seconds.";
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Rate limit exceeded",
        "status": 429,
        "detail": message,
        "instance": "req-1",
        "violated-policies": ["user-second-3", "user-second"],
        "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": message,
            "retryAfter": 8,
            "limit": 10,
            "remaining": 2,
            "resetAt": "2027-01-15T08:00:08Z",
            "policy": "user-second-3",
            "source": "plan:free",
        },
    });
    assert_eq!(body(&response), expected);
}

#[test]
fn retry_after_is_never_zero() {
    let lines = refused(per_second(1_000_000, 10, 0), Refusal::Wait(1));
    let response = Refused::by_limit(&Report::refused(&lines, 0, NOW), "r").http();
    assert_eq!(text(response.headers(), "retry-after"), Some("1"));
    assert_eq!(text(response.headers(), "retry-after-ms"), Some("1"));
}

#[test]
fn a_cost_that_never_passes_is_told_so_and_not_to_come_back() {
    let lines = refused(per_second(10, 100, 100).cost(200), Refusal::Never);
    let response = Refused::by_limit(&Report::refused(&lines, 0, NOW), "r").http();
    assert_eq!(response.status(), 429);
    for absent in ["retry-after", "retry-after-ms", "x-ratelimit-retry-after-ms"] {
        assert_eq!(text(response.headers(), absent), None, "{absent}");
    }
    assert_eq!(text(response.headers(), "x-should-retry"), Some("false"));
    let error = &body(&response)["error"];
    assert_eq!(error["code"], "COST_EXCEEDS_LIMIT");
    assert_eq!(error["retryAfter"], Value::Null);
    let message = "This request costs 200, and the limit user-second of plan:free admits at most \
                   100: it can never pass.";
    assert_eq!(error["message"], message);
}

#[test]
fn silenced_limit_headers_leave_retry_after() {
    let lines = refused(per_second(10, 100, 0), Refusal::Wait(100_000_000));
    let report = Report::refused(&lines, 0, NOW);
    let response = Refused::by_limit(&report, "r").limit_headers(false).http();
    assert_eq!(text(response.headers(), "retry-after"), Some("1"));
    assert_eq!(text(response.headers(), "retry-after-ms"), Some("100"));
    let limits = ["x-ratelimit-limit", "x-ratelimit-limit-second", "ratelimit", "ratelimit-policy"];
    for absent in limits {
        assert_eq!(text(response.headers(), absent), None, "{absent}");
    }
    assert_eq!(body(&response)["error"]["remaining"], 0);
}

#[test]
fn backpressure_refuses_with_503_and_milliseconds() {
    let wait = Duration::from_millis(1_230);
    let response = Refused::by_backpressure("upstream:api", wait, "req-2").http();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let rows = [
        ("retry-after", "2"),
        ("retry-after-ms", "1230"),
        ("x-ratelimit-retry-after-ms", "1230"),
        ("cache-control", "no-store"),
        ("x-request-id", "req-2"),
    ];
    for (name, value) in rows {
        assert_eq!(text(response.headers(), name), Some(value), "{name}");
    }
    let body = body(&response);
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(body["type"], kind);
    assert_eq!(body["violated-policies"], json!([]));
    assert_eq!(body["error"]["source"], "upstream:api");
    assert_eq!(body["error"]["retryAfter"], 2);
}

#[test]
fn any_text_in_a_source_leaves_the_body_json() {
    let nasty: String = (0..0x80u8).map(char::from).chain("é\u{2028}😀".chars()).collect();
    let lines = [per_second(1, 1, 0).refusal(Some(Refusal::Wait(1))).source(&nasty)];
    let response = Refused::by_limit(&Report::refused(&lines, 0, NOW), &nasty).http();
    let body = body(&response);
    assert_eq!(body["error"]["source"], nasty.as_str());
    assert_eq!(body["instance"], nasty.as_str());
    assert!(body["detail"].as_str().unwrap().contains(&nasty));
    // No header can hold it.
    assert_eq!(text(response.headers(), "x-request-id"), None);
}

#[test]
fn nobody_learns_why_a_key_is_not_accepted() {
    let response = Problem::unauthorized().instance("req-3").http();
    assert_eq!(response.status(), 401);
    let challenge = text(response.headers(), "www-authenticate");
    assert_eq!(challenge, Some("Bearer realm=\"tollgate\""));
    assert_eq!(text(response.headers(), "x-request-id"), Some("req-3"));
    assert_eq!(body(&response)["title"], "Unauthorized");
}

#[test]
fn a_problem_carries_members_of_its_own_but_not_in_place_of_the_standard_ones() {
    let problem = Problem::new(StatusCode::CONFLICT)
        .kind("https://tollgate.dev/problems/budget-exceeded")
        .title("Budget exceeded")
        .detail("Children would sum to 120 of 100.")
        .member("total", 100)
        .member("status", 200);
    let response = problem.http();
    assert_eq!(response.status(), 409);
    let expected = json!({
        "type": "https://tollgate.dev/problems/budget-exceeded",
        "title": "Budget exceeded",
        "status": 409,
        "detail": "Children would sum to 120 of 100.",
        "total": 100,
    });
    assert_eq!(body(&response), expected);
}
