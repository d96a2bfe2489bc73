//! Refusals as gRPC.

use std::time::Duration;

use http::StatusCode;
use tollgate_core::Refusal;
use tollgate_wire::read::read;
use tollgate_wire::{Code, Problem, Refused, Report, is_grpc};

use crate::{NOW, headers, per_second, text};

#[test]
fn a_refused_call_ends_in_trailers_only() {
    let lines = [per_second(10, 100, 0).refusal(Some(Refusal::Wait(1_500_000_000)))];
    let response = Refused::by_limit(&Report::refused(&lines, 0, NOW), "req-1").grpc();
    assert_eq!(response.status(), 200);
    assert!(response.body().is_empty());
    let rows = [
        ("content-type", "application/grpc"),
        ("grpc-status", "8"),
        ("retry-after-ms", "1500"),
        ("grpc-retry-pushback-ms", "1500"),
        ("x-request-id", "req-1"),
        ("x-ratelimit-remaining", "0"),
        ("grpc-message", "The limit user-second of plan:free is used up. Try again in 2 seconds."),
    ];
    for (name, value) in rows {
        assert_eq!(text(response.headers(), name), Some(value), "{name}");
    }
    // Status { code: 8, message, details: [Any { RetryInfo { retry_delay: 1 s, 500,000,000 ns } }] }
    let details = text(response.headers(), "grpc-status-details-bin").unwrap();
    assert!(!details.contains('='), "{details}");
    let mut only = http::HeaderMap::new();
    only.insert("grpc-status-details-bin", details.parse().unwrap());
    assert_eq!(read(&only, NOW).retry_after, Some(Duration::from_millis(1_500)));
}

#[test]
fn a_call_that_never_passes_is_pushed_back_for_good() {
    let lines = [per_second(10, 100, 100).cost(101).refusal(Some(Refusal::Never))];
    let response = Refused::by_limit(&Report::refused(&lines, 0, NOW), "r").grpc();
    assert_eq!(text(response.headers(), "grpc-status"), Some("8"));
    assert_eq!(text(response.headers(), "grpc-retry-pushback-ms"), Some("-1"));
    assert_eq!(text(response.headers(), "retry-after-ms"), None);
    assert_eq!(text(response.headers(), "grpc-status-details-bin"), None);
    assert_eq!(read(response.headers(), NOW).should_retry, Some(false));
}

#[test]
fn backpressure_is_resource_exhausted_too() {
    let wait = Duration::from_millis(30);
    let response = Refused::by_backpressure("upstream:api", wait, "r").grpc();
    assert_eq!(text(response.headers(), "grpc-status"), Some("8"));
    assert_eq!(text(response.headers(), "retry-after-ms"), Some("30"));
}

#[test]
fn faults_have_the_codes_of_grpcs_own_table() {
    let rows = [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (413, Code::Internal),
        (429, Code::ResourceExhausted),
        (431, Code::Internal),
        (500, Code::Internal),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (418, Code::Internal),
        (302, Code::Unknown),
    ];
    for (status, code) in rows {
        assert_eq!(Code::of(StatusCode::from_u16(status).unwrap()), code, "{status}");
    }
    let response = Problem::unauthorized().instance("r").grpc();
    assert_eq!(text(response.headers(), "grpc-status"), Some("16"));
    assert_eq!(response.status(), 200);
}

#[test]
fn messages_are_percent_encoded() {
    let problem = Problem::new(StatusCode::BAD_GATEWAY).detail("100% of «api» is down\n");
    let response = problem.grpc();
    let expected = "100%25 of %C2%ABapi%C2%BB is down%0A";
    assert_eq!(text(response.headers(), "grpc-message"), Some(expected));
}

#[test]
fn calls_are_known_by_their_content_type() {
    let rows = [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("Application/GRPC;charset=utf-8", true),
        ("application/json", false),
        ("application/gr", false),
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpc-web-text", false),
        ("application/grpcs", false),
    ];
    for (kind, expected) in rows {
        assert_eq!(is_grpc(&headers(&[("content-type", kind)])), expected, "{kind}");
    }
    assert!(!is_grpc(&headers(&[])));
}
