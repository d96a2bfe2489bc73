//! What other servers really send, and what is read of it.

use std::time::Duration;

use tollgate_wire::read::{Seen, read};

use crate::{NOW, headers};

fn seen(name: &str, limit: u64, remaining: u64) -> Seen {
    Seen {
        name: name.to_owned(),
        limit: Some(limit),
        remaining: Some(remaining),
        ..Seen::default()
    }
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}

fn limits(rows: &[(&str, &str)]) -> Vec<Seen> {
    let mut limits = read(&headers(rows), NOW).limits;
    limits.sort_by(|a, b| a.name.cmp(&b.name));
    limits
}

#[test]
fn github() {
    let rows = [
        ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "4987"),
        ("x-ratelimit-reset", "1800001350"),
        ("x-ratelimit-used", "13"),
        ("x-ratelimit-resource", "core"),
    ];
    let core = Seen { reset_after: secs(1_350), is_resource: true, ..seen("core", 5_000, 4_987) };
    assert_eq!(limits(&rows), [core]);
}

#[test]
fn openai() {
    let rows = [
        ("x-ratelimit-limit-requests", "10000"),
        ("x-ratelimit-remaining-requests", "9999"),
        ("x-ratelimit-reset-requests", "8.64s"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    let requests =
        Seen { reset_after: Some(Duration::from_millis(8_640)), ..seen("requests", 10_000, 9_999) };
    let tokens = Seen { reset_after: secs(360), ..seen("tokens", 150_000, 149_984) };
    assert_eq!(limits(&rows), [requests, tokens]);
}

#[test]
fn cloudflare() {
    let rows = [
        ("ratelimit", r#""default";r=50;t=30"#),
        ("ratelimit-policy", r#""default";q=1200;w=300"#),
    ];
    let expected = Seen { reset_after: secs(30), window: secs(300), ..seen("default", 1_200, 50) };
    assert_eq!(limits(&rows), [expected]);
}

#[test]
fn kong() {
    let rows = [
        ("RateLimit-Limit", "60"),
        ("RateLimit-Remaining", "59"),
        ("RateLimit-Reset", "37"),
        ("X-RateLimit-Limit-Minute", "60"),
        ("X-RateLimit-Remaining-Minute", "59"),
        ("X-RateLimit-Limit-Hour", "1000"),
        ("X-RateLimit-Remaining-Hour", "999"),
    ];
    let expected = [
        Seen { reset_after: secs(37), ..seen("", 60, 59) },
        Seen { window: secs(3_600), ..seen("hour", 1_000, 999) },
        Seen { window: secs(60), ..seen("minute", 60, 59) },
    ];
    assert_eq!(limits(&rows), expected);
}

#[test]
fn envoy() {
    let rows = [
        ("x-ratelimit-limit", r#"100, 1000;w=3600;name="hour", 100;w=60;name="minute""#),
        ("x-ratelimit-remaining", "99"),
        ("x-ratelimit-reset", "37"),
    ];
    let expected = Seen { reset_after: secs(37), window: secs(60), ..seen("", 100, 99) };
    assert_eq!(limits(&rows), [expected]);
}

#[test]
fn others() {
    let twitter = [
        ("x-rate-limit-limit", "15"),
        ("x-rate-limit-remaining", "0"),
        ("x-rate-limit-reset", "1800000900"),
    ];
    assert_eq!(limits(&twitter), [Seen { reset_after: secs(900), ..seen("", 15, 0) }]);

    let discord = [
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "4"),
        ("x-ratelimit-reset", "1800000001.250"),
        ("x-ratelimit-reset-after", "1.250"),
        ("x-ratelimit-bucket", "abcd1234"),
    ];
    let reset_after = Some(Duration::from_millis(1_250));
    assert_eq!(limits(&discord), [Seen { reset_after, ..seen("", 5, 4) }]);

    let anthropic = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2027-01-15T08:00:30Z"),
    ];
    assert_eq!(limits(&anthropic), [Seen { reset_after: secs(30), ..seen("requests", 50, 49) }]);

    let millis = [("x-ratelimit-limit", "5"), ("x-ratelimit-reset", "1800000005000")];
    let expected = Seen { limit: Some(5), reset_after: secs(5), ..Seen::default() };
    assert_eq!(limits(&millis), [expected]);

    let draft_07 =
        [("ratelimit", "limit=100, remaining=50, reset=5"), ("ratelimit-policy", "100;w=10")];
    let expected = Seen { reset_after: secs(5), window: secs(10), ..seen("", 100, 50) };
    assert_eq!(limits(&draft_07), [expected]);
}

#[test]
fn a_server_whose_clock_is_off_is_read_by_its_own() {
    // Ten minutes behind us.
    let rows = [
        ("date", "Fri, 15 Jan 2027 07:50:00 GMT"),
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-reset", "1799999430"),
    ];
    assert_eq!(limits(&rows)[0].reset_after, secs(30));
}

#[test]
fn malformed_structured_fields_leave_the_older_names() {
    for malformed in ["\"a;r=1", "\"a\";r=x", "(((", "a, b", "1;r=2", "\"a\"", "\"a\";r=-4", ""] {
        let rows = [("ratelimit", malformed), ("x-ratelimit-remaining", "7")];
        let expected = Seen { remaining: Some(7), ..Seen::default() };
        assert_eq!(limits(&rows), [expected], "{malformed}");
    }
    let policy = [("ratelimit", "\"a\";r=1"), ("ratelimit-policy", ";;;")];
    assert_eq!(limits(&policy), [Seen { name: "a".into(), remaining: Some(1), ..Seen::default() }]);
}

#[test]
fn absurd_values_are_left_out_or_brought_to_what_is_possible() {
    let row = |name: &str, value: &str| limits(&[(name, value), ("x-ratelimit-limit", "5")]);
    assert_eq!(row("x-ratelimit-remaining", "-3")[0].remaining, Some(0));
    for nonsense in ["", "many", "NaN", "inf", "1e300", "0x10", "--1", "1.2.3"] {
        assert_eq!(row("x-ratelimit-remaining", nonsense)[0].remaining, None, "{nonsense}");
    }
    assert_eq!(row("x-ratelimit-reset", "-5")[0].reset_after, secs(0));
    assert_eq!(row("x-ratelimit-reset", "1500000000")[0].reset_after, secs(0));
    for date in
        ["Fri, 15 Jan 2027 08:01:00 GMT", "2027-01-15T08:01:00Z", "2027-01-15T08:01:00Z;w=60"]
    {
        assert_eq!(row("x-ratelimit-reset", date)[0].reset_after, secs(60), "{date}");
    }
    let far = ["999999999", "99999999999", "9999999999999999999999", "1s1", "5x", "9999999h"];
    for nonsense in far {
        assert_eq!(row("x-ratelimit-reset", nonsense)[0].reset_after, None, "{nonsense}");
    }
}

#[test]
fn no_response_makes_many_limits() {
    let names: Vec<String> = (0..1_000).map(|n| format!("x-ratelimit-remaining-{n}")).collect();
    let rows: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(read(&headers(&rows), NOW).limits.len(), 16);
    let long: String = (0..400).map(|n| format!("\"{n}\";r=1, ")).collect();
    let list = long.trim_end_matches(", ");
    assert_eq!(read(&headers(&[("ratelimit", list)]), NOW).limits.len(), 16);
}

#[test]
fn a_limit_that_is_told_twice_is_one() {
    let twice = [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "99"),
        ("x-ratelimit-reset", "1800000060"),
        ("ratelimit-policy", "100;w=60"),
        ("ratelimit-limit", "100"),
        ("ratelimit-remaining", "99"),
        ("ratelimit-reset", "60"),
    ];
    let seen = limits(&twice);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((seen[0].limit, seen[0].remaining), (Some(100), Some(99)));
    assert_eq!(seen[0].reset_after, secs(60));

    // Where they do not agree, the tighter one counts, with what only the other tells.
    let two = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "4000"),
        ("x-ratelimit-reset", "30"),
        ("ratelimit-limit", "60"),
        ("ratelimit-remaining", "3"),
    ];
    for rows in [two.to_vec(), two.iter().rev().copied().collect()] {
        let seen = limits(&rows);
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!((seen[0].limit, seen[0].remaining), (Some(60), Some(3)));
        assert_eq!(seen[0].reset_after, secs(30));
    }
    let same = [("ratelimit", r#""a";r=5;t=9, "a";r=3;t=9, "b";r=1"#)];
    let seen = limits(&same);
    assert_eq!(seen.iter().map(|seen| seen.remaining).collect::<Vec<_>>(), [Some(3), Some(1)]);
}

#[test]
fn a_window_of_no_length_is_none() {
    let rows = [
        [("ratelimit", "limit=100, remaining=50, reset=5"), ("ratelimit-policy", "100;w=0")],
        [("ratelimit", r#""a";r=5"#), ("ratelimit-policy", r#""a";q=9;w=0"#)],
        [("x-ratelimit-limit", "100, 100;w=0"), ("x-ratelimit-remaining", "5")],
    ];
    for row in rows {
        assert_eq!(limits(&row)[0].window, None, "{row:?}");
    }
}
