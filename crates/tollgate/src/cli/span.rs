//! Spans of time as people write them: `90s`, `15m`, `24h`, `30d`, `2w`.

use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tollgate_engine::{Clock, SystemClock};

/// A span of whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) const fn seconds(self) -> u64 {
        self.0
    }

    /// The moment so long from now, as RFC 3339 writes it; nothing if no calendar has it.
    pub(crate) fn ahead(self) -> Option<String> {
        let now = i128::from(SystemClock::new().now().as_nanos());
        let now = Timestamp::from_nanosecond(now).ok()?;
        let span = SignedDuration::try_from(Duration::from_secs(self.0)).ok()?;
        let then = now.checked_add(span).ok()?;
        Some(Timestamp::from_second(then.as_second()).ok()?.to_string())
    }
}

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Span, &'static str> {
        let right = "write a number and a unit: `90s`, `15m`, `24h`, `30d` or `2w`";
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(right)?;
        let (number, unit) = text.split_at(digits);
        let seconds: u64 = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return Err(right),
        };
        number.parse::<u64>().ok().and_then(|n| n.checked_mul(seconds)).map(Span).ok_or(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("15m", 900), ("24h", 86_400), ("2w", 1_209_600)]
        {
            assert_eq!(text.parse(), Ok(Span(seconds)), "{text}");
        }
        for text in ["", "90", "h", "-1h", "1.5h", "1y", "99999999999999999999d", "1 h"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert_eq!(Span(u64::MAX).ahead(), None);
    }
}
