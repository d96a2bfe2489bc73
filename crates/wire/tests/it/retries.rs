//! How long to stay away, in every form that servers say it in.

use std::time::Duration;

use tollgate_wire::read::read;

use crate::{NOW, headers};

type Rows = &'static [(&'static str, &'static str)];

#[test]
fn every_form_of_delay_is_read() {
    let rows: [(Rows, Option<u64>); 18] = [
        (&[("retry-after", "120")], Some(120_000)),
        (&[("retry-after", "1.5")], Some(1_500)),
        (&[("retry-after", "Fri, 15 Jan 2027 08:01:00 GMT")], Some(60_000)),
        (&[("retry-after", "Friday, 15-Jan-27 08:01:00 GMT")], Some(60_000)),
        (&[("retry-after", "Fri Jan 15 08:01:00 2027")], Some(60_000)),
        (&[("retry-after", "Fri, 15 Jan 2027 07:00:00 GMT")], Some(0)),
        (&[("retry-after", "20s")], Some(20_000)),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "-5")], None),
        (&[("retry-after", "99999999999")], None),
        (&[("retry-after-ms", "250"), ("retry-after", "1")], Some(250)),
        (&[("retry-after-ms", "x"), ("retry-after", "1")], Some(1_000)),
        (&[("retry-after-ms", "-1"), ("retry-after", "1")], Some(1_000)),
        (&[("x-ratelimit-retry-after-ms", "7")], Some(7)),
        (&[("grpc-retry-pushback-ms", "40")], Some(40)),
        (&[("grpc-retry-pushback-ms", "-1")], None),
        (&[("grpc-status-details-bin", "!!!!")], None),
        (&[], None),
    ];
    for (rows, millis) in rows {
        let said = read(&headers(rows), NOW);
        assert_eq!(said.retry_after, millis.map(Duration::from_millis), "{rows:?}");
    }
}

#[test]
fn a_date_is_read_by_the_servers_own_clock() {
    let rows = [
        ("date", "Fri, 15 Jan 2027 09:00:00 GMT"),
        ("retry-after", "Fri, 15 Jan 2027 09:00:10 GMT"),
    ];
    assert_eq!(read(&headers(&rows), NOW).retry_after, Some(Duration::from_secs(10)));
}

/// As grpcio's status library packs it: `Status { code: 8, message: "slow", details: [RetryInfo 2.5 s] }`.
#[test]
fn retry_info_of_other_servers_is_read_padded_or_not() {
    let bare =
        "CAgSBHNsb3caNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIAhCAyrXuAQ";
    for text in [bare.to_owned(), format!("{bare}==")] {
        let said = read(&headers(&[("grpc-status-details-bin", &text)]), NOW);
        assert_eq!(said.retry_after, Some(Duration::from_millis(2_500)), "{text}");
    }
}

#[test]
fn whether_to_come_back_is_read() {
    let rows: [(Rows, Option<bool>); 7] = [
        (&[("x-should-retry", "false")], Some(false)),
        (&[("x-should-retry", "True")], Some(true)),
        (&[("x-should-retry", "maybe")], None),
        (&[("grpc-retry-pushback-ms", "-1")], Some(false)),
        (&[("grpc-retry-pushback-ms", "soon")], Some(false)),
        (&[("grpc-retry-pushback-ms", "5")], Some(true)),
        (&[], None),
    ];
    for (rows, expected) in rows {
        assert_eq!(read(&headers(rows), NOW).should_retry, expected, "{rows:?}");
    }
}
