//! Waiting for a limit instead of being refused by it.
//!
//! A queue has a lane for each tenant. Within a lane requests go in order of arrival, also those that have stood in another queue
//! before; between lanes they take turns, so that a tenant with a thousand waiting costs another one turn. Whoever's turn it is retries
//! until it passes and then hands the turn on; everybody else sleeps. A request that is dropped, because its
//! caller hung up, leaves the queue where it stood.
//!
//! Timers wake late, by a millisecond or more. A limit that releases evenly would lose what it could have released
//! meanwhile, so whoever was promised a moment is decided as of it, and the next one goes on from there: the pace is kept, and
//! after a late awakening as many pass together as it was late for.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_core::Time;

use crate::{Clock, Identity};

/// By how much at most whoever wakes late is decided as of an earlier moment: what may pass together is bounded.
const LATEST: Duration = Duration::from_millis(10);

/// The requests that wait for one counter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tollgate_engine::{Charge, Limit, Limiter, Queue, Rate, Waiting};
///
/// let limiter = Limiter::new();
/// let rule = limiter.define("slow", Limit::token_bucket(Rate::per_second(50)).burst(1).build()?);
/// let (tenant, alice) = (limiter.identity("acme"), limiter.identity("alice"));
///
/// let queue = Queue::new(Duration::from_secs(1), 100);
/// let request = Waiting { lane: tenant, cost: 1 };
/// let attempt = |as_of| limiter.check_at(&rule, alice, 1, as_of).map_err(|refusal| refusal.retry_after());
/// let ahead = |cost| limiter.wait_behind(Charge::new(&rule, alice), cost);
/// queue.pass(limiter.clock(), request, ahead, attempt).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Queue {
    max_wait: Duration,
    max_depth: usize,
    lanes: Mutex<Lanes>,
}

/// Who waits, and for how much.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Whose lane it waits in.
    pub lane: Identity,
    /// What it will be charged.
    pub cost: u64,
}

/// When a request came, compared with others: the earlier one is the lesser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

impl Arrival {
    /// After all that there have been in this process: many come within one tick of a clock.
    pub fn now() -> Arrival {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arrival(NEXT.fetch_add(1, Relaxed))
    }
}

/// How long a request waits at most, among how many, and behind whom. It is the request's own: of two in one queue each may have
/// come under other rules, and from other queues.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// It goes behind those of its lane who came before, and whoever has the turn.
    pub arrival: Arrival,
    /// It waits no longer than until then.
    pub until: Instant,
    /// It does not join a lane in which so many wait already.
    pub max_depth: usize,
}

/// Why a request does not wait, or waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRefusal {
    /// As many as may already wait in its lane.
    Full,
    /// It would have to wait longer than it may: so long.
    TooLong(Duration),
    /// A limit that does not queue refused it, or its cost can never pass.
    Refused,
}

impl fmt::Display for QueueRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueRefusal::Full => f.write_str("too many requests are waiting already"),
            QueueRefusal::TooLong(wait) => write!(f, "it would have to wait {wait:?}"),
            QueueRefusal::Refused => f.write_str("waiting would not help"),
        }
    }
}

impl std::error::Error for QueueRefusal {}

/// A wait that no clock can tell the end of ends in thirty years.
fn deadline(max_wait: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(max_wait).unwrap_or(now + FOR_EVER)
}

#[derive(Debug, Default)]
struct Lanes {
    by_id: HashMap<Identity, VecDeque<Waiter>>,
    /// The lanes with somebody in them. The first waiter of the first lane has the turn.
    turns: VecDeque<Identity>,
    next_ticket: u64,
    /// The moment that was promised to whoever has the turn, or as of which the one before it passed.
    due: Option<Time>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    arrival: Arrival,
    cost: u64,
    turn: Arc<Notify>,
}

impl Queue {
    /// A queue in which nobody waits longer than `max_wait`, nor more than `max_depth` in a lane. Who waits for a
    /// [turn](Queue::turn) says itself how patient it is.
    pub fn new(max_wait: Duration, max_depth: usize) -> Queue {
        Queue { max_wait, max_depth, lanes: Mutex::default() }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lanes.lock().by_id.values().map(VecDeque::len).sum()
    }

