//! What is written is read back, and nothing that can be received makes the reader fail.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tollgate_core::{PolicyName, Refusal, Scope, Span, Standing, Time};
use tollgate_wire::read::{Seen, read};
use tollgate_wire::{HeadLines, Line, Refused, Report};

fn line() -> impl Strategy<Value = Line<'static>> {
    let scopes =
        prop::sample::select(&[Scope::Global, Scope::Tenant, Scope::User, Scope::Ip, Scope::Route]);
    let figures = (0u64..1 << 49, 0u64..1 << 49, 0u64..380 * 86_400_000, 1u64..50);
    let window = proptest::option::of(1u64..1_000_000);
    (scopes, prop::sample::select(&Span::ALL), 1u16..20, figures, window).prop_map(
        |(scope, span, nth, (limit, remaining, millis, cost), window)| {
            let reset_after = Duration::from_millis(millis);
            let standing = Standing { limit, remaining: remaining.min(limit), reset_after };
            let name = PolicyName::new(scope, span).nth(nth);
            Line::new(name, standing).cost(cost).seconds(window)
        },
    )
}

/// What is another in the next refusal.
#[derive(Clone, Debug)]
struct Change {
    remaining: u64,
    later: u64,
    source: &'static str,
    refusal: Refusal,
    refuses_all: bool,
    shows_limits: bool,
    is_windowed: bool,
    id: u8,
}

fn change() -> impl Strategy<Value = Change> {
    let remaining = prop_oneof![Just(0u64), 0u64..20, any::<u64>()];
    let later = prop_oneof![Just(0u64), 0u64..5_000, 0u64..1 << 40];
    let sources = prop::sample::select(&["plan:pro", "plan:max", "plan:\"\\\n", ""]);
    let waits =
        prop_oneof![1u64..3, Just(1_000_000_000), 900_000_000u64..2_100_000_000, 1u64..1 << 50]
            .prop_map(Refusal::Wait);
    let refusal = prop_oneof![8 => waits, 1 => Just(Refusal::Never)];
    let often = prop::bool::weighted(0.9);
    let flags = (prop::bool::weighted(0.2), often, often, 0u8..12);
    (remaining, later, sources, refusal, flags).prop_map(
        |(remaining, later, source, refusal, (refuses_all, shows_limits, is_windowed, id))| {
            Change { remaining, later, source, refusal, refuses_all, shows_limits, is_windowed, id }
        },
    )
}

fn ceil(time: Duration) -> Duration {
    Duration::from_secs(time.as_millis().div_ceil(1_000) as u64)
}

