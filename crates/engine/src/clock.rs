//! The only place that reads a clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use tollgate_core::Time;

/// Tells the time. One clock serves buckets, windows and quotas alike.
pub trait Clock: Send + Sync {
    /// The present moment. It may stand still between two calls, but does not go backwards.
    fn now(&self) -> Time;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Time {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Time {
        (**self).now()
    }
}

/// The system's clock at the price of reading the processor's cycle counter.
///
/// Cycles since the start are added to the wall time of the start, and a few times a second the sum is
/// compared with the wall clock. Where that is ahead, the sum follows at once. Where it was set back,
/// the sum runs a little slower until both agree, because going back would stop every refill.
pub struct SystemClock {
    counter: quanta::Clock,
    /// The counter and the wall time at the start.
    origin: (u64, u64),
    /// What is added to cycles since the start, in nanoseconds.
    offset: AtomicI64,
    /// Never answer less than this.
    floor: AtomicU64,
    /// The counter's value from which on the wall clock is looked at again.
    next_look: AtomicU64,
    /// Counter steps between two looks.
    look_every: u64,
}

/// How long the cycle counter is trusted: its rate is known to some parts in a million.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Two clocks read within so many nanoseconds were read at once.
const AT_ONCE_NS: u64 = 20_000;

/// How often both are read at most until that succeeds.
const READS: usize = 8;

/// By which part of itself time is slowed after the wall clock was set back.
const SLOW_BY: u64 = 16;

impl SystemClock {
    /// A clock that agrees with the wall clock now.
    pub fn new() -> SystemClock {
        let counter = quanta::Clock::new();
        let origin = (counter.raw(), wall());
        // The counter's rate is only offered the other way round.
        let nanos_per_2_20 = counter.delta_as_nanos(0, 1 << 20).max(1);
        let look_every = (LOOK_EVERY.as_nanos() as u64).saturating_mul(1 << 20) / nanos_per_2_20;
        SystemClock {
            counter,
            origin,
            offset: AtomicI64::new(0),
            floor: AtomicU64::new(origin.1),
            next_look: AtomicU64::new(origin.0 + look_every),
            look_every,
        }
    }

    #[inline]
    fn nanos_at(&self, raw: u64) -> u64 {
        let since = self.counter.delta_as_nanos(self.origin.0, raw);
        let nanos = self.origin.1.wrapping_add(since);
        nanos.wrapping_add_signed(self.offset.load(Relaxed)).max(self.floor.load(Relaxed))
    }

    #[cold]
    fn look(&self, raw: u64, next_look: u64) {
        // One thread looks; the others go on with what they have.
        let next = raw + self.look_every;
        if self.next_look.compare_exchange(next_look, next, Relaxed, Relaxed).is_ok() {
            let both = || (self.counter.raw(), wall(), self.counter.raw());
            let (raw, wall) = at_once(both, |from, to| self.counter.delta_as_nanos(from, to));
            let ours = self.nanos_at(raw);
            self.floor.store(ours, Relaxed);
            self.offset.fetch_add(correction(ours, wall), Relaxed);
        }
    }
}

/// The counter and the wall clock at one moment. `both` reads the counter before and after the wall clock: a thread that
/// was stopped in between would take the stop for time that our clock has missed, so it reads again. Of several such the
/// shortest counts, from its middle.
fn at_once(both: impl FnMut() -> (u64, u64, u64), nanos: impl Fn(u64, u64) -> u64) -> (u64, u64) {
    let mut reads = std::iter::repeat_with(both).take(READS);
    let mut closest = (u64::MAX, 0, 0);
    while closest.0 > AT_ONCE_NS
        && let Some((before, wall, after)) = reads.next()
    {
        let middle = before + after.saturating_sub(before) / 2;
        closest = closest.min((nanos(before, after), middle, wall));
    }
    (closest.1, closest.2)
}

/// What to add to our time so that it comes closer to the wall clock's.
fn correction(ours: u64, wall: u64) -> i64 {
    let slowest = (LOOK_EVERY.as_nanos() as u64 / SLOW_BY) as i64;
    (i128::from(wall) - i128::from(ours)).clamp(i128::from(-slowest), i128::from(i64::MAX)) as i64
}

#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Time {
        let raw = self.counter.raw();
        let next_look = self.next_look.load(Relaxed);
        if raw >= next_look {
            self.look(raw, next_look);
        }
        Time::from_nanos(self.nanos_at(raw))
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemClock").field("now", &self.now()).finish()
    }
}

/// A clock that moves only when told to. Its clones show the same time.
///
/// ```
/// use std::time::Duration;
/// use tollgate_engine::{Clock, FakeClock};
///
/// let clock = FakeClock::default();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now() - before, Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<AtomicU64>);

impl FakeClock {
    /// A clock that stands at `now`.
    pub fn at(now: Time) -> FakeClock {
        FakeClock(Arc::new(AtomicU64::new(now.as_nanos())))
    }

    /// Moves on by `span`.
    pub fn advance(&self, span: Duration) {
        self.set(self.now() + span);
    }

    /// Moves to `now`, which may be earlier.
    pub fn set(&self, now: Time) {
        self.0.store(now.as_nanos(), Relaxed);
    }
}

impl Default for FakeClock {
    /// A clock that stands at the beginning of 2026, UTC.
    fn default() -> FakeClock {
        FakeClock::at(Time::from_secs(1_767_225_600))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_wall_clock_forward_at_once_and_back_slowly() {
        let second = 1_000_000_000;
        let rows = [
            (5 * second, 5 * second, 0),
            (5 * second, 9 * second, 4 * second as i64),
            (5 * second, 5 * second - 1000, -1000),
            (5 * second, second, -12_500_000),
        ];
        for (ours, wall, expected) in rows {
            assert_eq!(correction(ours, wall), expected);
        }
    }

    /// Stopped between the two clocks for five milliseconds, a thread put everybody's clock ahead by as much.
    #[test]
    fn a_thread_that_is_stopped_while_it_looks_does_not_move_the_clock() {
        let reads = |rows: &[(u64, u64, u64)]| {
            let mut rows = rows.iter().copied();
            at_once(move || rows.next().expect("read again in vain"), |from, to| to - from)
        };
        assert_eq!(reads(&[(100, 1_100, 200)]), (150, 1_100));
        assert_eq!(reads(&[(100, 5_001_100, 5_000_200), (5_000_300, 5_001_350, 5_000_400)]), {
            (5_000_350, 5_001_350)
        });
        // On a machine where it never succeeds the best will do.
        let mut slow = [(0, 500_000, 1_000_000); READS];
        slow[3] = (2_000_000, 2_100_000, 2_030_000);
        assert_eq!(reads(&slow), (2_015_000, 2_100_000));
    }

    /// Whatever the wall clock does, looking at it every time.
    #[test]
    fn system_clock_agrees_with_the_wall_and_never_goes_back() {
        let second = 1_000_000_000;
        for ahead in [0, -3 * second, 2 * second] {
            let clock = SystemClock::new();
            clock.offset.store(ahead, Relaxed);
            let begin = clock.now();
            let mut last = begin;
            for _ in 0..20_000 {
                clock.next_look.store(0, Relaxed);
                let now = clock.now();
                assert!(now >= last);
                last = now;
            }
            let earliest = wall() - 50_000_000;
            last = clock.now();
            // Where it is ahead it waits for the wall clock.
            let latest = wall().max(begin.as_nanos()) + 50_000_000;
            assert!((earliest..=latest).contains(&last.as_nanos()), "{ahead}: {last:?}");
        }
    }
}
