//! Single values: counts, delays and moments in the spellings that servers have for them.

use std::time::Duration;

use jiff::Timestamp;
use tollgate_core::Time;

use super::LONGEST;

/// From this on a number of seconds is a moment, not a delay: it was 2001, and as a delay it is thirty years.
const EPOCH_SECS: f64 = 1e9;
/// From this on it is a moment in milliseconds.
const EPOCH_MILLIS: f64 = 1e11;

/// A count; one below zero is none. The first number of `100, 100;w=60` is meant.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = text.split([',', ';']).next()?.trim();
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    // Decimals, and more than was there: `-1`, `99.5`.
    let number = number(text)?;
    Some(number.max(0.0) as u64)
}

/// When a limit is reset, seen from `now`: a delay in seconds, a moment in seconds or milliseconds, a duration like
/// `6m0s`, or a date.
pub(super) fn reset(text: &str, now: Time) -> Option<Duration> {
    let first = text.split([',', ';']).next()?.trim();
    let moment = |nanos: f64| plausible(nanos / 1e9 - now.as_nanos() as f64 / 1e9);
    match number(first) {
        Some(number) if number >= EPOCH_MILLIS => moment(number * 1e6),
        Some(number) if number >= EPOCH_SECS => moment(number * 1e9),
        Some(number) => plausible(number),
        // A date has a comma of its own.
        None => until_date(text.trim(), now)
            .or_else(|| until_date(first, now))
            .or_else(|| duration(first)),
    }
}

/// How long until a date, in HTTP's or the internet's form.
pub(super) fn until_date(text: &str, now: Time) -> Option<Duration> {
    let date = http_date(text).or_else(|| internet_date(text))?;
    Some(date - now).filter(|delay| *delay <= LONGEST)
}

/// Seconds as a delay: none before now, and none that is longer than any limit's.
pub(super) fn plausible(secs: f64) -> Option<Duration> {
    let delay = Duration::try_from_secs_f64(secs.max(0.0)).ok()?;
    (delay <= LONGEST).then_some(delay)
}

/// A plain decimal number; not the infinities and exponents that Rust would read.
pub(super) fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    if digits.is_empty() || digits.len() > 32 || !digits.bytes().all(plain) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A duration as Go writes it: `1s`, `6m0s`, `20ms`, `1h30m`, `1d2h`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut secs = 0.0;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (figure, after) = rest.split_at(unit);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let each = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        secs += number(figure)? * each;
        rest = next;
    }
    if text.is_empty() { None } else { plausible(secs) }
}

/// HTTP's date in its three forms (RFC 9110, 5.6.7).
pub(super) fn http_date(text: &str) -> Option<Time> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Time::EPOCH + since)
}

/// RFC 3339.
fn internet_date(text: &str) -> Option<Time> {
    let stamp: Timestamp = text.parse().ok()?;
    u64::try_from(stamp.as_nanosecond()).ok().map(Time::from_nanos)
}