proptest! {
    #[test]
    fn lines_for_the_wire_and_a_map_say_the_same(
        lines in proptest::collection::vec(line(), 1..12),
        refused_for in proptest::option::of(1u64..1 << 40),
        shows_limits: bool,
    ) {
        let now = Time::from_secs(1_800_000_000);
        let (mut map, mut written) = (HeaderMap::new(), HeadLines::default());
        Report::admitted(&lines, now).write(&mut map);
        Report::admitted(&lines, now).write_lines(&mut written);
        let mut put = HeaderMap::new();
        written.put(&mut put);
        prop_assert_eq!(&map, &put);
        prop_assert_eq!(&map, &Report::admitted(&lines, now).headers());
        prop_assert_eq!(written.iter().count(), written.as_bytes().split(|b| *b == b'\n').count() - 1);

        let refusal = refused_for.map_or(Refusal::Never, Refusal::Wait);
        let lines: Vec<_> = lines.into_iter().map(|line| line.refusal(Some(refusal))).collect();
        let report = Report::refused(&lines, 0, now);
        let mut map = HeaderMap::new();
        report.write(&mut map);
        prop_assert_eq!(&map, &report.headers());
        let refused = Refused::by_limit(&report, "req-1").limit_headers(shows_limits);
        let response = refused.http();
        let mut written = HeadLines::default();
        let status = refused.http_lines(&mut written);
        let body = written.body();
        let mut put = HeaderMap::new();
        written.put(&mut put);
        prop_assert_eq!(response.headers(), &put);
        prop_assert_eq!((response.status(), &response.body()[..]), (status, body));
    }

    /// A thread keeps what it has written, and writes the next refusal over it.
    #[test]
    fn a_refusal_is_the_same_whatever_was_refused_before(
        lines in proptest::collection::vec(line(), 1..4),
        changes in proptest::collection::vec(change(), 1..24),
    ) {
        for (nth, change) in changes.iter().enumerate() {
            let changed = |(place, line): (usize, &Line<'static>)| {
                let Standing { limit, remaining, reset_after } = *line.standing();
                let standing = Standing {
                    limit,
                    remaining: remaining.wrapping_add(change.remaining) % (limit + 1),
                    reset_after: reset_after + Duration::from_millis(change.later),
                };
                let is_refused = place == 0 || change.refuses_all;
                Line::new(line.name(), standing)
                    .seconds(change.is_windowed.then_some(60))
                    .source(change.source)
                    .refusal(is_refused.then_some(change.refusal))
            };
            let lines: Vec<_> = lines.iter().enumerate().map(changed).collect();
            let report = Report::refused(&lines, 0, Time::from_secs(1_800_000_000 + change.later));
            let id = match change.id {
                0 => String::new(),
                1 => format!("a \"quoted\" id {nth}"),
                2 => "größer".to_owned(),
                3 => format!("request {nth}"),
                _ => format!("{nth:032x}"),
            };
            let refused = Refused::by_limit(&report, &id).limit_headers(change.shows_limits);
            let response = refused.http();
            let mut written = HeadLines::default();
            let status = refused.http_lines(&mut written);
        let body = written.body();
            let mut put = HeaderMap::new();
            written.put(&mut put);
            prop_assert_eq!(response.headers(), &put);
            prop_assert_eq!(written.iter().count(), put.len());
            prop_assert_eq!((response.status(), &response.body()[..]), (status, body));
        }
    }

    #[test]
    fn what_is_written_is_read_back(
        lines in proptest::collection::vec(line(), 1..12),
        nanos in 1_500_000_000_000_000_000u64..4_000_000_000_000_000_000,
    ) {
        let now = Time::from_nanos(nanos);
        let report = Report::admitted(&lines, now);
        let mut headers = HeaderMap::new();
        report.write(&mut headers);

        let said = read(&headers, now);
        prop_assert_eq!(said.retry_after, None);
        let spans = lines.iter().map(|line| line.name().span()).collect::<std::collections::BTreeSet<_>>();
        prop_assert_eq!(said.limits.len(), spans.len());
        let reported = report.reported().unwrap().name().to_string();
        prop_assert!(said.limits.iter().any(|seen| seen.name == reported));
        for seen in &said.limits {
            let known = |line: &&Line<'_>| {
                let shown = line.standing();
                seen.name == line.name().to_string()
                    && seen.limit == Some(shown.limit)
                    && seen.remaining == Some(shown.remaining)
                    && seen.reset_after == Some(ceil(shown.reset_after))
            };
            prop_assert!(lines.iter().any(|line| known(&line)), "{seen:?}");
        }

        // The older names say the same of the same limits.
        headers.remove("ratelimit");
        let older = read(&headers, now);
        let plain = older.limits.iter().find(|seen| seen.name.is_empty()).unwrap();
        let new: &Seen = said.limits.iter().find(|seen| seen.name == reported).unwrap();
        prop_assert_eq!(plain.remaining, new.remaining);
        prop_assert_eq!(plain.limit, new.limit);
        let (older, new) = (plain.reset_after.unwrap(), new.reset_after.unwrap());
        prop_assert!(older.abs_diff(new) <= Duration::from_secs(1), "{older:?} {new:?}");
    }

    #[test]
    fn a_refusals_wait_is_read_back_to_the_millisecond(nanos in 1u64..1_000_000_000_000_000) {
        let lines = [Line::new(
            PolicyName::new(Scope::User, Span::Second),
            Standing { limit: 1, remaining: 0, reset_after: Duration::from_nanos(nanos) },
        )
        .refusal(Some(Refusal::Wait(nanos)))];
        let report = Report::refused(&lines, 0, Time::from_secs(1_800_000_000));
        let refused = Refused::by_limit(&report, "r");
        let millis = Some(Duration::from_millis(nanos.div_ceil(1_000_000)));
        for mut response in [refused.http(), refused.grpc()] {
            prop_assert_eq!(read(response.headers(), Time::EPOCH).retry_after, millis);
            // And by each other way of saying it, no earlier.
            for name in ["retry-after-ms", "x-ratelimit-retry-after-ms", "grpc-retry-pushback-ms"] {
                response.headers_mut().remove(name);
            }
            prop_assert!(read(response.headers(), Time::EPOCH).retry_after >= millis);
        }
    }

    #[test]
    fn nothing_received_makes_reading_fail(
        fields in proptest::collection::vec((field(), value()), 0..20),
        now in any::<u64>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        let said = read(&headers, Time::from_nanos(now));
        let longest = tollgate_wire::read::LONGEST;
        prop_assert!(said.limits.len() <= 16);
        prop_assert!(said.retry_after.is_none_or(|delay| delay <= longest));
        for seen in said.limits {
            prop_assert!(seen.reset_after.is_none_or(|delay| delay <= longest));
            prop_assert!(seen.window.is_none_or(|window| window <= longest && !window.is_zero()));
        }
    }
}

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            "ratelimit",
            "ratelimit-policy",
            "ratelimit-limit",
            "ratelimit-remaining",
            "ratelimit-reset",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "x-ratelimit-reset-after",
            "x-ratelimit-resource",
            "x-ratelimit-limit-minute",
            "x-ratelimit-reset-tokens",
            "x-rate-limit-reset",
            "anthropic-ratelimit-requests-reset",
            "retry-after",
            "retry-after-ms",
            "x-should-retry",
            "grpc-retry-pushback-ms",
            "grpc-status-details-bin",
            "date",
        ][..],
    )
}

/// Any bytes, and texts that begin like what is expected.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let likely = "[-+]?[0-9]{0,25}[.]?[0-9]{0,12}(s|ms|h|d|m0s|;w=[0-9]{1,20}|, [0-9]+;w=0)?";
    let listed = "\"[a-z]{0,80}\";[rtqw]=-?[0-9]{1,15}(;[rtqw]=[0-9.]{1,15})?";
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        likely.prop_map(String::into_bytes),
        listed.prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{0,120}={0,2}".prop_map(String::into_bytes),
        "(limit|remaining|reset)=-?[0-9]{1,15}(, (limit|remaining|reset)=[0-9]{1,15}){0,2}"
            .prop_map(String::into_bytes),
        "(Mon|Fri), [0-9]{2} (Jan|Feb) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
            .prop_map(String::into_bytes),
    ]
}
