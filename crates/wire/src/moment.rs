//! Moments as RFC 3339 writes them.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use crate::page::Page;

/// How long a moment's text is up to the year 9999.
pub(crate) const LENGTH: usize = 20;

/// The first second of the year 10000.
const TOO_LATE: u64 = 253_402_300_800;

/// Whether a moment has no text of that length.
pub(crate) fn is_too_late(secs: u64) -> bool {
    secs >= TOO_LATE
}

/// Writes a moment in UTC, by seconds since the epoch.
pub(crate) fn write(page: &mut Page, secs: u64) {
    if let Some(text) = text(secs) {
        return page.bytes(&text);
    }
    let secs = i64::try_from(secs).unwrap_or(i64::MAX);
    let stamp = Timestamp::from_second(secs).unwrap_or(Timestamp::MAX);
    // Into memory it cannot fail.
    let _ = DateTimePrinter::new().print_timestamp(&stamp, page.bytes_mut());
}

/// The text of a moment before the year 10000. A refusal tells one, and a calendar for all purposes takes six times as long.
///
/// The day is found as in Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013), `civil_from_days`: in years that begin in
/// March, so that a leap day is the last of its year.
pub(crate) fn text(secs: u64) -> Option<[u8; LENGTH]> {
    if is_too_late(secs) {
        return None;
    }
    let (days, second) = (secs / 86_400 + 719_468, secs % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + later;
    let mut text = *b"0000-00-00T00:00:00Z";
    let figures = [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, second / 3_600),
        (14, second / 60 % 60),
        (17, second % 60),
    ];
    for (at, figure) in figures {
        text[at] += (figure / 10) as u8;
        text[at + 1] += (figure % 10) as u8;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_calendar(secs: u64) -> String {
        Timestamp::from_second(secs as i64).unwrap().to_string()
    }

    #[test]
    fn it_is_what_the_calendar_says() {
        let step = 86_400 * 7 + 3_607;
        for secs in (0..TOO_LATE).step_by(step * 11).chain([951_782_399, 951_782_400, 951_868_800])
        {
            let text = text(secs).unwrap();
            assert_eq!(str::from_utf8(&text).unwrap(), of_calendar(secs), "{secs}");
        }
    }

    #[test]
    fn every_day_of_four_hundred_years_is_what_the_calendar_says() {
        for day in 0..146_097 {
            let secs = 1_800_000_000 + day * 86_400;
            assert_eq!(str::from_utf8(&text(secs).unwrap()).unwrap(), of_calendar(secs), "{secs}");
        }
    }

    #[test]
    fn what_no_calendar_has_is_its_last_moment() {
        assert_eq!(text(TOO_LATE), None);
        assert_eq!(str::from_utf8(&text(TOO_LATE - 1).unwrap()).unwrap(), "9999-12-31T23:59:59Z");
        for secs in [TOO_LATE, u64::MAX] {
            let mut page = Page::default();
            write(&mut page, secs);
            assert!(page.as_bytes().starts_with(b"9999-12-3"), "{page:?}");
        }
    }
}
