//! Quotas: a script a quota, many on their way at once, in a lane of their own because requests wait for them.
//!
//! Whether a call that failed has run is not known. A reservation then counts as made and was granted to nobody; a refund counts as
//! given back. Either strands something, as a crash does, and nothing is ever given twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tollgate_redis::{Lua, Plain};

use super::names::Names;
use super::scripts::{REFUND, RESERVE};
use super::values::{damaged, list, number};
use crate::quota::{Grant, Refund, Reservation};
use crate::request::Reply;
use crate::{StoreError, Unavailable};

/// How long a balance is kept after its period: longer than clocks go wrong.
const KEPT_MS: u64 = 7 * 86_400 * 1000;
/// Calls on their way at once.
const GROUP: usize = 256;
/// How long refunds may take: nobody waits for them.
const REFUNDING: Duration = Duration::from_secs(2);
/// The largest number that scripts know exactly; a limit above is this one.
const LARGEST: u64 = 1 << 53;

pub(super) enum QuotaWrite {
    /// With when it was asked for: a request waits from then on.
    Reserve(Reservation, Instant, Reply<Grant>),
    Refund(Vec<Refund>, Reply<()>),
    /// Answered when everything before it is.
    Barrier(Reply<()>),
}

#[derive(Clone)]
pub(super) struct Quotas {
    pub(super) plain: Arc<Plain>,
    /// Another connection, for refunds.
    pub(super) patient: Arc<Plain>,
    pub(super) names: Names,
    /// The longest that a request waits.
    pub(super) timeout: Duration,
}

