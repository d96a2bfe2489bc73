//! The writer: groups of change lists, usage and tidying, one call at a time.
//!
//! Each call has a number, so one that may have run is sent again until its answer is known. Whoever waits is told after a while all
//! the same: that a change is in doubt; that usage is taken, as it will be added once, whenever that is. Meanwhile
//! nothing new is begun.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use redis::{Cmd, Value};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tollgate_redis::{Lua, Plain};

use super::feed::{Feed, Own};
use super::names::Names;
use super::scripts::{COMMIT, TIDY, USAGE};
use super::values::{damaged, moment, number, text};
use super::{reader, row};
use crate::request::Reply;
use crate::usage::{Subject, Totals, UsageBatch};
use crate::{Change, Committed, IdempotentAnswer, StoreError, Tidy, Unavailable, Version};

/// Lists of changes in one call, and about how many bytes.
const LISTS: usize = 64;
const BYTES: usize = 256 * 1024;
/// Entries of usage in one call: Redis does nothing else for a few milliseconds.
const ENTRIES: usize = 500;
/// Entries of the log that are kept for nodes that were away.
const LOG: u32 = 100_000;
/// How long an attempt may take, and how long somebody waits for all attempts together.
const ATTEMPT: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(5);
/// The first pause between attempts, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) enum ControlWrite {
    Commit(Vec<Change>, Reply<Committed>, OwnedSemaphorePermit),
    AddUsage(UsageBatch, Reply<()>, OwnedSemaphorePermit),
    Tidy(Tidy, Reply<bool>, OwnedSemaphorePermit),
    /// Answered when everything before it is.
    Barrier(Reply<()>),
}

impl ControlWrite {
    fn refuse(self, why: &Unavailable) {
        let why = StoreError::from(why.clone());
        match self {
            ControlWrite::Commit(_, reply, _) => reply.send(Err(why)),
            ControlWrite::AddUsage(_, reply, _) => reply.send(Err(why)),
            ControlWrite::Tidy(_, reply, _) => reply.send(Err(why)),
            ControlWrite::Barrier(reply) => reply.send(Err(why)),
        }
    }
}

fn silent() -> Unavailable {
    Unavailable::Failed("Redis does not answer".to_owned())
}

pub(super) struct Writer {
    plain: Arc<Plain>,
    names: Names,
    feed: Arc<Feed>,
    name: String,
    number: u64,
    requests: UnboundedReceiver<ControlWrite>,
    /// Taken out of the channel and not begun.
    queue: VecDeque<ControlWrite>,
}

/// One list's place in a call.
type Waiting = (Reply<Committed>, OwnedSemaphorePermit);

impl Writer {
    pub(super) fn new(
        (plain, names, feed): (Arc<Plain>, Names, Arc<Feed>),
        name: String,
        requests: UnboundedReceiver<ControlWrite>,
    ) -> Writer {
        Writer { plain, names, feed, name, number: 0, requests, queue: VecDeque::new() }
    }

    /// Works until nobody can ask any more.
    pub(super) async fn run(mut self) {
        let mut taken = Vec::new();
        while self.requests.recv_many(&mut taken, 4 * LISTS).await > 0 {
            self.queue.extend(taken.drain(..));
            while let Some(request) = self.queue.pop_front() {
                match request {
                    ControlWrite::Commit(changes, reply, permit) => {
                        self.commit(changes, (reply, permit)).await;
                    }
                    ControlWrite::AddUsage(batch, reply, permit) => {
                        self.add_usage(batch, (reply, permit)).await;
                    }
                    ControlWrite::Tidy(what, reply, _permit) => reply.send(self.tidy(what).await),
                    ControlWrite::Barrier(reply) => reply.send(Ok(())),
                }
            }
        }
    }

    /// A call with the next number.
    fn numbered(&mut self, script: &Lua) -> Cmd {
        self.number += 1;
        let mut cmd = script.with_keys(&[&self.names.meta()]);
        cmd.arg(&self.name).arg(self.number);
        cmd
    }

