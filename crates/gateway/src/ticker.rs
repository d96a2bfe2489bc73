//! Timeouts of a worker, for less than a timer each.
//!
//! A request passes through several waits that must end some day: for its head, its body, the upstream's answer, the
//! next request. A runtime's timer for each costs more than the rest of the bookkeeping. Here every connection
//! keeps one [`Watch`] for all its waits; arming it stores a moment, and a task looks over all watches ten times a
//! second. So a timeout is late by up to two ticks, and never early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

/// Between two looks.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The watches of one worker.
#[derive(Debug)]
pub(crate) struct Ticker {
    now: Cell<Instant>,
    slots: RefCell<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    taken: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct Slot {
    /// When its wait is over; `None` while it waits for nothing.
    at: Option<Instant>,
    waker: Option<Waker>,
}

impl Ticker {
    pub(crate) fn new() -> Rc<Ticker> {
        Rc::new(Ticker { now: Cell::new(Instant::now()), slots: RefCell::default() })
    }

    /// The time of the last tick.
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// A watch that is not armed.
    pub(crate) fn watch(self: &Rc<Ticker>) -> Watch {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.taken.push(Slot::default());
            slots.taken.len() - 1
        });
        Watch { ticker: Rc::clone(self), slot }
    }

    /// Looks over all watches for ever, and calls `every_tick` after each look.
    pub(crate) async fn run(&self, mut every_tick: impl FnMut()) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await.max(Instant::now());
            self.now.set(now);
            self.wake(|slot| slot.at.is_some_and(|at| at <= now));
            every_tick();
        }
    }

    /// Wakes whoever has a watch, armed or not.
    pub(crate) fn wake_all(&self) {
        self.wake(|_| true);
    }

    fn wake(&self, whom: impl Fn(&Slot) -> bool) {
        // Waking only marks tasks as ready to run, so none of them can come back here meanwhile.
        let slots = self.slots.borrow();
        for slot in slots.taken.iter().filter(|slot| whom(slot)) {
            if let Some(waker) = &slot.waker {
                waker.wake_by_ref();
            }
        }
    }
}

/// One wait at a time.
#[derive(Debug)]
pub(crate) struct Watch {
    ticker: Rc<Ticker>,
    slot: usize,
}

impl Watch {
    /// The time of the last tick.
    pub(crate) fn now(&self) -> Instant {
        self.ticker.now()
    }

    /// Waits for `span` from now on; for ever if it is zero, which is how settings say "none".
    pub(crate) fn arm(&self, span: Duration) {
        let at = (!span.is_zero()).then(|| self.ticker.now.get() + span + TICK);
        self.ticker.slots.borrow_mut().taken[self.slot].at = at;
    }

    /// Waits for nothing.
    pub(crate) fn disarm(&self) {
        self.ticker.slots.borrow_mut().taken[self.slot].at = None;
    }

    /// Whether it waits for something.
    pub(crate) fn is_armed(&self) -> bool {
        self.ticker.slots.borrow().taken[self.slot].at.is_some()
    }

    /// Ready once the wait is over.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.ticker.slots.borrow_mut().taken[self.slot];
        if slot.at.is_some_and(|at| at <= self.ticker.now.get()) {
            return Poll::Ready(());
        }
        match &mut slot.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut slots = self.ticker.slots.borrow_mut();
        slots.taken[self.slot] = Slot::default();
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn expires(watch: &Watch) {
        poll_fn(|cx| watch.poll(cx)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_never_early_and_late_by_two_ticks_at_most() {
        let ticker = Ticker::new();
        let begin = Instant::now();
        let watch = ticker.watch();
        watch.arm(Duration::from_millis(950));
        tokio::select! {
            () = ticker.run(|| ()) => unreachable!(),
            () = expires(&watch) => (),
        }
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(950) && waited <= Duration::from_millis(1150));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_disarmed_or_armed_with_zero_waits_for_ever() {
        let ticker = Ticker::new();
        let (one, two) = (ticker.watch(), ticker.watch());
        one.arm(Duration::from_millis(100));
        one.disarm();
        two.arm(Duration::ZERO);
        let timeout = tokio::time::timeout(Duration::from_secs(3600), async {
            tokio::select! {
                () = ticker.run(|| ()) => (),
                () = expires(&one) => (),
                () = expires(&two) => (),
            }
        });
        assert!(timeout.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_used_again() {
        let ticker = Ticker::new();
        for _ in 0..1000 {
            drop((ticker.watch(), ticker.watch()));
        }
        assert_eq!(ticker.slots.borrow().taken.len(), 2);
    }
}
