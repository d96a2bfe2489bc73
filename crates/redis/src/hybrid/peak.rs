//! The highest of late, however many read it and however often.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whoever reads no more seldom than this misses no peak.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The highest that was noted within the last minute, and for at most another.
#[derive(Debug)]
pub(super) struct Peak(Mutex<Minutes>);

#[derive(Debug)]
struct Minutes {
    began: Instant,
    highest: u64,
    before: u64,
}

impl Peak {
    pub(super) fn new(now: Instant) -> Peak {
        Peak(Mutex::new(Minutes { began: now, highest: 0, before: 0 }))
    }

    pub(super) fn note(&self, value: u64, now: Instant) {
        let mut minutes = self.0.lock();
        minutes.turn(now);
        minutes.highest = minutes.highest.max(value);
    }

    pub(super) fn read(&self, now: Instant) -> u64 {
        let mut minutes = self.0.lock();
        minutes.turn(now);
        minutes.highest.max(minutes.before)
    }
}

impl Minutes {
    fn turn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.began);
        if passed >= REMEMBERED {
            let is_next = passed < 2 * REMEMBERED;
            let before = if is_next { self.highest } else { 0 };
            let began = if is_next { self.began + REMEMBERED } else { now };
            *self = Minutes { began, highest: 0, before };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_stays_for_a_minute_and_is_gone_after_two() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let peak = Peak::new(begin);
        assert_eq!(peak.read(at(1)), 0);
        peak.note(7, at(30));
        peak.note(3, at(59));
        // What one reads, another reads too.
        assert_eq!((peak.read(at(59)), peak.read(at(59))), (7, 7));
        peak.note(5, at(70));
        assert_eq!(peak.read(at(89)), 7);
        assert_eq!(peak.read(at(119)), 7);
        assert_eq!(peak.read(at(120)), 5, "two minutes after it began");
        assert_eq!(peak.read(at(179)), 5);
        assert_eq!(peak.read(at(180)), 0);
        peak.note(9, at(200));
        assert_eq!(peak.read(at(1000)), 0, "nobody looked for long");
    }
}
