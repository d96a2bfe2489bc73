//! Waiting in line for a limit whose strategy is `queue`.
//!
//! A request waits in the line of the limit that keeps it out longest, and retries its whole chain when it has
//! the turn. If another limit keeps it out by then it moves to that one's line: it must not hold up
//! others who wait for something else. And if nothing keeps it out, but others who came before it wait for another limit of
//! its chain, it goes behind them: else those who wait for one limit would take all that others wait for at the next.
//! Wherever it moves, its arrival says whom it goes before.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_engine::{Arrival, Clock, Patience, QueueRefusal, Refusal, Time, Verdict, Waiting};
use tollgate_policy::compile::Work;
use tollgate_policy::shapes::Strategy;

use crate::caller::Caller;
use crate::gate::Gate;
use crate::in_force::InForce;
use crate::passage::Passage;

/// A request that has to wait.
struct Waiter {
    since: Instant,
    arrival: Arrival,
    /// In whose lines it has stood only because others came before it. It does so once in each, so no two lines hand it to and
    /// fro: who had the turn there has waited for those.
    gave_way: Vec<usize>,
}

impl Waiter {
    fn now() -> Waiter {
        Waiter { since: Instant::now(), arrival: Arrival::now(), gave_way: Vec::new() }
    }
}

impl<C: Clock> Gate<C> {
    /// Decides a request, waiting in line where the strategy is `queue`. Nothing is held meanwhile, and whoever
    /// drops the future has left.
    ///
    /// A request that waited in vain, or was not let into the line, is refused by the limit it waited for.
    pub async fn pass<'f>(
        &self,
        in_force: &'f InForce,
        caller: &Caller<'f>,
        work: Work<'f>,
    ) -> Passage<'f> {
        let mut passage = Passage::undecided();
        let now = self.limiter().clock().now();
        self.pass_at(&mut passage, in_force, (caller, work), now).await;
        passage
    }

    /// [`pass`](Gate::pass) for whoever has read the clock already, and a place for the passage, which is
    /// [undecided](Passage::undecided): to return it is to copy it.
    pub async fn pass_at<'f>(
        &self,
        passage: &mut Passage<'f>,
        in_force: &'f InForce,
        (caller, work): (&Caller<'f>, Work<'f>),
        now: Time,
    ) {
        self.charge(passage, in_force, (caller, work), |limit| limit.cost(work.cost()));
        let overtaken = self.waited_for(passage);
        let mut waits_for = match overtaken {
            // Newcomers do not overtake; and whom a limit refuses that does not queue does not stand in the way of others.
            Some(place) => {
                self.look_ahead(passage, self.limiter().clock().now());
                if let Verdict::Refused { .. } = passage.verdict {
                    return;
                }
                // Nor does whom another limit would keep waiting for longer than it lets anybody wait. Of the line's own its queue knows more.
                if let Verdict::Queued { by, refusal } = passage.verdict
                    && by != place
                    && is_too_long(passage, by, refusal)
                {
                    passage.verdict = Verdict::Refused { by, refusal };
                    return;
                }
                place
            }
            None => {
                self.try_again(passage, now).await;
                match passage.verdict {
                    Verdict::Queued { by, .. } => by,
                    _ => return,
                }
            }
        };
        let mut waiter = Waiter::now();
        loop {
            match self.stand_in_line(passage, caller, waits_for, &mut waiter).await {
                Ok(()) => return,
                Err(Moved::To(place)) => waits_for = place,
                Err(Moved::Out(refusal)) => {
                    let limiter = self.limiter();
                    passage.verdict = limiter.refuse(&mut passage.chain, waits_for, refusal);
                    // It may never have had its turn to ask whoever keeps the counter.
                    if !passage.chain.is_known(waits_for) {
                        passage.assume_used_up(waits_for, refusal);
                    }
                    return;
                }
            }
        }
    }

    /// The first limit of the chain that others wait for already.
    fn waited_for(&self, passage: &Passage<'_>) -> Option<usize> {
        (0..passage.len()).find(|place| {
            passage.limit(*place).strategy() == Strategy::Queue
                && self.waiting.is_waited_for(passage.chain.counter(*place))
        })
    }

    /// The first limit besides the one at `place` that others wait for who came before, if the request has not given way to them yet.
    fn to_give_way_at(
        &self,
        passage: &Passage<'_>,
        (place, waiter): (usize, &Waiter),
    ) -> Option<usize> {
        let own = passage.chain.counter(place);
        (0..passage.len()).find(|other| {
            let counter = passage.chain.counter(*other);
            passage.limit(*other).strategy() == Strategy::Queue
                && counter != own
                && !waiter.gave_way.contains(other)
                && self.waiting.has_earlier_than(waiter.arrival, counter)
        })
    }

    /// What would become of a request now, as far as that is known here. Nothing is charged.
    fn look_ahead(&self, passage: &mut Passage<'_>, now: Time) {
        if passage.kept.all.is_empty() {
            self.limiter().look_at(&mut passage.chain, now);
            passage.verdict = passage.chain.verdict();
        } else {
            self.look_here(passage, now);
        }
    }

    async fn try_again(&self, passage: &mut Passage<'_>, now: Time) {
        if passage.kept.all.is_empty() {
            passage.verdict = self.limiter().take_at(&mut passage.chain, now);
        } else {
            self.take_kept(passage, now).await;
        }
    }

    async fn stand_in_line(
        &self,
        passage: &mut Passage<'_>,
        caller: &Caller<'_>,
        place: usize,
        waiter: &mut Waiter,
    ) -> Result<(), Moved> {
        let bounds = passage.limit(place).queue();
        let max_wait = Duration::from_millis(u64::from(bounds.max_wait_ms));
        let patience = Patience {
            arrival: waiter.arrival,
            until: waiter.since + max_wait,
            max_depth: bounds.max_depth as usize,
        };
        let held = self.waiting.hold(passage.chain.counter(place));
        let charge = passage.chain.charge(place);
        let request = Waiting { lane: caller.tenant, cost: passage.chain.cost(place) };
        // Of a counter that is kept elsewhere nobody here can tell.
        let is_here = !charge.is_elsewhere();
        let behind = |ahead| is_here.then(|| self.limiter().wait_behind(charge, ahead)).flatten();
        let mut wait = None;
        let in_line = async {
            let queue = &held.queue;
            let clock = self.limiter().clock();
            if queue.is_empty() {
                wait = match self.attempt(passage, (place, waiter), clock.now()).await {
                    Ok(()) => return Ok(()),
                    Err(Kept::Out(moved)) => return Err(moved),
                    Err(Kept::For(wait)) => wait,
                };
                queue.check_wait(wait, patience.until).map_err(Left::Line)?;
            }
            let turn = queue.turn(patience, request, behind).await.map_err(Left::Line)?;
            loop {
                let now = clock.now();
                // Whoever keeps counters elsewhere has a clock of its own.
                let as_of = if passage.kept.all.is_empty() { turn.as_of(now) } else { now };
                wait = match self.attempt(passage, (place, waiter), as_of).await {
                    Ok(()) => {
                        turn.served(as_of);
                        return Ok(());
                    }
                    Err(Kept::Out(moved)) => return Err(moved),
                    Err(Kept::For(wait)) => wait,
                };
                turn.rest(wait, as_of, now).await.map_err(Left::Line)?;
            }
        };
        match in_line.await {
            Ok(()) => Ok(()),
            Err(Left::For(place)) => Err(Moved::To(place)),
            // Another limit refused, which does not queue: the verdict stands.
            Err(Left::Refused | Left::Line(QueueRefusal::Refused)) => Ok(()),
            // It is told to come back when all who wait have been served.
            Err(Left::Line(QueueRefusal::Full | QueueRefusal::TooLong(_))) => {
                let wait = match is_here {
                    true => self.limiter().wait_behind(charge, held.queue.cost()),
                    false => wait.or(Some(max_wait)),
                };
                Err(Moved::Out(wait.map_or(Refusal::Never, as_refusal)))
            }
        }
    }

    /// Tries the whole chain once, for a request that waits for the limit at `place`. Where others came before it to another one
    /// it only looks whether it would pass, and if so goes behind them.
    async fn attempt(
        &self,
        passage: &mut Passage<'_>,
        (place, waiter): (usize, &mut Waiter),
        now: Time,
    ) -> Result<(), Kept> {
        match self.to_give_way_at(passage, (place, waiter)) {
            Some(other) => {
                self.look_ahead(passage, now);
                if passage.is_admitted() {
                    waiter.gave_way.push(other);
                    return Err(Kept::Out(Left::For(other)));
                }
            }
            None => self.try_again(passage, now).await,
        }
        match passage.verdict {
            Verdict::Admitted | Verdict::Degraded { .. } => Ok(()),
            Verdict::Queued { by, refusal } if by == place => Err(Kept::For(refusal.retry_after())),
            Verdict::Queued { by, .. } => Err(Kept::Out(Left::For(by))),
            Verdict::Refused { .. } => Err(Kept::Out(Left::Refused)),
        }
    }
}

/// What an attempt came to that did not pass.
enum Kept {
    /// It is worth another after so long.
    For(Option<Duration>),
    /// It is worth none in this line.
    Out(Left),
}

/// Why a request is no longer in a line.
enum Left {
    /// It waits for the limit at another place.
    For(usize),
    /// A limit refused it that does not queue.
    Refused,
    /// The line did not keep it.
    Line(QueueRefusal),
}

/// Why a request left a line without passing.
enum Moved {
    /// It waits for the limit at another place.
    To(usize),
    /// It may not wait.
    Out(Refusal),
}

/// Whether the limit at a place lets nobody wait for so long.
fn is_too_long(passage: &Passage<'_>, place: usize, refusal: Refusal) -> bool {
    let most = Duration::from_millis(u64::from(passage.limit(place).queue().max_wait_ms));
    refusal.retry_after().is_none_or(|wait| wait > most)
}

fn as_refusal(wait: Duration) -> Refusal {
    Refusal::Wait(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX - 1).max(1))
}