    /// Makes this list, and those that wait behind it, in one call.
    async fn commit(&mut self, changes: Vec<Change>, waiting: Waiting) {
        let mut cmd = self.numbered(&COMMIT);
        let by = format!("{} {}", self.name, self.number);
        cmd.arg(self.names.channel()).arg(IdempotentAnswer::MOST).arg(LOG);
        let mut all: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        let mut next = Some((changes, waiting));
        while let Some((changes, (reply, permit))) = next.take() {
            match row::write_list(&changes) {
                Ok(list) => {
                    bytes += list.len();
                    cmd.arg(list);
                    all.push((reply, permit));
                }
                Err(why) => reply.send(Err(why)),
            }
            let is_next = matches!(self.queue.front(), Some(ControlWrite::Commit(..)));
            if is_next
                && all.len() < LISTS
                && bytes < BYTES
                && let Some(ControlWrite::Commit(changes, reply, permit)) = self.queue.pop_front()
            {
                next = Some((changes, (reply, permit)));
            }
        }
        if all.is_empty() {
            return;
        }
        let mut told = Some(all);
        let done = self
            .see_through((&COMMIT, cmd), &AtomicBool::new(false), || {
                for (reply, _permit) in told.take().into_iter().flatten() {
                    reply.send(Err(Unavailable::InDoubt.into()));
                }
            })
            .await;
        let Some(all) = told else { return };
        match done.map_err(StoreError::from).and_then(|value| read_made(&value)) {
            Ok(made) => {
                for ((reply, _permit), made) in all.into_iter().zip(made) {
                    let made = made.committed();
                    if let Ok((Committed { keys, .. }, Some((places, before)))) = &made {
                        self.feed.committed(Own { places: *places, before, by: &by, keys }).await;
                    }
                    reply.send(made.map(|(committed, _)| committed));
                }
            }
            Err(why) => {
                all.into_iter().for_each(|(reply, _permit)| reply.send(Err(why.clone())));
            }
        }
    }

    async fn add_usage(&mut self, batch: UsageBatch, waiting: (Reply<()>, OwnedSemaphorePermit)) {
        let mut told = Some(waiting);
        let mut counts = batch.0;
        counts.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        // Once a part is added, all are: nobody could tell which were not. So it is once somebody was told that they will be.
        let must = AtomicBool::new(false);
        for part in parts(&counts) {
            let mut cmd = self.numbered(&USAGE);
            part.iter().for_each(|of_row| write_usage(&mut cmd, of_row));
            let late = || {
                if let Some((reply, _permit)) = told.take() {
                    must.store(true, Relaxed);
                    reply.send(Ok(()));
                }
            };
            let done = self.see_through((&USAGE, cmd), &must, late).await;
            if let Err(why) = done {
                if let Some((reply, _permit)) = told.take() {
                    reply.send(Err(why.into()));
                }
                return;
            }
            must.store(true, Relaxed);
        }
        if let Some((reply, _permit)) = told {
            reply.send(Ok(()));
        }
    }

    async fn tidy(&mut self, what: Tidy) -> Result<bool, StoreError> {
        let mut cmd = TIDY.with_keys(&[&self.names.meta()]);
        cmd.arg(what.usage_from.number()).arg(moment(what.audit_from));
        cmd.arg(moment(row::forgotten_at(what.now))).arg(Tidy::SLICE);
        cmd.arg(moment(what.now));
        let value = self.plain.run(&TIDY, cmd, reader::WITHIN).await?;
        number(&value).map(|more| more > 0).ok_or_else(|| damaged("what is old"))
    }

