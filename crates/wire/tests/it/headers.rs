//! The limit headers of a response, to the character.

use http::HeaderMap;
use tollgate_core::{Kind, Limit, Period, PolicyName, Rate, Scope, Span, Time, Window};
use tollgate_wire::{Line, Report, degraded_by, names};

use crate::{NOW, headers, per_second, standing, text};

fn written(report: &Report<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    report.write(&mut headers);
    headers
}

fn month(remaining: u64) -> Line<'static> {
    let limit = Limit::quota(10_000, Period::Month, "UTC").unwrap();
    Line::of(&limit, Scope::User, standing(10_000, remaining, 86_400_000)).source("quota:free")
}

#[test]
fn one_limit_is_told_in_eight_headers() {
    let line = per_second(10, 100, 47);
    let headers = written(&Report::admitted(&[line], NOW));
    let rows = [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "47"),
        ("x-ratelimit-reset", "1800000006"),
        ("x-ratelimit-limit-second", "100"),
        ("x-ratelimit-remaining-second", "47"),
        ("x-ratelimit-reset-second", "1800000006"),
        ("ratelimit-policy", r#""user-second";q=100;w=10"#),
        ("ratelimit", r#""user-second";r=47;t=6"#),
    ];
    for (name, value) in rows {
        assert_eq!(text(&headers, name), Some(value), "{name}");
    }
    assert_eq!(headers.len(), rows.len());
}

/// Figures, limits and windows that come and go leave nothing of the ones before.
#[test]
fn headers_of_a_thread_are_each_what_their_report_says() {
    let (second, other) = (per_second(10, 100, 47), per_second(20, 200, 9));
    let chains: [&[Line<'_>]; 7] = [
        &[second],
        &[per_second(10, 100, 46)],
        &[other],
        &[second, month(30)],
        &[second, month(3)],
        &[],
        &[second],
    ];
    for lines in chains {
        for now in [NOW, Time::from_secs(1_800_000_099), NOW] {
            let report = Report::admitted(lines, now);
            assert_eq!(report.headers(), written(&report), "{lines:?}");
        }
    }
}

#[test]
fn limit_headers_join_what_a_service_says_of_other_things() {
    let many: Vec<_> = (0..30).map(|n| (format!("x-{n}"), n.to_string())).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let services: [&[(&str, &str)]; 9] = [
        &[],
        &[("vary", "accept")],
        &[("content-length", "5")],
        &[("content-type", "text/plain")],
        &[("content-length", "5"), ("content-type", "text/plain")],
        &[("set-cookie", "a=1"), ("set-cookie", "b=2"), ("vary", "accept")],
        &[("vary", "accept"), ("content-type", "text/plain"), ("content-type", "text/html")],
        &[("x-ratelimit-limit", "9"), ("x-ratelimit-limit-day", "9"), ("ratelimit", "x")],
        &many,
    ];
    let lines = [per_second(10, 100, 47), month(30)];
    for service in services {
        for report in [Report::admitted(&lines, NOW), Report::admitted(&[], NOW)] {
            let mut expected = headers(service);
            names::strip_limits(&mut expected);
            report.write(&mut expected);
            let mut put = headers(service);
            report.limit_headers().put(&mut put);
            assert_eq!(put, expected, "{service:?}");
        }
    }
}

#[test]
fn each_window_shows_its_tightest_and_the_tightest_of_all_is_reported() {
    let lines = [
        per_second(100, 1_000, 900),
        per_second(10, 100, 80).nth(2).source("tenant:acme"),
        month(30),
    ];
    let headers = written(&Report::admitted(&lines, NOW));
    assert_eq!(text(&headers, "x-ratelimit-remaining"), Some("30"));
    assert_eq!(text(&headers, "x-ratelimit-remaining-month"), Some("30"));
    assert_eq!(text(&headers, "x-ratelimit-remaining-second"), Some("80"));
    let policy = r#""user-second-2";q=100;w=10, "user-month";q=10000"#;
    assert_eq!(text(&headers, "ratelimit-policy"), Some(policy));
    let standing = r#""user-second-2";r=80;t=2, "user-month";r=30;t=86400"#;
    assert_eq!(text(&headers, "ratelimit"), Some(standing));
}

#[test]
fn tightest_counts_requests_of_their_cost_then_longer_to_full_then_chain_order() {
    let bucket = |nth: u16, remaining, reset, cost| {
        let name = PolicyName::new(Scope::User, Span::Second).nth(nth);
        Line::new(name, standing(100, remaining, reset)).cost(cost)
    };
    let rows = [
        // 50 tokens are 5 requests of cost 10; 20 are 20 of cost 1.
        ([bucket(1, 20, 8_000, 1), bucket(2, 50, 5_000, 10)], 2),
        ([bucket(1, 20, 8_000, 1), bucket(2, 20, 9_000, 1)], 2),
        ([bucket(1, 20, 8_000, 1), bucket(2, 20, 8_000, 1)], 1),
        // A cost of 0 only looks: it counts as 1.
        ([bucket(1, 20, 8_000, 0), bucket(2, 19, 8_000, 1)], 2),
    ];
    for (lines, expected) in rows {
        let report = Report::admitted(&lines, NOW);
        assert_eq!(report.reported().unwrap().name().ordinal(), expected, "{lines:?}");
        let name = report.reported().unwrap().name().to_string();
        assert!(text(&written(&report), "ratelimit").unwrap().starts_with(&format!("\"{name}\"")));
    }
}

#[test]
fn on_a_refusal_its_window_shows_the_reported_one() {
    // The second refuses, though the first has less left: a cost of 30.
    let lines = [per_second(10, 100, 5), per_second(10, 100, 20).cost(30).nth(2), month(0)];
    let headers = written(&Report::refused(&lines, 1, NOW));
    assert_eq!(text(&headers, "x-ratelimit-remaining"), Some("20"));
    assert_eq!(text(&headers, "x-ratelimit-remaining-second"), Some("20"));
    assert_eq!(text(&headers, "x-ratelimit-remaining-month"), Some("0"));
}

#[test]
fn resets_are_rounded_up_to_the_second_in_which_they_hold() {
    let now = Time::from_nanos(1_800_000_000_900_000_000);
    let line = Line::new(PolicyName::new(Scope::Ip, Span::Second), standing(5, 0, 200));
    let headers = written(&Report::admitted(&[line], now));
    assert_eq!(text(&headers, "x-ratelimit-reset"), Some("1800000002"));
    assert_eq!(text(&headers, "ratelimit"), Some(r#""ip-second";r=0;t=1"#));
}

#[test]
fn w_is_the_seconds_to_fill_the_bucket_or_the_window_and_absent_for_quotas() {
    let bucket = |rate, burst| Limit::token_bucket(rate).burst(burst).build().unwrap();
    let window = |kind| Limit::of(kind, Rate::new(5, Window::Hour)).build().unwrap();
    let rows = [
        (bucket(Rate::per_second(10), 100), Some(10)),
        (bucket(Rate::per_second(10), 101), Some(11)),
        (bucket(Rate::per_second(10), 1), Some(1)),
        (bucket(Rate::per_minute(60), 10), Some(10)),
        (bucket(Rate::per_day(1), 3), Some(3 * 86_400)),
        (window(Kind::FixedWindow), Some(3_600)),
        (window(Kind::SlidingWindow), Some(3_600)),
        (window(Kind::SlidingWindowLog), Some(3_600)),
        (Limit::quota(10, Period::Day, "UTC").unwrap(), None),
    ];
    for (limit, expected) in rows {
        assert_eq!(limit.window_secs(), expected, "{limit:?}");
    }
}

#[test]
fn figures_too_large_for_a_structured_field_are_cut_there_and_nowhere_else() {
    let name = PolicyName::new(Scope::Tenant, Span::Day);
    let line = Line::new(name, standing(1 << 53, (1 << 53) - 1, 1_000));
    let headers = written(&Report::admitted(&[line], NOW));
    assert_eq!(text(&headers, "x-ratelimit-limit"), Some("9007199254740992"));
    assert_eq!(text(&headers, "x-ratelimit-remaining-day"), Some("9007199254740991"));
    assert_eq!(text(&headers, "ratelimit"), Some(r#""tenant-day";r=999999999999999;t=1"#));
    assert_eq!(text(&headers, "ratelimit-policy"), Some(r#""tenant-day";q=999999999999999"#));
}

#[test]
fn without_limits_nothing_is_written() {
    assert!(written(&Report::admitted(&[], NOW)).is_empty());
    assert!(written(&Report::refused(&[], 3, NOW)).is_empty());
}

#[test]
fn what_an_upstream_says_under_our_names_does_not_get_through() {
    let mut map = headers(&[
        ("X-RateLimit-Limit", "1"),
        ("X-RateLimit-Limit", "2"),
        ("x-ratelimit-remaining-fortnight", "1"),
        ("x-ratelimit-degraded", "user-second"),
        ("x-ratelimit-retry-after-ms", "1"),
        ("retry-after-ms", "1"),
        ("ratelimit", "\"mine\";r=1"),
        ("ratelimit-policy", "\"mine\";q=1"),
        ("ratelimit-reset", "1"),
        ("x-request-id", "theirs"),
        ("retry-after", "120"),
        ("cache-control", "max-age=60"),
        ("www-authenticate", "Basic"),
        ("x-ratelimited", "no"),
        ("ratelimits", "no"),
        ("content-type", "text/plain"),
    ]);
    names::strip(&mut map);
    let mut left: Vec<&str> = map.keys().map(http::HeaderName::as_str).collect();
    left.sort_unstable();
    let kept = [
        "cache-control",
        "content-type",
        "ratelimits",
        "retry-after",
        "www-authenticate",
        "x-ratelimited",
    ];
    assert_eq!(left, kept);
}

#[test]
fn ours_take_the_place_of_what_was_there() {
    let mut map = headers(&[("x-ratelimit-limit", "7"), ("x-ratelimit-limit", "8")]);
    Report::admitted(&[per_second(10, 100, 47)], NOW).write(&mut map);
    let values: Vec<_> = map.get_all("x-ratelimit-limit").iter().collect();
    assert_eq!(values, ["100"]);
}

#[test]
fn a_degraded_request_names_the_limit_that_was_skipped() {
    let name = PolicyName::new(Scope::User, Span::Second).nth(12);
    assert_eq!(degraded_by(name).unwrap(), "user-second-12");
}