    /// What all who wait will be charged.
    pub fn cost(&self) -> u64 {
        let lanes = self.lanes.lock();
        let costs = lanes.by_id.values().flatten().map(|waiter| waiter.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.lock().turns.is_empty()
    }

    /// Whether somebody waits who came earlier, in whichever lane.
    pub fn has_earlier_than(&self, arrival: Arrival) -> bool {
        let lanes = self.lanes.lock();
        // Whoever has the turn may be later than the next of its lane.
        let mut first = lanes.by_id.values().flat_map(|waiters| waiters.iter().take(2));
        first.any(|waiter| waiter.arrival < arrival)
    }

    /// Waits until `attempt` passes.
    ///
    /// `attempt` decides as of the moment it is told, which is `clock`'s or a little earlier. It answers what it
    /// passed with, or how long after that moment it is worth trying again, or `None` if it never is. `behind` tells how long the request will wait if so much is charged before it, or `None` if it
    /// cannot know: a request that would wait too long is refused at once. While anybody waits a
    /// newcomer does not even try.
    ///
    /// Dropping the future leaves the queue; nothing is held while waiting.
    pub async fn pass<T>(
        &self,
        clock: &impl Clock,
        request: Waiting,
        behind: impl Fn(u64) -> Option<Duration>,
        mut attempt: impl FnMut(Time) -> Result<T, Option<Duration>>,
    ) -> Result<T, QueueRefusal> {
        let until = deadline(self.max_wait);
        if self.is_empty() {
            match attempt(clock.now()) {
                Ok(passed) => return Ok(passed),
                Err(wait) => self.check_wait(wait, until)?,
            }
        }
        let patience = Patience { arrival: Arrival::now(), until, max_depth: self.max_depth };
        let turn = self.turn(patience, request, behind).await?;
        loop {
            let now = clock.now();
            let as_of = turn.as_of(now);
            match attempt(as_of) {
                Ok(passed) => {
                    turn.served(as_of);
                    return Ok(passed);
                }
                Err(wait) => turn.rest(wait, as_of, now).await?,
            }
        }
    }

    /// Waits for the turn, with a patience of its own, for a request whose attempts are its own affair: they may have to wait
    /// for somebody who keeps a counter. Whoever comes while [nobody waits](Queue::is_empty) may try before.
    pub async fn turn(
        &self,
        patience: Patience,
        request: Waiting,
        behind: impl Fn(u64) -> Option<Duration>,
    ) -> Result<Turn<'_>, QueueRefusal> {
        let (place, turn) = self.join(patience, request, behind)?;
        let deadline = patience.until;
        let longest = deadline.saturating_duration_since(Instant::now());
        let too_long = |_| QueueRefusal::TooLong(longest);
        timeout_at(deadline, turn.notified()).await.map_err(too_long)?;
        Ok(Turn { place, deadline })
    }

    /// Whether waiting so long from now still ends in time; `None` is for ever.
    pub fn check_wait(
        &self,
        wait: Option<Duration>,
        deadline: Instant,
    ) -> Result<(), QueueRefusal> {
        let wait = wait.ok_or(QueueRefusal::Refused)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if wait > left { Err(QueueRefusal::TooLong(wait)) } else { Ok(()) }
    }

    fn join(
        &self,
        patience: Patience,
        request: Waiting,
        behind: impl Fn(u64) -> Option<Duration>,
    ) -> Result<(Place<'_>, Arc<Notify>), QueueRefusal> {
        let mut lanes = self.lanes.lock();
        let depth = lanes.by_id.get(&request.lane).map_or(0, VecDeque::len);
        if depth >= patience.max_depth {
            return Err(QueueRefusal::Full);
        }
        let nth = lanes.ahead_of(patience.arrival, request.lane);
        let ahead = lanes.cost_ahead(request.lane, nth);
        if let Some(wait) = behind(ahead) {
            self.check_wait(Some(wait), patience.until)?;
        }
        let (ticket, turn) = (lanes.next_ticket, Arc::new(Notify::new()));
        lanes.next_ticket += 1;
        let (arrival, cost) = (patience.arrival, request.cost);
        let waiter = Waiter { ticket, arrival, cost, turn: Arc::clone(&turn) };
        lanes.by_id.entry(request.lane).or_default().insert(nth, waiter);
        if depth == 0 {
            lanes.turns.push_back(request.lane);
        }
        lanes.wake_first();
        Ok((Place { queue: self, lane: request.lane, ticket, served: None }, turn))
    }
}