    /// Sends a call until its answer is known. After a while `late` tells whoever waits, and from then on whoever comes is refused.
    /// `Err` if it has certainly not run, which never happens where it `must`, or must by what `late` has told.
    async fn see_through(
        &mut self,
        (script, cmd): (&'static Lua, Cmd),
        must: &AtomicBool,
        late: impl FnOnce(),
    ) -> Result<Value, tollgate_redis::Unavailable> {
        let mut call = pin!(certainly(&self.plain, (script, cmd), must));
        tokio::select! {
            done = &mut call => return done,
            () = sleep(PATIENCE) => late(),
        }
        self.queue.drain(..).for_each(|write| write.refuse(&silent()));
        loop {
            tokio::select! {
                done = &mut call => return done,
                Some(write) = self.requests.recv() => write.refuse(&silent()),
            }
        }
    }
}

async fn certainly(
    plain: &Plain,
    (script, cmd): (&'static Lua, Cmd),
    must: &AtomicBool,
) -> Result<Value, tollgate_redis::Unavailable> {
    let (mut may_have_run, mut pause) = (false, PAUSE);
    loop {
        let done = plain.run(script, cmd.clone(), ATTEMPT).await;
        let must = must.load(Relaxed);
        match done {
            Ok(value) => return Ok(value),
            // It looked for its number before it was refused room, and did not find it.
            Err(why) if !must && Unavailable::from(why.clone()) == Unavailable::Full => {
                return Err(why);
            }
            Err(why) => {
                may_have_run |= why.may_have_run();
                if !must && !may_have_run {
                    return Err(why);
                }
            }
        }
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// What a script answered about one list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Made {
    keys: Vec<String>,
    versions: Vec<String>,
    first: Option<String>,
    last: Option<String>,
    before: Option<String>,
    error: Option<Vec<String>>,
}

/// Its first and last place, and who made the change before.
type Logged = ((i64, i64), String);

#[derive(Deserialize)]
struct AllMade {
    done: Vec<Made>,
}

fn read_made(value: &Value) -> Result<Vec<Made>, StoreError> {
    let all = text(value).and_then(|text| serde_json::from_str::<AllMade>(text).ok());
    all.map(|all| all.done).ok_or_else(|| damaged("what was made"))
}

impl Made {
    /// What was committed, and where in the log.
    fn committed(self) -> Result<(Committed, Option<Logged>), StoreError> {
        if let Some(error) = self.error {
            return Err(fault(&error));
        }
        let keys = self.keys.iter().map(|text| row::read_key(text)).collect::<Result<_, _>>()?;
        let versions = self.versions.iter().map(|text| text.parse().map(Version));
        let versions = versions.collect::<Result<_, _>>().map_err(|_| damaged("a version"))?;
        let place = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let places = place(self.first).zip(place(self.last));
        Ok((Committed { keys, versions }, places.zip(self.before)))
    }
}

fn fault(error: &[String]) -> StoreError {
    let words: Vec<&str> = error.iter().map(String::as_str).collect();
    let read = || match words[..] {
        ["exists", what] => Some(StoreError::Exists { what: what.to_owned() }),
        ["not_found", what] => Some(StoreError::NotFound { what: what.to_owned() }),
        ["stale", what, found] => {
            let found = Version(found.parse().ok()?);
            Some(StoreError::Stale { what: what.to_owned(), found })
        }
        ["in_use", what, keys] => {
            Some(StoreError::InUse { what: what.to_owned(), keys: keys.parse().ok()? })
        }
        ["not_current", id, by] => {
            Some(StoreError::NotCurrent { id: id.parse().ok()?, replaced_by: by.parse().ok() })
        }
        ["answered", key, earlier] => {
            let earlier = row::read_answer(key, earlier).ok()?;
            Some(StoreError::Answered(Box::new(earlier)))
        }
        ["moved"] => Some(StoreError::Outdated),
        _ => None,
    };
    read().unwrap_or_else(|| damaged("what was refused"))
}

/// Usage of one day, tenant and key.
type OfRow<'a> = &'a [(Subject, Totals)];

/// Sorted usage in parts for one call each.
fn parts(counts: &[(Subject, Totals)]) -> Vec<Vec<OfRow<'_>>> {
    let is_same = |(one, _): &(Subject, Totals), (other, _): &(Subject, Totals)| {
        (one.day, &one.tenant, &one.key) == (other.day, &other.tenant, &other.key)
    };
    let mut parts: Vec<Vec<OfRow<'_>>> = Vec::new();
    let mut entries = ENTRIES;
    for of_row in counts.chunk_by(is_same).flat_map(|of_row| of_row.chunks(ENTRIES)) {
        if entries + of_row.len() > ENTRIES {
            parts.push(Vec::new());
            entries = 0;
        }
        entries += of_row.len();
        if let Some(part) = parts.last_mut() {
            part.push(of_row);
        }
    }
    parts
}

fn write_usage(cmd: &mut Cmd, of_row: OfRow<'_>) {
    // Scripts are exact up to here.
    const LARGEST: u64 = 1 << 53;
    let Some((first, _)) = of_row.first() else { return };
    cmd.arg(first.day).arg(&*first.tenant).arg(&*first.key).arg(of_row.len());
    for (subject, totals) in of_row {
        cmd.arg(&*subject.route).arg(&*subject.plan);
        for count in [totals.requests, totals.refusals, totals.tokens] {
            cmd.arg(count.min(LARGEST));
        }
    }
}
