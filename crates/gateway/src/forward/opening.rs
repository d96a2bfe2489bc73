//! Connections that are being opened, and who waits for one of them to share it.
//!
//! Whoever comes while a connection is opened that will have room for it waits for that: each would open one of its own. Beyond that room
//! another is opened beside: an upstream that allows few streams needs many connections, and one after the other they would take as many
//! times as long.

use std::cell::Cell;

use tokio::sync::Notify;

use super::error::ForwardCause;

/// An address' connections that are being opened.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    under_way: Cell<usize>,
    /// Who waits since the last of them ended.
    waiting: Cell<usize>,
    ended: Notify,
    /// How many of them have ended.
    rounds: Cell<u64>,
    /// How many did not come about, and why the last of those did not.
    failures: Cell<(u64, Option<ForwardCause>)>,
}

impl Openings {
    /// Whether those under way will have room for one more, if `each` has room for so many. Who opens one needs some of it.
    pub(crate) fn have_room(&self, each: usize) -> bool {
        let under_way = self.under_way.get();
        self.waiting.get() + under_way < under_way.saturating_mul(each)
    }

    /// Waits until one of them has ended, well or not.
    pub(crate) async fn next(&self) {
        let _waiting = Waiting::new(self);
        self.ended.notified().await;
    }

    /// How many did not come about so far.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.get().0
    }

    /// Why one did not come about since there were so many of those, if one did not.
    pub(crate) fn failed_since(&self, failures: u64) -> Option<ForwardCause> {
        let (now, cause) = self.failures.get();
        cause.filter(|_| now > failures)
    }

    /// One is opened, until the answer is dropped: its caller may hang up before there is a connection.
    pub(crate) fn begin(&self) -> Opening<'_> {
        self.under_way.set(self.under_way.get() + 1);
        Opening(self)
    }
}

/// A connection that is being opened.
#[derive(Debug)]
pub(crate) struct Opening<'o>(&'o Openings);

impl Opening<'_> {
    /// It did not come about.
    pub(crate) fn failed(self, cause: ForwardCause) {
        let failures = &self.0.failures;
        failures.set((failures.get().0 + 1, Some(cause)));
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let Openings { under_way, waiting, ended, rounds, .. } = self.0;
        under_way.set(under_way.get() - 1);
        rounds.set(rounds.get() + 1);
        // All look again, and those who then still wait are counted anew.
        waiting.set(0);
        ended.notify_waiters();
    }
}

/// Somebody waits.
struct Waiting<'o> {
    openings: &'o Openings,
    round: u64,
}

impl Waiting<'_> {
    fn new(openings: &Openings) -> Waiting<'_> {
        openings.waiting.set(openings.waiting.get() + 1);
        Waiting { openings, round: openings.rounds.get() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Openings { waiting, rounds, .. } = self.openings;
        if rounds.get() == self.round {
            waiting.set(waiting.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    type Wait<'o> = Pin<Box<dyn Future<Output = ()> + 'o>>;

    fn wait(openings: &Openings) -> Wait<'_> {
        let mut wait: Wait<'_> = Box::pin(openings.next());
        assert!(!is_over(&mut wait));
        wait
    }

    fn is_over(wait: &mut Wait<'_>) -> bool {
        wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn there_is_room_for_as_many_as_will_share_what_is_being_opened() {
        let openings = Openings::default();
        assert!(!openings.have_room(100), "nothing is being opened");
        let _one = openings.begin();
        assert!(!openings.have_room(1) && openings.have_room(2));
        let first = wait(&openings);
        assert!(!openings.have_room(2) && openings.have_room(3));
        let _two = openings.begin();
        assert!(openings.have_room(2));
        let _second = wait(&openings);
        assert!(!openings.have_room(2));
        drop(first);
        assert!(openings.have_room(2), "who hung up needs no room");
    }

    #[test]
    fn when_one_has_ended_all_look_again_and_find_the_room_of_the_others() {
        let openings = Openings::default();
        let (one, _two) = (openings.begin(), openings.begin());
        let mut waits = [(); 4].map(|()| wait(&openings));
        assert!(!openings.have_room(3));
        drop(one);
        assert!(openings.have_room(2), "nobody has looked yet");
        let _again = wait(&openings);
        assert!(!openings.have_room(2));
        assert!(waits.iter_mut().all(is_over));
        drop(waits);
        assert!(!openings.have_room(2) && openings.have_room(3), "who waits again is counted");
    }

    #[test]
    fn a_failure_is_of_those_who_were_there() {
        let openings = Openings::default();
        let before = openings.failures();
        openings.begin().failed(ForwardCause::Connect);
        assert_eq!(openings.failed_since(before), Some(ForwardCause::Connect));
        let after = openings.failures();
        drop(openings.begin());
        assert_eq!(openings.failed_since(after), None);
        assert_eq!(openings.failed_since(before), Some(ForwardCause::Connect));
    }
}
