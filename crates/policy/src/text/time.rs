//! Instants and time zones.

use std::fmt;
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;

use super::{Right, Text, own_text, text_value};

/// The IANA name of a time zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct ZoneName(Box<str>);

impl Default for ZoneName {
    fn default() -> ZoneName {
        ZoneName("UTC".into())
    }
}

impl Text for ZoneName {
    const FORMAT: &'static str = "time-zone";
    const PATTERN: &'static str = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$";

    fn read(text: &str) -> Result<ZoneName, Right> {
        let is_right = |b: u8| b.is_ascii_alphanumeric() || b"_+-".contains(&b);
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.split('/').all(|part| !part.is_empty() && part.bytes().all(is_right));
        let zone = if is_name { TimeZone::get(text).ok() } else { None };
        match zone {
            // Its own letters, whichever were written: balances are called by it, and another spelling must not begin another.
            Some(zone) if !zone.is_unknown() => {
                Ok(ZoneName(zone.iana_name().unwrap_or(text).into()))
            }
            _ => Err("write the IANA name of a time zone, such as `UTC` or `Europe/Vienna`".into()),
        }
    }
}

own_text!(ZoneName);

/// An instant, as RFC 3339 writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Instant(#[schemars(with = "String")] Timestamp);

impl Instant {
    /// As a timestamp.
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }

    /// In nanoseconds since the epoch, which is the earliest.
    pub fn time(self) -> tollgate_core::Time {
        let nanos = u64::try_from(self.0.as_nanosecond().max(0)).unwrap_or(u64::MAX);
        tollgate_core::Time::from_nanos(nanos)
    }
}

/// The years 0 to 2261 of UTC.
const SECONDS: Range<i64> = -62_167_219_200..9_214_646_400;

impl Text for Instant {
    const FORMAT: &'static str = "date-time";
    // 63 bits of nanoseconds, which is what storages count in, end in 2262.
    const PATTERN: &'static str = "^([01][0-9]{3}|2[01][0-9]{2}|22[0-5][0-9]|226[01])-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\
                                   (\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$";

    fn read(text: &str) -> Result<Instant, Right> {
        // The parser also reads forms that other programs do not.
        if !is_rfc_3339(text) {
            return Err("write an instant with its zone, such as `2027-01-31T00:00:00Z` or \
                        `2027-01-31T00:00:00+01:00`"
                .into());
        }
        let parsed: Result<Timestamp, _> = text.parse();
        let instant = parsed.map_err(|_| "write a day and an hour that there are")?;
        // It is written in UTC, and must be read again.
        if text.as_bytes() >= b"2262".as_slice() || !SECONDS.contains(&instant.as_second()) {
            return Err("write an instant of the years 0 to 2261".into());
        }
        Ok(Instant(instant))
    }
}

fn is_rfc_3339(text: &str) -> bool {
    let has_form = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                _ => byte == wanted,
            })
    };
    let Some((local, rest)) = text.split_at_checked(19) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if !(1..=9).contains(&(fraction.len() - zone.len())) {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_offset = zone.starts_with(['+', '-']) && has_form(&zone[1..], "00:00");
    has_form(local, "0000-00-00T00:00:00") && (zone == "Z" || is_offset)
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_value!(Instant);
