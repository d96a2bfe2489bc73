//! The pace of one server and key, as something to await.
//!
//! Whoever may not go at once waits in a [room](crate::room). Only the first there looks at the time, and whoever is free; whoever leaves
//! wakes the next, and so does every answer, because it may have changed the pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_core::Time;
use tollgate_wire::read::read;

use crate::clock::Clock;
use crate::pace::{Load, Pace, START_STEP, Ticket};
use crate::permit::is_refused;
use crate::retry::Budget;
use crate::room::{Place, Room, Waiting};
use crate::{Ask, Permit, Priority, Settings, Status, TooLong};

/// Paces requests to one server under one key. Clones pace together.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use tollgate_client::{Ask, Pacer, Settings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_client::TooLong> {
/// let pacer = Pacer::new(Settings::new());
///
/// let permit = pacer.acquire(Ask::default()).await?;
/// // Here the request is sent, by any client, and this came back:
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""user-second";r=47;t=6"#.parse().unwrap());
/// headers.insert("ratelimit-policy", r#""user-second";q=100;w=10"#.parse().unwrap());
/// permit.heard(StatusCode::OK, &headers);
///
/// assert_eq!(pacer.status().limits[0].remaining, 47);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pacer(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    settings: Settings,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    pace: Pace,
    room: Room,
    budget: Budget,
}

/// What is asked for, how long it may wait, and whether it was sent before.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    ask: Ask,
    patience: Duration,
    is_retry: bool,
}

/// Every pacer jitters in its own way.
static PACERS: AtomicU64 = AtomicU64::new(1);

impl Pacer {
    /// Knows nothing of the server yet.
    pub fn new(settings: Settings) -> Pacer {
        let clock = Clock::start();
        let seed = clock.now().as_nanos()
            ^ PACERS.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let inner = Inner {
            pace: Pace::new(settings.longest_silence, seed),
            room: Room::default(),
            budget: Budget::new(settings.retry_ratio),
        };
        Pacer(Arc::new(Shared { clock, settings, inner: Mutex::new(inner) }))
    }

    /// Waits until a request may be sent. The [`Permit`] is told of the answer.
    pub async fn acquire(&self, ask: Ask) -> Result<Permit, TooLong> {
        self.attempt(Attempt { ask, patience: self.0.settings.max_wait, is_retry: false }).await
    }

    /// Waits until a request may be sent again. It earns no further retry.
    pub(crate) async fn acquire_again(
        &self,
        ask: Ask,
        patience: Duration,
    ) -> Result<Permit, TooLong> {
        self.attempt(Attempt { ask, patience, is_retry: true }).await
    }

    async fn attempt(&self, attempt: Attempt) -> Result<Permit, TooLong> {
        match self.at_once(attempt) {
            Some(permit) => Ok(permit),
            None => self.wait(attempt).await,
        }
    }

    /// For a request that was sent so long ago without asking, because nobody knew that it would come here.
    #[cfg(feature = "reqwest")]
    pub(crate) fn sent_unasked(&self, ask: Ask, ago: Duration) -> Permit {
        let now = self.now();
        let mut ticket = self.0.inner.lock().pace.send(now, ask.cost);
        ticket.leaves_at(Time::EPOCH + (now - Time::EPOCH).saturating_sub(ago));
        Permit::new(self.clone(), ticket)
    }

    /// A permit if the request may be sent at once.
    pub fn try_acquire(&self, ask: Ask) -> Option<Permit> {
        self.at_once(Attempt { ask, patience: Duration::ZERO, is_retry: false })
    }

    fn at_once(&self, attempt: Attempt) -> Option<Permit> {
        let now = self.now();
        let mut inner = self.0.inner.lock();
        let is_aside = inner.pace.sets_aside(attempt.ask.cost);
        let is_first = inner.room.is_empty_for(is_aside) || attempt.ask.is_free();
        let is_free = is_first
            && !inner.pace.is_starting(now)
            && inner.pace.wait(now, Load::default(), attempt.ask.cost).is_zero();
        is_free.then(|| self.permit(&mut inner, attempt, now))
    }

    fn permit(&self, inner: &mut Inner, attempt: Attempt, now: Time) -> Permit {
        if !attempt.is_retry {
            inner.budget.earn();
        }
        Permit::new(self.clone(), inner.pace.send(now, attempt.ask.cost))
    }

