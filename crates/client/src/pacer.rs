//! The pace of one server and key, as something to await.
//!
//! Whoever may not go at once waits in a room, in order of priority, then of arrival. Only the first there looks at the
//! time; whoever leaves the room wakes the next, and so does every answer, because it may have changed the pace.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_core::Time;
use tollgate_wire::names::GRPC_STATUS;
use tollgate_wire::read::{Said, read};

use crate::clock::Clock;
use crate::pace::{Outcome, Pace, START_STEP, Ticket};
use crate::retry::Budget;
use crate::{Settings, Status, TooLong};

/// Who goes first where requests wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// What a request asks of the pacer. Put into a request's extensions, the middleware finds it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What the server will charge for it, where that is known; 1 is a good guess where it is not.
    pub cost: u64,
    /// Before whom it goes.
    pub priority: Priority,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask { cost: 1, priority: Priority::Normal }
    }
}

impl From<Priority> for Ask {
    fn from(priority: Priority) -> Ask {
        Ask { priority, ..Ask::default() }
    }
}

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
struct Shared {
    clock: Clock,
    settings: Settings,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    pace: Pace,
    room: BTreeMap<Place, Waiting>,
    /// What all in the room cost together, by priority.
    cost_waiting: [u64; 3],
    arrivals: u64,
    budget: Budget,
}

/// Where in the room: higher priority first, then who came first.
type Place = (Reverse<Priority>, u64);

#[derive(Debug)]
struct Waiting {
    cost: u64,
    woken: Arc<Notify>,
}

impl Inner {
    fn wake_first(&self) {
        if let Some((_, waiting)) = self.room.first_key_value() {
            waiting.woken.notify_one();
        }
    }

    fn enter(&mut self, place: Place, waiting: Waiting) {
        let sum = &mut self.cost_waiting[place.0.0 as usize];
        *sum = sum.saturating_add(waiting.cost);
        self.room.insert(place, waiting);
    }

    fn leave(&mut self, place: Place) {
        if let Some(waiting) = self.room.remove(&place) {
            let sum = &mut self.cost_waiting[place.0.0 as usize];
            *sum = sum.saturating_sub(waiting.cost);
        }
    }

    /// What goes before a newcomer of this priority.
    fn cost_ahead(&self, priority: Priority) -> u64 {
        self.cost_waiting[priority as usize..].iter().fold(0, |all, cost| all.saturating_add(*cost))
    }
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
            room: BTreeMap::new(),
            cost_waiting: [0; 3],
            arrivals: 0,
            budget: Budget::new(settings.retry_ratio),
        };
        Pacer(Arc::new(Shared { clock, settings, inner: Mutex::new(inner) }))
    }

    /// Waits until a request may be sent. The [`Permit`] is told of the answer.
    pub async fn acquire(&self, ask: Ask) -> Result<Permit, TooLong> {
        match self.try_acquire(ask) {
            Some(permit) => Ok(permit),
            None => self.wait(ask).await,
        }
    }

    /// A permit if the request may be sent at once.
    pub fn try_acquire(&self, ask: Ask) -> Option<Permit> {
        let now = self.0.clock.now();
        let mut inner = self.0.inner.lock();
        let is_free = inner.room.is_empty()
            && !inner.pace.is_starting(now)
            && inner.pace.wait(now, 0, ask.cost).is_zero();
        is_free.then(|| self.permit(&mut inner, ask, now))
    }

    fn permit(&self, inner: &mut Inner, ask: Ask, now: Time) -> Permit {
        inner.budget.earn();
        Permit { shared: self.clone(), ticket: Some(inner.pace.send(now, ask.cost)) }
    }

    async fn wait(&self, ask: Ask) -> Result<Permit, TooLong> {
        let Settings { max_wait, max_waiting, .. } = self.0.settings;
        let began = self.0.clock.now();
        let guest = {
            let mut inner = self.0.inner.lock();
            let ahead = inner.cost_ahead(ask.priority);
            let wait = inner.pace.wait(began, ahead, ask.cost);
            if wait > max_wait || inner.room.len() >= max_waiting {
                return Err(TooLong::new(wait, max_wait));
            }
            inner.arrivals += 1;
            let place = (Reverse(ask.priority), inner.arrivals);
            let woken = Arc::new(Notify::new());
            inner.enter(place, Waiting { cost: ask.cost, woken: woken.clone() });
            Guest { pacer: self, place, woken }
        };
        loop {
            let now = self.0.clock.now();
            let left = max_wait.saturating_sub(now - began);
            let sleep = {
                let mut inner = self.0.inner.lock();
                let is_first =
                    inner.room.first_key_value().is_some_and(|(at, _)| *at == guest.place);
                let wait = inner.pace.wait(now, 0, ask.cost);
                let is_starting = inner.pace.is_starting(now);
                if is_first && wait.is_zero() && !is_starting {
                    return Ok(self.permit(&mut inner, ask, now));
                }
                if left.is_zero() {
                    return Err(TooLong::new(wait.max(now - began), max_wait));
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
        let now = self.0.clock.now();
        let inner = self.0.inner.lock();
        let waiting = inner.room.len();
        Status {
            limits: inner.pace.limits(now),
            in_flight: inner.pace.in_flight(),
            waiting,
            next_in: inner.pace.wait(now, inner.cost_ahead(Priority::Low), 1),
        }
    }

    /// Trailers of a call that had been answered before.
    pub(crate) fn heard_late(&self, trailers: &HeaderMap) {
        let now = self.0.clock.now();
        let said = read(trailers, now);
        if is_refused(StatusCode::OK, trailers, &said) {
            let mut inner = self.0.inner.lock();
            inner.pace.refused_late(now, &said);
            inner.wake_first();
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn may_retry(&self) -> bool {
        self.0.inner.lock().budget.spend()
    }

    /// Whether nobody but its owner has it: nothing waits, nothing is in flight.
    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
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
        inner.leave(self.place);
        inner.wake_first();
    }
}

/// Leave to send one request. It wants to hear of the answer.
#[derive(Debug)]
#[must_use = "it stands for one request that is being sent"]
pub struct Permit {
    shared: Pacer,
    ticket: Option<Ticket>,
}

/// What an answer meant.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Whether a limit refused the request.
    pub is_refused: bool,
    /// What the server said about its limits.
    pub said: Said,
}

impl Permit {
    pub(crate) fn pacer(&self) -> &Pacer {
        &self.shared
    }

    /// The answer's status and headers, or a gRPC call's trailers. Dropped without, the permit counts as a request that was
    /// never answered.
    pub fn heard(mut self, status: StatusCode, headers: &HeaderMap) -> Heard {
        let shared = &self.shared.0;
        let now = shared.clock.now();
        let said = read(headers, now);
        let is_refused = is_refused(status, headers, &said);
        let outcome = if is_refused { Outcome::Refused } else { Outcome::Passed };
        if let Some(ticket) = self.ticket.take() {
            let mut inner = shared.inner.lock();
            inner.pace.heard(now, ticket, &said, outcome);
            inner.wake_first();
        }
        Heard { is_refused, said }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut inner = self.shared.0.inner.lock();
            inner.pace.lost(ticket);
            inner.wake_first();
        }
    }
}

/// 429; 503 of a server that says when to come back; gRPC's `RESOURCE_EXHAUSTED`.
fn is_refused(status: StatusCode, headers: &HeaderMap, said: &Said) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => said.retry_after.is_some(),
        _ => headers.get(&GRPC_STATUS).is_some_and(|code| code == "8"),
    }
}
