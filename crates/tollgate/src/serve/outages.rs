//! Says when limits cannot be counted in Redis, and when they are again: whoever finds requests refused or uncounted looks at the log first.
//!
//! Each outage is two lines, also one in which Redis comes and goes: it is over when Redis has stayed a while.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_policy::shapes::{self, Fallback};

use super::counting::Counting;
use crate::reach;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// How long Redis may take to be there at the start.
const FIRST: Duration = Duration::from_secs(2);
/// How long Redis has to stay before an outage is over.
const STEADY: Duration = Duration::from_secs(10);

/// Looks for ever, and says what changes.
pub(crate) async fn tell(counting: Counting, settings: shapes::File) {
    let mut outages = Outages::new(Instant::now());
    while let Some(state) = counting.sharing() {
        match outages.look(Instant::now(), (state.is_up, state.times_opened)) {
            Some(News::Begun) => tracing::error!(
                "limits cannot be counted in Redis at {}: {}; `tollgate doctor --config FILE` tells what is wrong",
                reach::shown(settings.redis.url.as_str()),
                meanwhile(settings.rate_limit_sync.fallback_on_error),
            ),
            Some(News::Over) => tracing::info!("limits are counted in Redis again"),
            None => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What becomes of requests.
fn meanwhile(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::LocalOnly => {
            "until they can, each node counts alone, up to its share (`fallback_on_error: local_only`)"
        }
        Fallback::FailOpen => {
            "until they can, requests pass uncounted (`fallback_on_error: fail_open`)"
        }
        Fallback::FailClosed => {
            "until they can, requests that they count are answered 503 (`fallback_on_error: fail_closed`)"
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Begun,
    Over,
}

/// What is known of outages, and whether the present one was told.
#[derive(Debug)]
struct Outages {
    begin: Instant,
    is_told: bool,
    times_opened: u64,
    up_since: Option<Instant>,
}

impl Outages {
    fn new(begin: Instant) -> Outages {
        Outages { begin, is_told: false, times_opened: 0, up_since: None }
    }

    /// Whether there is anything to say, where the breaker is closed or not and has opened so many times.
    fn look(&mut self, now: Instant, (is_up, times_opened): (bool, u64)) -> Option<News> {
        // It may have been away between two looks.
        let has_failed = times_opened != self.times_opened;
        self.times_opened = times_opened;
        if !is_up || has_failed {
            self.up_since = None;
        }
        if is_up {
            self.up_since.get_or_insert(now);
        }
        let is_late = now.saturating_duration_since(self.begin) >= FIRST;
        let is_out = has_failed || (!is_up && is_late);
        if is_out && !self.is_told {
            self.is_told = true;
            return Some(News::Begun);
        }
        let is_steady =
            self.up_since.is_some_and(|since| now.saturating_duration_since(since) >= STEADY);
        if is_steady && self.is_told {
            self.is_told = false;
            return Some(News::Over);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a Redis that is in these states, second by second.
    fn told(states: impl IntoIterator<Item = (bool, u64)>) -> Vec<(u64, News)> {
        let begin = Instant::now();
        let mut outages = Outages::new(begin);
        let at = |second| begin + Duration::from_secs(second);
        let looks = (0..).zip(states);
        looks
            .filter_map(|(second, state)| Some((second, outages.look(at(second), state)?)))
            .collect()
    }

    fn for_long(state: (bool, u64)) -> impl Iterator<Item = (bool, u64)> {
        std::iter::repeat_n(state, 100)
    }

    #[test]
    fn an_outage_is_told_when_it_begins_and_when_it_is_over() {
        let states = for_long((true, 0)).chain(for_long((false, 1))).chain(for_long((true, 1)));
        assert_eq!(told(states), [(100, News::Begun), (210, News::Over)]);
    }

    #[test]
    fn nothing_is_told_of_a_redis_that_works_or_takes_a_moment_at_the_start() {
        assert_eq!(told(for_long((true, 0))), []);
        let slow = [(false, 0), (false, 0)].into_iter().chain(for_long((true, 0)));
        assert_eq!(told(slow), []);
    }

    #[test]
    fn a_redis_that_never_came_is_told_of_once() {
        assert_eq!(told(for_long((false, 0))), [(2, News::Begun)]);
    }

    #[test]
    fn a_redis_that_comes_and_goes_is_one_outage_and_one_between_two_looks_is_told_too() {
        let flapping = (0..100).map(|second| (second % 3 == 0, second / 3));
        let states = flapping.chain(for_long((true, 33)));
        assert_eq!(told(states), [(2, News::Begun), (109, News::Over)]);
        let between = for_long((true, 0)).chain(for_long((true, 1)));
        assert_eq!(told(between), [(100, News::Begun), (110, News::Over)]);
    }
}
