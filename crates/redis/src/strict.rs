//! Strict counters: every request asks Redis, which decides its whole chain in one script.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use tollgate_engine::{Clock, Decision, SystemClock};

use crate::abandoned::Taking;
use crate::answer::{Answer, Part};
use crate::calendar::Calendar;
use crate::calls::Calls;
use crate::command::{self, Charge, Purpose, Said, Wanted};
use crate::latencies::Took;
use crate::ledger::{Settled, Statement};
use crate::scripts::{SCRIPTS, Script};
use crate::settings::{Mode, Settings};
use crate::slice::Grant;
use crate::slot::slot;
use crate::slots::spans_slots;
use crate::{Figures, Unavailable};

/// Counters that all nodes share, exactly: over-admission is 0 while Redis keeps its writes.
///
/// Clones share one connection, and concurrent calls share its round trips. While Redis cannot be reached, calls
/// fail at once with [`Unavailable`]; what then becomes of a request is for the caller to say.
///
/// ```no_run
/// use tollgate_engine::{Limit, Rate, Verdict};
/// use tollgate_redis::{Charge, Figures, Settings, Strict};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let strict = Strict::start(Settings::new("redis://127.0.0.1:6379")?);
/// let limit = Figures::of(&Limit::token_bucket(Rate::per_second(10)).burst(100).build()?)?;
///
/// let answer = strict.take(&[Charge::new("tollgate:ratelimit:user:plan/alice:second", &limit)]).await?;
/// assert_eq!(answer.verdict(), Verdict::Admitted);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Strict(Arc<Shared>);

struct Shared {
    calls: Calls,
    calendar: Calendar,
    clock: SystemClock,
    /// How far the server's clock is ahead of ours, in microseconds: only to guess a quota's period by.
    ahead: AtomicI64,
    is_cluster: bool,
    longest_wait: Duration,
    runtime: Handle,
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strict").field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

/// How often a server may say that its time is in no period it was told, before it is not believed.
const LOOKS: usize = 3;

impl Strict {
    /// Begins to connect, on the current runtime, and goes on trying for as long as it is held.
    pub fn start(settings: Settings) -> Strict {
        let (is_cluster, longest_wait) = (settings.mode == Mode::Cluster, settings.timeout);
        Strict(Arc::new(Shared {
            calls: Calls::start(settings),
            calendar: Calendar::default(),
            clock: SystemClock::new(),
            ahead: AtomicI64::new(0),
            is_cluster,
            longest_wait,
            runtime: Handle::current(),
        }))
    }

    /// Waits until Redis can be asked.
    pub async fn up(&self) {
        self.0.calls.up().await;
    }

    /// Whether Redis can be asked: whether the circuit breaker is closed.
    pub fn is_up(&self) -> bool {
        self.0.calls.is_up()
    }

    /// Waits until Redis can be asked again after it could not.
    pub(crate) async fn comes_up(&self) {
        self.0.calls.comes_up().await;
    }

    /// How often the circuit breaker has opened.
    pub fn times_opened(&self) -> u64 {
        self.0.calls.opened()
    }

    /// How long calls took so far.
    pub fn took(&self) -> Took {
        self.0.calls.latencies().took()
    }

    /// The longest that a request waits.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.0.longest_wait
    }

