//! What the `Date` header says, written once a second instead of once a response.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// The time of day as headers tell it (RFC 9110, 5.6.7), always 29 bytes.
#[derive(Debug)]
pub(crate) struct Date {
    second: Cell<u64>,
    text: Cell<[u8; LENGTH]>,
}

const LENGTH: usize = 29;

impl Default for Date {
    fn default() -> Date {
        let date =
            Date { second: Cell::new(0), text: Cell::new(*b"Thu, 01 Jan 1970 00:00:00 GMT") };
        date.refresh();
        date
    }
}

impl Date {
    /// Looks at the clock; to be called several times a second.
    #[expect(
        clippy::disallowed_methods,
        reason = "tells the time of day, and decides nothing by it"
    )]
    pub(crate) fn refresh(&self) {
        self.set(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs());
    }

    fn set(&self, second: u64) {
        if self.second.replace(second) == second {
            return;
        }
        let stamp =
            i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
        let text =
            stamp.and_then(|stamp| DateTimePrinter::new().timestamp_to_rfc9110_string(&stamp).ok());
        if let Some(text) = text.and_then(|text| text.into_bytes().try_into().ok()) {
            self.text.set(text);
        }
    }

    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&self.text.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_headers_want_it() {
        let date = Date::default();
        for (second, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_794_793_349, "Mon, 16 Nov 2026 01:42:29 GMT"),
        ] {
            date.set(second);
            let mut written = Vec::new();
            date.write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), text);
        }
    }
}