type Call = (&'static Lua, Cmd);
type Answered =
    Result<Vec<Result<Value, tollgate_redis::Unavailable>>, tollgate_redis::Unavailable>;

/// Reservations that are sent at once: each of another quota, because calls about one go one after another.
#[derive(Default)]
struct Group {
    calls: Vec<Call>,
    replies: Vec<Reply<Grant>>,
    names: HashSet<String>,
    /// When the first was asked for.
    since: Option<Instant>,
}

/// Calls on their way, and about which quotas.
struct OnTheWay {
    names: HashSet<String>,
    /// Closed when they are answered.
    done: Done,
}

impl OnTheWay {
    fn begin(names: HashSet<String>, calls: impl Future<Output = ()> + Send + 'static) -> OnTheWay {
        let (ending, done) = watch::channel(());
        tokio::spawn(async move {
            calls.await;
            drop(ending);
        });
        OnTheWay { names, done }
    }

    fn is_done(&self) -> bool {
        self.done.has_changed().is_err()
    }
}

/// Those of them that are about any of these quotas.
fn about(on_the_way: &[OnTheWay], is_it: impl Fn(&HashSet<String>) -> bool) -> Vec<Done> {
    on_the_way.iter().filter(|one| is_it(&one.names)).map(|one| one.done.clone()).collect()
}

type Done = watch::Receiver<()>;

/// Waits until all are answered.
async fn answered(all: Vec<Done>) {
    for mut done in all {
        while done.changed().await.is_ok() {}
    }
}

impl Quotas {
    /// Works until nobody can ask any more. Calls about one quota go one after another, and wait for nothing else.
    pub(super) async fn run(self, mut requests: UnboundedReceiver<QuotaWrite>) {
        let mut waiting = Vec::new();
        let mut on_the_way: Vec<OnTheWay> = Vec::new();
        while requests.recv_many(&mut waiting, GROUP).await > 0 {
            let mut group = Group::default();
            for request in waiting.drain(..) {
                on_the_way.retain(|before| !before.is_done());
                match request {
                    QuotaWrite::Reserve(wanted, since, reply) => {
                        let name = self.names.quota(&wanted.name, wanted.period.begins);
                        if group.names.contains(&name) {
                            on_the_way.extend(self.reserve(&mut group));
                        }
                        let before = about(&on_the_way, |names| names.contains(&name));
                        if !before.is_empty() {
                            on_the_way.extend(self.reserve(&mut group));
                            let _ = timeout_at(since + self.timeout, answered(before)).await;
                        }
                        group.calls.push(self.reservation(&name, &wanted));
                        group.replies.push(reply);
                        group.names.insert(name);
                        group.since.get_or_insert(since);
                    }
                    QuotaWrite::Refund(refunds, reply) => {
                        on_the_way.extend(self.reserve(&mut group));
                        let name = |refund: &Refund| self.names.quota(&refund.name, refund.begins);
                        let names: HashSet<String> = refunds.iter().map(name).collect();
                        let before = about(&on_the_way, |others| !others.is_disjoint(&names));
                        let quotas = self.clone();
                        on_the_way.push(OnTheWay::begin(names, async move {
                            answered(before).await;
                            reply.send(quotas.refund(&refunds).await);
                        }));
                    }
                    QuotaWrite::Barrier(reply) => {
                        on_the_way.extend(self.reserve(&mut group));
                        let before = about(&on_the_way, |_| true);
                        tokio::spawn(async move {
                            answered(before).await;
                            reply.send(Ok(()));
                        });
                    }
                }
            }
            on_the_way.extend(self.reserve(&mut group));
        }
    }

    fn reservation(&self, name: &str, wanted: &Reservation) -> Call {
        let mut cmd = RESERVE.with_keys(&[name]);
        let (begins, ends) = (wanted.period.begins.as_nanos(), wanted.period.ends.as_nanos());
        cmd.arg(wanted.amount.min(LARGEST)).arg(wanted.limit.min(LARGEST));
        cmd.arg(begins).arg(ends).arg(ends / 1_000_000).arg(KEPT_MS);
        (&*RESERVE, cmd)
    }

    /// Sends a group, if there is anything in it.
    fn reserve(&self, group: &mut Group) -> Option<OnTheWay> {
        let Group { calls, replies, names, since } = std::mem::take(group);
        let (deadline, quotas) = (since? + self.timeout, self.clone());
        Some(OnTheWay::begin(names, async move {
            match quotas.run_before(deadline, calls).await {
                Ok(answers) => {
                    for (reply, answer) in replies.into_iter().zip(answers) {
                        let granted = answer.map_err(StoreError::from);
                        reply.send(granted.and_then(|value| granted_of(&value)));
                    }
                }
                Err(why) => {
                    let why = Unavailable::from(why);
                    replies.into_iter().for_each(|reply| reply.send(Err(why.clone().into())));
                }
            }
        }))
    }

    /// Runs calls for somebody who waits until then. A call that has had little time, because others were before it, says nothing of
    /// the server.
    async fn run_before(&self, deadline: Instant, calls: Vec<Call>) -> Answered {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(tollgate_redis::Unavailable::Open);
        }
        if left >= self.timeout / 2 {
            return self.plain.run_all(calls, left).await;
        }
        let in_time = timeout_at(deadline, self.plain.run_all(calls, self.timeout)).await;
        in_time.unwrap_or(Err(tollgate_redis::Unavailable::TimedOut))
    }

    /// `Err` only if nothing of it was given back.
    async fn refund(&self, refunds: &[Refund]) -> Result<(), StoreError> {
        let mut is_begun = false;
        for part in refunds.chunks(GROUP) {
            let calls = part.iter().map(|refund| {
                let mut cmd = REFUND.with_keys(&[&self.names.quota(&refund.name, refund.begins)]);
                cmd.arg(refund.amount.min(LARGEST));
                (&*REFUND, cmd)
            });
            match self.patient.run_all(calls.collect(), REFUNDING).await {
                Ok(answers) => {
                    let has_run = |answer: &Result<Value, tollgate_redis::Unavailable>| {
                        answer.as_ref().err().is_none_or(tollgate_redis::Unavailable::may_have_run)
                    };
                    is_begun |= answers.iter().any(has_run);
                    if let (false, Some(Err(why))) = (is_begun, answers.into_iter().next()) {
                        return Err(why.into());
                    }
                }
                Err(why) if !is_begun && !why.may_have_run() => return Err(why.into()),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn granted_of(value: &Value) -> Result<Grant, StoreError> {
    let read = || {
        let [granted, taken] = list(value)? else { return None };
        let count = |value| number(value).and_then(|count| u64::try_from(count).ok());
        Some(Grant { granted: count(granted)?, taken: count(taken)? })
    };
    read().ok_or_else(|| damaged("a quota"))
}
