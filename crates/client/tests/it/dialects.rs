//! What other servers send when nothing is left, and how long the client then stays away.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tollgate_client::{Ask, Pacer, Settings};

use crate::headers;

type Rows = &'static [(&'static str, &'static str)];

/// Each says 30 s in its own way; epochs are seen from the date that comes with them.
const NOTHING_LEFT: [(&str, u16, Rows); 11] = [
    (
        "GitHub",
        200,
        &[
            ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1800000030"),
            ("x-ratelimit-used", "5000"),
            ("x-ratelimit-resource", "core"),
        ],
    ),
    (
        "GitHub, refused",
        403,
        &[
            ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1800000030"),
        ],
    ),
    ("GitHub's secondary limit", 429, &[("retry-after", "30")]),
    ("GitHub's secondary limit, as it also comes", 403, &[("retry-after", "30")]),
    (
        "OpenAI, tokens",
        200,
        &[
            ("x-ratelimit-limit-requests", "10000"),
            ("x-ratelimit-remaining-requests", "9999"),
            ("x-ratelimit-reset-requests", "8.64s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "0m30s"),
        ],
    ),
    ("OpenAI, refused", 429, &[("retry-after-ms", "30000"), ("retry-after", "30")]),
    (
        "Cloudflare",
        429,
        &[
            ("ratelimit", r#""default";r=0;t=30"#),
            ("ratelimit-policy", r#""default";q=1200;w=300"#),
            ("retry-after", "30"),
        ],
    ),
    (
        "Kong",
        429,
        &[
            ("ratelimit-limit", "60"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "30"),
            ("x-ratelimit-limit-hour", "1000"),
            ("x-ratelimit-remaining-hour", "700"),
            ("retry-after", "30"),
        ],
    ),
    (
        "Envoy",
        200,
        &[
            ("x-ratelimit-limit", "100, 100;w=60"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "30"),
        ],
    ),
    (
        "a date",
        503,
        &[
            ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
            ("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT"),
        ],
    ),
    ("gRPC", 200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "30000")]),
];

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_time_that_a_server_gives_and_not_long_after() {
    for (who, status, rows) in NOTHING_LEFT {
        let pacer = Pacer::new(Settings::new().max_wait(Duration::from_secs(40)));
        let status = StatusCode::from_u16(status).unwrap();
        let permit = pacer.acquire(Ask::default()).await.unwrap();
        let heard = permit.heard(status, &headers(rows));
        let is_grpc_refusal = rows.contains(&("grpc-status", "8"));
        assert_eq!(heard.is_refused, status != StatusCode::OK || is_grpc_refusal, "{who}");
        let began = Instant::now();
        drop(pacer.acquire(Ask::default()).await.unwrap());
        let waited = began.elapsed().as_secs_f64();
        assert!((29.9..=31.2).contains(&waited), "{who}: {waited} s");
    }
}

/// Most of what is forbidden is so whoever asks how often.
#[tokio::test(start_paused = true)]
async fn what_is_forbidden_without_a_word_of_limits_is_no_refusal() {
    let rows: [Rows; 2] = [&[], &[("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", "59")]];
    for row in rows {
        let pacer = Pacer::new(Settings::new());
        let permit = pacer.acquire(Ask::default()).await.unwrap();
        assert!(!permit.heard(StatusCode::FORBIDDEN, &headers(row)).is_refused, "{row:?}");
        assert_eq!(pacer.status().next_in, Duration::ZERO, "{row:?}");
    }
}
