//! Quotas: a script a quota, many on their way at once, in a lane of their own because requests wait for them.
//!
//! Whether a call that failed has run is not known. A reservation then counts as made and was granted to nobody; a refund counts as
//! given back. Either strands something, as a crash does, and nothing is ever given twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
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

/// Reservations that are sent at once: each of another quota, because calls about one go one after another.
#[derive(Default)]
struct Group {
    calls: Vec<Call>,
    replies: Vec<Reply<Grant>>,
    names: HashSet<String>,
    /// When the first was asked for.
    since: Option<Instant>,
}

/// Refunds on their way, and of which quotas.
struct Refunding {
    names: HashSet<String>,
    task: JoinHandle<()>,
}

impl Quotas {
    /// Works until nobody can ask any more. Whatever it waits for, it is no longer than the request that waits first may.
    pub(super) async fn run(self, mut requests: UnboundedReceiver<QuotaWrite>) {
        let mut waiting = Vec::new();
        let mut refunding: Vec<Refunding> = Vec::new();
        while requests.recv_many(&mut waiting, GROUP).await > 0 {
            let mut group = Group::default();
            for request in waiting.drain(..) {
                refunding.retain(|refunding| !refunding.task.is_finished());
                match request {
                    QuotaWrite::Reserve(wanted, since, reply) => {
                        let name = self.names.quota(&wanted.name, wanted.period.begins);
                        if group.names.contains(&name) {
                            self.reserve(std::mem::take(&mut group)).await;
                        }
                        // What was given back of it before is to be there.
                        let before =
                            refunding.iter_mut().find(|before| before.names.contains(&name));
                        if let Some(before) = before {
                            self.reserve(std::mem::take(&mut group)).await;
                            let _ = timeout_at(since + self.timeout, &mut before.task).await;
                        }
                        group.calls.push(self.reservation(&name, &wanted));
                        group.replies.push(reply);
                        group.names.insert(name);
                        group.since.get_or_insert(since);
                    }
                    QuotaWrite::Refund(refunds, reply) => {
                        self.reserve(std::mem::take(&mut group)).await;
                        refunding.push(self.refund_in_background(refunds, reply));
                    }
                    QuotaWrite::Barrier(reply) => {
                        self.reserve(std::mem::take(&mut group)).await;
                        for before in refunding.drain(..) {
                            let _ = before.task.await;
                        }
                        reply.send(Ok(()));
                    }
                }
            }
            self.reserve(group).await;
        }
    }

    /// Nobody waits for refunds, and they may take longer than requests wait.
    fn refund_in_background(&self, refunds: Vec<Refund>, reply: Reply<()>) -> Refunding {
        let name = |refund: &Refund| self.names.quota(&refund.name, refund.begins);
        let (names, quotas) = (refunds.iter().map(name).collect(), self.clone());
        let task = tokio::spawn(async move { reply.send(quotas.refund(&refunds).await) });
        Refunding { names, task }
    }

    fn reservation(&self, name: &str, wanted: &Reservation) -> Call {
        let mut cmd = RESERVE.with_keys(&[name]);
        let (begins, ends) = (wanted.period.begins.as_nanos(), wanted.period.ends.as_nanos());
        cmd.arg(wanted.amount.min(LARGEST)).arg(wanted.limit.min(LARGEST));
        cmd.arg(begins).arg(ends).arg(ends / 1_000_000).arg(KEPT_MS);
        (&*RESERVE, cmd)
    }

    async fn reserve(&self, Group { calls, replies, since, .. }: Group) {
        let Some(since) = since else { return };
        let left = (since + self.timeout).saturating_duration_since(Instant::now());
        match self.plain.run_all(calls, left).await {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    reply.send(answer.map_err(StoreError::from).and_then(|value| granted(&value)));
                }
            }
            Err(why) => {
                let why = Unavailable::from(why);
                replies.into_iter().for_each(|reply| reply.send(Err(why.clone().into())));
            }
        }
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

fn granted(value: &Value) -> Result<Grant, StoreError> {
    let read = || {
        let [granted, taken] = list(value)? else { return None };
        let count = |value| number(value).and_then(|count| u64::try_from(count).ok());
        Some(Grant { granted: count(granted)?, taken: count(taken)? })
    };
    read().ok_or_else(|| damaged("a quota"))
}
