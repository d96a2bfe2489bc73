//! Questions about usage.

use std::fmt;
use std::str::FromStr;

use tollgate_core::Time;
use tollgate_policy::{KeyId, TenantId};

use super::Totals;
use crate::StoreError;

/// A day, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(u32);

impl Day {
    /// The last day there is.
    pub const MAX: Day = Day((Time::MAX.as_nanos() / Day::NANOS) as u32);

    const NANOS: u64 = 86_400_000_000_000;

    /// The day that this moment is in.
    pub const fn of(moment: Time) -> Day {
        Day((moment.as_nanos() / Day::NANOS) as u32)
    }

    /// Its number, counted from 1970-01-01.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The day with this number, [`Day::MAX`] at the latest.
    pub const fn from_number(number: u32) -> Day {
        if number > Day::MAX.0 { Day::MAX } else { Day(number) }
    }

    /// So many days before it, the first day at the earliest.
    pub const fn before(self, days: u32) -> Day {
        Day(self.0.saturating_sub(days))
    }
}

/// Year, month and day of a day's number, by the civil-from-days algorithm of Howard Hinnant.
fn civil(number: u32) -> (u32, u32, u32) {
    let days = number + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u32::from(month <= 2), month, day)
}

impl fmt::Display for Day {
    /// As ISO 8601 writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Text that is not a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADay;

impl fmt::Display for NotADay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a day from 1970 on, such as 2027-01-31")
    }
}

impl std::error::Error for NotADay {}

impl FromStr for Day {
    type Err = NotADay;

    fn from_str(text: &str) -> Result<Day, NotADay> {
        let instant: tollgate_policy::Instant =
            format!("{text}T00:00:00Z").parse().map_err(|_| NotADay)?;
        let seconds = u64::try_from(instant.timestamp().as_second()).map_err(|_| NotADay)?;
        Ok(Day::of(Time::from_secs(seconds)))
    }
}

/// What the rows of an answer are told apart by. Without any there is one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// By tenant.
    pub tenant: bool,
    /// By key.
    pub key: bool,
    /// By route.
    pub route: bool,
    /// By plan.
    pub plan: bool,
    /// By day.
    pub day: bool,
}

/// A question about usage.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only this key's.
    pub key: Option<KeyId>,
    /// The first day.
    pub from: Day,
    /// The last day.
    pub to: Day,
    /// What rows are told apart by.
    pub group_by: Grouping,
    /// Where it begins; with the first row if nothing.
    pub after: Option<UsageCursor>,
    /// The most rows of one answer.
    pub at_most: usize,
}

impl UsageQuery {
    /// The most rows an answer has unless more are asked for.
    pub const ROWS: usize = 100_000;

    /// All usage of these days, in one row.
    pub fn days(from: Day, to: Day) -> UsageQuery {
        let group_by = Grouping::default();
        let (tenant, key, after) = (None, None, None);
        UsageQuery { tenant, key, from, to, group_by, after, at_most: UsageQuery::ROWS }
    }

    /// The names of the row after which it begins: tenant, key, route, plan and day, empty where it is not grouped by them.
    pub(crate) fn begins_after(&self) -> Result<Option<([&str; 4], u32)>, StoreError> {
        let Some(UsageCursor(row)) = &self.after else { return Ok(None) };
        let UsageRow { tenant, key, route, plan, day, .. } = &**row;
        let by = Grouping {
            tenant: tenant.is_some(),
            key: key.is_some(),
            route: route.is_some(),
            plan: plan.is_some(),
            day: day.is_some(),
        };
        if by != self.group_by {
            return Err(StoreError::BadCursor);
        }
        let names = [tenant, key, route, plan].map(|name| name.as_deref().unwrap_or_default());
        Ok(Some((names, day.map_or(0, Day::number))))
    }
}

/// Where the rows of an answer go on: after the one with these names, whichever have come or gone since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCursor(Box<UsageRow>);

