//! Calendar periods: leap days, month ends, years, and clocks that are turned.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use tollgate_core::{Counter, Limit, Period, Refusal, Time};

fn at(text: &str) -> Time {
    time(text.parse().unwrap())
}

fn time(stamp: Timestamp) -> Time {
    Time::from_nanos(stamp.as_nanosecond().try_into().unwrap())
}

fn resets(zone: &str, period: Period, now: Time) -> Time {
    let counter = Counter::new(Limit::quota(10, period, zone).unwrap());
    now + counter.standing(now).reset_after
}

/// zone, period, now, when the period ends
const TABLE: &[(&str, Period, &str, &str)] = &[
    // the leap day and its absence
    ("UTC", Period::Month, "2024-02-28T23:59:59Z", "2024-03-01T00:00:00Z"),
    ("UTC", Period::Day, "2024-02-28T23:59:59Z", "2024-02-29T00:00:00Z"),
    ("UTC", Period::Month, "2024-02-29T23:59:59.999999999Z", "2024-03-01T00:00:00Z"),
    ("UTC", Period::Month, "2023-02-28T12:00:00Z", "2023-03-01T00:00:00Z"),
    ("UTC", Period::Month, "2100-02-28T12:00:00Z", "2100-03-01T00:00:00Z"),
    // the 31st, and months after it that have none
    ("UTC", Period::Month, "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"),
    ("UTC", Period::Month, "2026-03-31T23:59:59Z", "2026-04-01T00:00:00Z"),
    ("UTC", Period::Month, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
    // boundaries belong to the period they begin
    ("UTC", Period::Month, "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
    ("UTC", Period::Day, "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"),
    // years
    ("UTC", Period::Year, "2024-12-31T23:59:59Z", "2025-01-01T00:00:00Z"),
    ("Pacific/Kiritimati", Period::Year, "2024-12-31T09:59:59Z", "2024-12-31T10:00:00Z"),
    ("America/Los_Angeles", Period::Year, "2025-01-01T07:59:59Z", "2025-01-01T08:00:00Z"),
    // weeks begin on Monday, across years too
    ("UTC", Period::Week, "2024-12-31T12:00:00Z", "2025-01-06T00:00:00Z"),
    ("UTC", Period::Week, "2025-01-06T00:00:00Z", "2025-01-13T00:00:00Z"),
    ("Asia/Tokyo", Period::Week, "2025-01-05T14:59:59Z", "2025-01-05T15:00:00Z"),
    // clocks forward: a day of 23 hours, months that end in another offset than they began
    ("America/New_York", Period::Day, "2024-03-10T12:00:00Z", "2024-03-11T04:00:00Z"),
    ("Europe/Vienna", Period::Month, "2024-03-15T00:00:00Z", "2024-03-31T22:00:00Z"),
    ("Australia/Lord_Howe", Period::Day, "2024-10-05T20:00:00Z", "2024-10-06T13:00:00Z"),
    // clocks back: a day of 25 hours
    ("America/New_York", Period::Day, "2024-11-03T12:00:00Z", "2024-11-04T05:00:00Z"),
    ("Europe/Vienna", Period::Month, "2024-10-15T00:00:00Z", "2024-10-31T23:00:00Z"),
    ("Europe/London", Period::Year, "2024-06-01T00:00:00Z", "2025-01-01T00:00:00Z"),
    // midnight skipped: the day begins at one o'clock
    ("America/Sao_Paulo", Period::Day, "2018-11-04T02:59:59Z", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", Period::Day, "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
    ("Africa/Cairo", Period::Day, "2024-04-25T21:59:59Z", "2024-04-25T22:00:00Z"),
    // midnight twice: the day begins at the first stroke, and only once
    ("America/Havana", Period::Day, "2024-11-03T03:59:59Z", "2024-11-03T04:00:00Z"),
    ("America/Havana", Period::Day, "2024-11-03T05:30:00Z", "2024-11-04T05:00:00Z"),
    ("America/St_Johns", Period::Day, "2006-10-29T02:29:59Z", "2006-10-29T02:30:00Z"),
    ("America/St_Johns", Period::Day, "2006-10-29T03:00:00Z", "2006-10-30T03:30:00Z"),
    // a whole day skipped
    ("Pacific/Apia", Period::Day, "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z"),
    ("Pacific/Apia", Period::Day, "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
    ("Pacific/Apia", Period::Month, "2011-12-15T00:00:00Z", "2011-12-31T10:00:00Z"),
    // offsets that are not whole hours
    ("Asia/Kolkata", Period::Month, "2026-01-31T18:29:59Z", "2026-01-31T18:30:00Z"),
    ("Asia/Kathmandu", Period::Day, "2026-05-05T18:14:59Z", "2026-05-05T18:15:00Z"),
];

#[test]
fn periods_end_when_the_table_says() {
    for &(zone, period, now, end) in TABLE {
        let got = resets(zone, period, at(now));
        assert_eq!(got, at(end), "{zone} {period:?} at {now}");
    }
}

#[test]
fn one_limit_asked_about_many_periods_in_any_order_answers_the_same() {
    let limit = Limit::quota(10, Period::Day, "Europe/Vienna").unwrap();
    let begin = at("2026-03-20T00:00:00Z").as_nanos();
    for i in (0..400u64).map(|i| i * 7919 % 400) {
        let now = Time::from_nanos(begin + i * 3_600_000_000_000);
        let shared = Counter::new(limit.clone()).standing(now).reset_after;
        assert_eq!(now + shared, resets("Europe/Vienna", Period::Day, now));
    }
}

#[test]
fn a_quota_is_spent_refused_until_its_period_ends_and_whole_again() {
    let mut counter = Counter::new(Limit::quota(3, Period::Month, "UTC").unwrap());
    let now = at("2026-01-31T23:59:59Z");
    assert!(counter.take(2, now).is_allowed());
    assert_eq!(counter.take(4, now).refusal, Some(Refusal::Never));
    assert_eq!(counter.take(2, now).refusal, Some(Refusal::Wait(1_000_000_000)));
    assert_eq!(counter.standing(now).remaining, 1);
    let next = at("2026-02-01T00:00:00Z");
    assert_eq!(counter.take(1, next).standing.remaining, 2);
    // A clock set back does not bring January's balance, or a second one of its own.
    assert_eq!(counter.standing(now).remaining, 2);
}

#[test]
fn only_a_charge_of_the_running_period_is_given_back() {
    let mut counter = Counter::new(Limit::quota(3, Period::Month, "UTC").unwrap());
    let (january, february) = (at("2026-01-31T23:59:59Z"), at("2026-02-01T00:00:00Z"));
    let old = counter.charge(2, january);
    let new = counter.charge(1, february);
    counter.give_back(old, february);
    assert_eq!(counter.standing(february).remaining, 2);
    counter.give_back(new, february);
    assert_eq!(counter.standing(february).remaining, 3);
}

const ZONES: [&str; 9] = [
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "Europe/London",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
];

/// Quarter of an hour by quarter of an hour, until the calendar first shows a later period than ever before.
fn slow_end(zone: &TimeZone, period: Period, now: Timestamp) -> Timestamp {
    let label = |stamp: Timestamp| {
        let date = zone.to_datetime(stamp).date();
        match period {
            Period::Day => (date.year(), i16::from(date.month()), i16::from(date.day())),
            Period::Week => {
                let week = date.iso_week_date();
                (week.year(), i16::from(week.week()), 0)
            }
            Period::Month => (date.year(), i16::from(date.month()), 0),
            Period::Year => (date.year(), 0, 0),
        }
    };
    // What was shown in the day before counts: clocks turned back show it again.
    let mut seen = label(now);
    let mut stamp = Timestamp::from_second(now.as_second() / 900 * 900).unwrap();
    for back in 1..=96 {
        seen = seen.max(label(stamp - (back * 15).minutes()));
    }
    loop {
        stamp += 15.minutes();
        if label(stamp) > seen {
            return stamp;
        }
    }
}

proptest! {
    #[test]
    fn periods_end_where_a_walk_through_the_calendar_finds_it(
        zone in proptest::sample::select(&ZONES[..]),
        period in proptest::sample::select(&Period::ALL[..3]),
        second in 631_152_000i64..2_500_000_000
    ) {
        let now = Timestamp::from_second(second).unwrap();
        let slow = slow_end(&TimeZone::get(zone).unwrap(), period, now);
        prop_assert_eq!(resets(zone, period, time(now)), time(slow));
    }
}