    /// Waits for a call until then at most. The clock is the connection's: a caller's runtime need not have one.
    pub(crate) async fn within<T>(
        &self,
        deadline: Instant,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Unavailable> {
        let mut alarm = self.0.runtime.spawn(async move { sleep_until(deadline).await });
        tokio::select! {
            biased;
            answered = call => {
                alarm.abort();
                answered
            }
            _ = &mut alarm => Err(Unavailable::TimedOut),
        }
    }

    /// The runtime that carries the connection: what is done in the background is done there.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// Sends a call of a script that is no counter's.
    pub(crate) async fn ask(
        &self,
        cmd: redis::Cmd,
        script: &'static Script,
    ) -> Result<redis::Value, Unavailable> {
        self.0.calls.ask(cmd, Some(script)).await
    }

    /// Decides a chain all or nothing. What was charged for somebody who does not wait for the answer is given back.
    ///
    /// In a cluster a chain may span slots. Then it is taken slot by slot in ascending order, and what was taken is
    /// given back if a later slot refuses: for these round trips others may be refused by charges that are not kept, and
    /// a node that dies between them leaves them charged. More than the limit is never admitted.
    pub async fn take(&self, charges: &[Charge<'_>]) -> Result<Answer, Unavailable> {
        self.take_before(None, charges).await
    }

    /// The same for somebody who has waited for something else before: until then at most.
    pub(crate) async fn take_before(
        &self,
        deadline: Option<Instant>,
        charges: &[Charge<'_>],
    ) -> Result<Answer, Unavailable> {
        let parts = if self.0.is_cluster && spans_slots(charges) {
            // However many slots: a request waits once.
            let deadline = deadline.unwrap_or_else(|| Instant::now() + self.0.longest_wait);
            self.take_by_slots(charges, deadline).await?
        } else {
            let decided = self.decide(charges, Purpose::Take);
            match deadline {
                Some(deadline) => self.within(deadline, decided).await?,
                // A call has a deadline of its own.
                None => decided.await?,
            }
        };
        Ok(Answer::new(parts, charges.iter().map(|charge| charge.strategy)))
    }

    /// What [`take`](Strict::take) would answer to one charge, without consuming.
    pub async fn peek(
        &self,
        key: &str,
        figures: &Figures,
        cost: u64,
    ) -> Result<Decision, Unavailable> {
        let charge = Charge::new(key, figures).cost(cost);
        let parts = self.decide(&[charge], Purpose::Ask).await?;
        parts.first().map(|part| part.decision).ok_or(Unavailable::Nonsense)
    }

    /// Gives back what a chain was charged, because the request was not served after all. What time has meanwhile
    /// paid off is not given a second time. `charges` are those that were answered so.
    pub async fn give_back(
        &self,
        charges: &[Charge<'_>],
        answer: &Answer,
    ) -> Result<(), Unavailable> {
        let made: Made<'_> =
            charges.iter().zip(&answer.parts).filter(|(_, part)| part.is_charged).collect();
        self.give_back_made(made).await
    }

    /// Makes a counter new again.
    pub async fn reset(&self, key: &str) -> Result<(), Unavailable> {
        let mut cmd = redis::cmd("UNLINK");
        cmd.arg(key);
        self.0.calls.ask(cmd, None).await.map(drop)
    }

    /// Decides a chain that is in one slot, in one call.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        purpose: Purpose,
    ) -> Result<Vec<Part>, Unavailable> {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let script = command::script_for(&SCRIPTS, charges);
        for _ in 0..LOOKS {
            let bounds = |charge: &Charge<'_>| {
                self.0.calendar.around(charge.figures.limit(), self.0.server_time())
            };
            let cmd = command::take(script, charges, purpose, bounds);
            let mut asked = self.0.calls.hand_in(cmd, Some(script))?;
            let value = match purpose {
                Purpose::Take => Taking::new(self, charges, asked).answer().await?,
                Purpose::Ask => asked.answer().await?,
            };
            match command::read(&value, charges).ok_or(Unavailable::Nonsense)? {
                Said::Decided(parts) => return Ok(parts),
                // Nothing was charged.
                Said::LookAgain(at) => self.0.set_server_time(at),
            }
        }
        Err(Unavailable::Nonsense)
    }

    /// Leases tokens of one counter.
    pub(crate) async fn lease(
        &self,
        key: &str,
        figures: &Figures,
        wanted: Wanted,
    ) -> Result<Grant, Unavailable> {
        let script = &SCRIPTS.lease;
        for _ in 0..LOOKS {
            let bounds = self.0.calendar.around(figures.limit(), self.0.server_time());
            let cmd = command::lease(script, figures, key, bounds, wanted);
            let value = self.0.calls.ask(cmd, Some(script)).await?;
            match command::read_grant(&value).ok_or(Unavailable::Nonsense)? {
                Ok(grant) => return Ok(grant),
                Err(at) => self.0.set_server_time(at),
            }
        }
        Err(Unavailable::Nonsense)
    }

    /// Tells one counter what `node` has consumed.
    pub(crate) async fn sync(
        &self,
        key: &str,
        figures: &Figures,
        told: (&str, Statement),
    ) -> Result<Settled, Unavailable> {
        let script = &SCRIPTS.sync;
        for _ in 0..LOOKS {
            let bounds = self.0.calendar.around(figures.limit(), self.0.server_time());
            let cmd = command::sync(script, figures, key, bounds, told);
            let value = self.0.calls.ask(cmd, Some(script)).await?;
            match command::read_settled(&value).ok_or(Unavailable::Nonsense)? {
                Ok(settled) => return Ok(settled),
                Err(at) => self.0.set_server_time(at),
            }
        }
        Err(Unavailable::Nonsense)
    }

    /// Gives back, of all slots at once.
    pub(crate) async fn give_back_made(&self, mut made: Made<'_>) -> Result<(), Unavailable> {
        if self.0.is_cluster {
            made.sort_by_key(|(charge, _)| slot(charge.key.as_bytes()));
        }
        let slot_of = |(charge, _): &(&Charge<'_>, &Part)| match self.0.is_cluster {
            true => slot(charge.key.as_bytes()),
            false => 0,
        };
        let groups = made.chunk_by(|one, other| slot_of(one) == slot_of(other)).map(|group| {
            let cmd = command::give_back(&SCRIPTS.give_back, group.iter().copied());
            self.0.calls.ask(cmd, Some(&SCRIPTS.give_back))
        });
        join_all(groups).await.into_iter().try_for_each(|given_back| given_back.map(drop))
    }
}

pub(crate) type Made<'a> = SmallVec<[(&'a Charge<'a>, &'a Part); 8]>;

impl Shared {
    /// What the server's clock shows now, as far as we know.
    fn server_time(&self) -> u64 {
        let ours = self.clock.now().as_nanos() / 1000;
        ours.saturating_add_signed(self.ahead.load(Relaxed))
    }

    fn set_server_time(&self, at: i64) {
        let ours = self.clock.now().as_nanos() / 1000;
        self.ahead.store(at.saturating_sub_unsigned(ours), Relaxed);
    }
}