impl fmt::Display for UsageCursor {
    /// In letters and digits, so that it stands in an address as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UsageRow { tenant, key, route, plan, day, .. } = &*self.0;
        let names = serde_json::json!([tenant, key, route, plan, day.map(Day::number)]);
        f.write_str("u")?;
        names.to_string().bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for UsageCursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<UsageCursor, StoreError> {
        type Names = (Option<String>, Option<String>, Option<String>, Option<String>, Option<u32>);
        let read = || {
            let digits = text.strip_prefix('u')?.as_bytes();
            let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok();
            let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
            let (tenant, key, route, plan, day): Names = serde_json::from_slice(&bytes?).ok()?;
            let day = day.map(Day::from_number);
            Some(UsageRow { tenant, key, route, plan, day, ..UsageRow::default() })
        };
        read().map(|row| UsageCursor(Box::new(row))).ok_or(StoreError::BadCursor)
    }
}

/// Rows of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsagePage {
    /// The rows, by their names.
    pub rows: Vec<UsageRow>,
    /// Where the next ones begin; nothing if these are the last.
    pub next: Option<UsageCursor>,
}

impl UsagePage {
    /// These rows, after which there are more.
    pub(crate) fn of(rows: Vec<UsageRow>, has_more: bool) -> UsagePage {
        let next = rows.last().filter(|_| has_more).map(|row| UsageCursor(Box::new(row.clone())));
        UsagePage { rows, next }
    }
}

/// A row of an answer. What it was not grouped by is left out; a caller without a key, or without a plan, is `""`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageRow {
    /// The tenant.
    pub tenant: Option<String>,
    /// The key's id.
    pub key: Option<String>,
    /// The route.
    pub route: Option<String>,
    /// The plan.
    pub plan: Option<String>,
    /// The day.
    pub day: Option<Day>,
    /// All requests, refused ones too.
    pub requests: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// Tokens consumed.
    pub tokens: u64,
}

impl UsageRow {
    /// What a group of these names came to: tenant, key, route, plan and day, of which only those are told that it is grouped by.
    pub(crate) fn of(
        by: Grouping,
        ([tenant, key, route, plan], day): ([&str; 4], u32),
        Totals { requests, refusals, tokens }: Totals,
    ) -> UsageRow {
        let told = |is_grouped: bool, name: &str| is_grouped.then(|| name.to_owned());
        UsageRow {
            tenant: told(by.tenant, tenant),
            key: told(by.key, key),
            route: told(by.route, route),
            plan: told(by.plan, plan),
            day: by.day.then(|| Day::from_number(day)),
            requests,
            refusals,
            tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is() {
        let named = UsageRow {
            tenant: Some("acme".to_owned()),
            route: Some("GET /ü,\"".to_owned()),
            day: Some(Day::from_number(20_819)),
            ..UsageRow::default()
        };
        for row in [named, UsageRow::default()] {
            let cursor = UsageCursor(Box::new(row));
            let text = cursor.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
            assert_eq!(text.parse(), Ok(cursor));
        }
        for text in ["", "u", "u5b", "u5b5d", "c1", "u7", "uzz", "u+1", "ü"] {
            assert_eq!(text.parse::<UsageCursor>(), Err(StoreError::BadCursor), "{text}");
        }
    }

    #[test]
    fn days_are_written_and_read_as_the_calendar_has_them() {
        let rows = [
            (0, "1970-01-01"),
            (789, "1972-02-29"),
            (19_782, "2024-02-29"),
            (20_819, "2027-01-01"),
        ];
        for (number, text) in rows {
            assert_eq!(Day::from_number(number).to_string(), text);
            assert_eq!(text.parse(), Ok(Day::from_number(number)));
        }
        for day in (0..60_000).map(Day::from_number) {
            assert_eq!(day.to_string().parse(), Ok(day));
        }
        for text in ["", "2027-02-29", "2027-1-1", "1969-12-31", "2027-01-01T00:00:00Z"] {
            assert_eq!(text.parse::<Day>(), Err(NotADay), "{text}");
        }
    }
}