    async fn wait(&self, attempt: Attempt) -> Result<Permit, TooLong> {
        let Attempt { ask, patience, .. } = attempt;
        let began = self.now();
        let mut guest = {
            let mut inner = self.0.inner.lock();
            let is_aside = inner.pace.sets_aside(ask.cost);
            let ahead = inner.room.load_ahead(ask.priority, is_aside);
            let wait = inner.pace.wait(began, ahead, ask.cost);
            if wait > patience {
                return Err(TooLong::new(wait, patience));
            }
            if inner.room.len() >= self.0.settings.max_waiting {
                return Err(TooLong::new(wait, patience).crowded());
            }
            let woken = Arc::new(Notify::new());
            let load = inner.pace.load(ask.cost);
            let waiting = Waiting { load, is_free: ask.is_free(), woken: woken.clone() };
            let place = inner.room.enter(ask.priority, is_aside, waiting);
            Guest { pacer: self, place, woken }
        };
        loop {
            let now = self.now();
            let left = patience.saturating_sub(now - began);
            let sleep = {
                let mut inner = self.0.inner.lock();
                let is_aside = inner.pace.sets_aside(ask.cost);
                if is_aside != guest.place.is_aside {
                    let load = inner.pace.load(ask.cost);
                    guest.place = inner.room.change(guest.place, is_aside, load);
                }
                let is_first = ask.is_free() || inner.room.is_first(guest.place);
                let wait = inner.pace.wait(now, Load::default(), ask.cost);
                let is_starting = inner.pace.is_starting(now);
                if is_first && wait.is_zero() && !is_starting {
                    return Ok(self.permit(&mut inner, attempt, now));
                }
                if left.is_zero() {
                    let wait = inner.pace.wait(now, inner.room.load_before(guest.place), ask.cost);
                    return Err(TooLong::new(wait.max(now - began), patience));
                }
                // Whoever is not the first is woken when it is.
                match is_first {
                    true if is_starting => wait.max(START_STEP).min(left),
                    true => wait.min(left),
                    false => left,
                }
            };
            // Timers are as coarse as a millisecond: less would only spin.
            let _ = timeout(sleep.max(Duration::from_millis(1)), guest.woken.notified()).await;
        }
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        let now = self.now();
        let inner = self.0.inner.lock();
        let waiting = inner.room.len();
        Status {
            limits: inner.pace.limits(now),
            in_flight: inner.pace.in_flight(),
            waiting,
            next_in: inner.pace.wait(now, inner.room.load_ahead(Priority::Low, false), 1),
        }
    }

    /// Trailers of a call whose head was heard before.
    pub(crate) fn heard_late(&self, ticket: Ticket, trailers: &HeaderMap) {
        let now = self.now();
        let said = read(trailers, now);
        let is_refused = is_refused(StatusCode::OK, trailers, &said);
        self.learn(|pace| match is_refused {
            true => pace.refused_late(now, &said),
            false => pace.passed(ticket),
        });
    }

    pub(crate) fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Something became of a request. It may have changed the pace, so whoever is first looks again.
    pub(crate) fn learn(&self, learn: impl FnOnce(&mut Pace)) {
        let mut inner = self.0.inner.lock();
        learn(&mut inner.pace);
        inner.room.wake_first();
    }

    /// Whether the server has asked to be left alone since this had leave to be sent.
    pub(crate) fn calls_off(&self, ticket: Ticket) -> bool {
        self.0.inner.lock().pace.calls_off(self.now(), ticket)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn may_retry(&self) -> bool {
        self.0.inner.lock().budget.spend()
    }

    /// A retry that was allowed was not made.
    pub(crate) fn keep_retry(&self) {
        self.0.inner.lock().budget.keep();
    }

    /// Between 0 and 1.
    pub(crate) fn draw(&self) -> f64 {
        self.0.inner.lock().pace.draw()
    }

    /// Since when nobody but its owner has it and there is nothing to wait for.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        let is_unused = Arc::strong_count(&self.0) == 1;
        let now = self.now();
        let inner = self.0.inner.lock();
        (is_unused && inner.pace.wait(now, Load::default(), 1).is_zero())
            .then(|| inner.pace.used_at())
    }

    #[cfg(feature = "reqwest")]
    pub(crate) fn is(&self, other: &Pacer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

/// A place in the room, which is left however the waiting ends.
struct Guest<'p> {
    pacer: &'p Pacer,
    place: Place,
    woken: Arc<Notify>,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let mut inner = self.pacer.0.inner.lock();
        inner.room.leave(self.place);
        inner.room.wake_first();
    }
}