impl Lanes {
    /// How many of a lane go before somebody who came then. Nobody takes the turn from whoever has it.
    fn ahead_of(&self, arrival: Arrival, lane: Identity) -> usize {
        let Some(waiters) = self.by_id.get(&lane) else { return 0 };
        let later = waiters.iter().rev().take_while(|waiter| waiter.arrival > arrival).count();
        let has_turn = self.turns.front() == Some(&lane);
        (waiters.len() - later).max(usize::from(has_turn))
    }

    /// What will be charged before a newcomer that goes behind so many of its lane: of every other lane as many
    /// as have their turn before it.
    fn cost_ahead(&self, lane: Identity, depth: usize) -> u64 {
        let own = self.turns.iter().position(|id| *id == lane).unwrap_or(self.turns.len());
        let costs = self.turns.iter().enumerate().map(|(turn, id)| {
            let rounds = if turn < own { depth + 1 } else { depth };
            let ahead = self.by_id[id].iter().take(rounds).map(|waiter| waiter.cost);
            ahead.fold(0, u64::saturating_add)
        });
        costs.fold(0, u64::saturating_add)
    }

    /// Tells whoever has the turn, unless it knows: a second notice changes nothing.
    fn wake_first(&self) {
        let first = self.turns.front().and_then(|lane| self.by_id[lane].front());
        if let Some(waiter) = first {
            waiter.turn.notify_one();
        }
    }

    fn leave(&mut self, lane: Identity, ticket: u64, served: Option<Time>) {
        self.due = served.or(self.due);
        let Some(waiters) = self.by_id.get_mut(&lane) else { return };
        waiters.retain(|waiter| waiter.ticket != ticket);
        if waiters.is_empty() {
            self.by_id.remove(&lane);
            self.turns.retain(|id| *id != lane);
            if self.turns.is_empty() {
                self.due = None;
            }
        } else if served.is_some() {
            // It had the turn, so its lane is first: now it is another's.
            self.turns.rotate_left(1);
        }
        self.wake_first();
    }
}

/// The turn of one request. Dropped, it is another's, and this one has left.
#[derive(Debug)]
pub struct Turn<'q> {
    place: Place<'q>,
    deadline: Instant,
}

impl Turn<'_> {
    /// The moment as of which to decide: the one that was promised, or `now` if that is still to come or none was. It is
    /// earlier than `now` by some milliseconds at most.
    pub fn as_of(&self, now: Time) -> Time {
        let latest = u64::try_from(LATEST.as_nanos()).unwrap_or(u64::MAX);
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(latest));
        self.place.queue.lanes.lock().due.map_or(now, |due| due.clamp(earliest, now))
    }

    /// The request has passed, decided as of a moment: the next lane's turn.
    pub fn served(self, as_of: Time) {
        self.place.served(as_of);
    }

    /// Sleeps until it is worth trying again: `wait` after the moment as of which it was decided `now`.
    ///
    /// # Errors
    ///
    /// If that is after the deadline, or never.
    pub async fn rest(
        &self,
        wait: Option<Duration>,
        as_of: Time,
        now: Time,
    ) -> Result<(), QueueRefusal> {
        let due = wait.map(|wait| as_of + wait);
        let left = due.map(|due| due - now);
        self.place.queue.check_wait(left, self.deadline)?;
        self.place.queue.lanes.lock().due = due;
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            sleep(left).await;
        }
        Ok(())
    }
}

/// A place in the queue; dropped, it is left.
#[derive(Debug)]
struct Place<'q> {
    queue: &'q Queue,
    lane: Identity,
    ticket: u64,
    /// As of which moment it has passed.
    served: Option<Time>,
}

impl Place<'_> {
    fn served(mut self, as_of: Time) {
        self.served = Some(as_of);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.lanes.lock().leave(self.lane, self.ticket, self.served);
    }
}
