//! Figures that make no sense are refused with what would.

use proptest::prelude::*;
use tollgate_core::{Counter, Kind, Limit, MAX_CAPACITY, Period, Rate, Time, Window};

use crate::traces::{KINDS, scaled, window};

#[test]
fn every_error_says_what_would_be_right() {
    let bucket = Limit::token_bucket;
    let rows = [
        (bucket(Rate::per_second(0)).build(), "write a rate of at least 1"),
        (bucket(Rate::per_second(1)).burst(0).build(), "write a capacity of at least 1"),
        (bucket(Rate::per_second(1_000_000_001)).build(), "at most 1000000000 a second"),
        (bucket(Rate::per_day(u64::MAX)).build(), "at most 86400000000000 a day"),
        (bucket(Rate::per_day(1)).burst(u64::MAX).build(), "write at most 9007199254740992"),
        (Limit::fixed_window(Rate::per_day(10)).burst(20).build(), "leave out the capacity of 20"),
        (Limit::sliding_window(Rate::per_day(10)).burst(9).build(), "write 10 or choose"),
        (Limit::sliding_window_log(Rate::per_day(65_537)).build(), "its rate is at most 65536"),
        (Limit::gcra(Rate::per_day(1)).paced().build(), "choose leaky_bucket"),
        (Limit::of(Kind::Quota, Rate::per_day(1)).build(), "make it with Limit::quota"),
        (Limit::quota(0, Period::Month, "UTC"), "write a capacity of at least 1"),
        (Limit::quota(1, Period::Month, "Mars/Olympus"), "`Mars/Olympus` is not a time zone"),
    ];
    for (result, says) in rows {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(says), "{error:?} should say {says:?}");
    }
}

#[test]
fn the_ends_of_every_range_are_good() {
    for kind in [Kind::TokenBucket, Kind::LeakyBucket, Kind::Gcra] {
        Limit::of(kind, Rate::per_day(1)).burst(MAX_CAPACITY).build().unwrap();
        Limit::of(kind, Rate::per_second(1_000_000_000)).burst(1).build().unwrap();
    }
    Limit::fixed_window(Rate::per_day(86_400_000_000_000)).build().unwrap();
    Limit::sliding_window(Rate::per_day(86_400_000_000_000)).build().unwrap();
    Limit::sliding_window_log(Rate::per_second(65_536)).burst(65_536).build().unwrap();
    Limit::quota(MAX_CAPACITY, Period::Year, "Pacific/Kiritimati").unwrap();
}

/// Every scale is as likely as any other, and so are the ends.
fn figure() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 20 => scaled(u64::MAX)]
}

const ZONES: [&str; 3] = ["UTC", "Europe/Vienna", "Pacific/Apia"];

fn zone() -> impl Strategy<Value = String> {
    prop_oneof![proptest::sample::select(&ZONES[..]).prop_map(str::to_owned), ".{0,20}"]
}

fn counts(limit: Limit, cost: u64, now: u64) -> Result<(), TestCaseError> {
    let (mut counter, now) = (Counter::new(limit), Time::from_nanos(now));
    let most = counter.limit().capacity();
    prop_assert_eq!(counter.take(cost, now).is_allowed(), cost <= most);
    prop_assert!(counter.standing(now).remaining <= most);
    Ok(())
}

proptest! {
    /// Neither to build nor to count under, where they make sense.
    #[test]
    fn no_figures_panic(
        kind in proptest::sample::select(&KINDS[..]), tokens in figure(), window in window(),
        burst in proptest::option::of(figure()), paced: bool, cost: u64, now: u64
    ) {
        let builder = Limit::of(kind, Rate::new(tokens, window));
        let builder = burst.map_or(builder, |capacity| builder.burst(capacity));
        let builder = if paced { builder.paced() } else { builder };
        if let Ok(limit) = builder.build() {
            prop_assert!(tokens > 0 && limit.capacity() > 0);
            prop_assert_eq!(limit.rate(), Some(Rate::new(tokens, window)));
            counts(limit, cost, now)?;
        } else {
            let good = (1..=Rate::MAX_PER_SECOND * window.secs()).contains(&tokens)
                && burst.is_some_and(|capacity| (1..=MAX_CAPACITY).contains(&capacity));
            prop_assert!(!good || !kind.has_burst() || paced, "{kind:?} refused good figures");
        }
    }

    #[test]
    fn no_quota_panics(limit in figure(), zone in zone(), cost: u64, now: u64) {
        for period in Period::ALL {
            if let Ok(limit) = Limit::quota(limit, period, &zone) {
                counts(limit, cost, now)?;
            } else {
                prop_assert!(!(1..=MAX_CAPACITY).contains(&limit) || !ZONES.contains(&&*zone));
            }
        }
    }

    #[test]
    fn rates_compare_as_fractions(a: u64, b: u64, x in window(), y in window()) {
        let expected = (u128::from(a) * u128::from(y.secs())).cmp(&(u128::from(b) * u128::from(x.secs())));
        prop_assert_eq!(Rate::new(a, x).compare(Rate::new(b, y)), expected);
        prop_assert_eq!(Rate::new(b, y).compare(Rate::new(a, x)), expected.reverse());
    }
}

#[test]
fn windows_have_their_names_and_lengths() {
    let rows = [
        (Window::Second, "second", 1),
        (Window::Minute, "minute", 60),
        (Window::Hour, "hour", 3_600),
        (Window::Day, "day", 86_400),
    ];
    for (window, name, secs) in rows {
        assert_eq!((window.name(), window.secs()), (name, secs));
    }
}
