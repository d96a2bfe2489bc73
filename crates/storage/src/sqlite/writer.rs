//! The writer: everything that waits is written in one transaction, made durable by one fsync, and then answered.
//!
//! While the disk is busy with one group the next one gathers, so a group is as large as the load makes it and nobody waits
//! for a timer. Each request is a savepoint of its own: one that cannot be done leaves the others alone.

use rusqlite::Connection;
use tokio::sync::mpsc::UnboundedReceiver;

use super::lock::FolderLock;
use super::open::Watch;
use super::usage::UsageWriter;
use super::{audit, idempotency, keys, objects, quotas};
use crate::request::{Reply, Write};
use crate::{Change, Committed, StoreError, Tidy, Unavailable};

/// The most requests of a group.
const GROUP: usize = 4096;

pub(super) struct Writer {
    db: Connection,
    usage: UsageWriter,
    watch: Watch,
    /// Why SQLite gave up the whole transaction, if it did.
    given_up: Option<Unavailable>,
}

/// Answers a request, given whether its group is durable.
type Answer = Box<dyn FnOnce(&mut Writer, Result<(), Unavailable>)>;

impl Writer {
    pub(super) fn new(db: Connection, watch: Watch) -> Writer {
        Writer { db, usage: UsageWriter::default(), watch, given_up: None }
    }

    /// Works until it is told to close or nobody can ask any more.
    pub(super) fn run(mut self, mut requests: UnboundedReceiver<Write>, lock: FolderLock) {
        let mut group = Vec::new();
        let mut closing = None;
        while closing.is_none() && requests.blocking_recv_many(&mut group, GROUP) > 0 {
            if let Some(at) = group.iter().position(|write| matches!(write, Write::Close(_))) {
                let rest = group.split_off(at);
                closing = rest.into_iter().find_map(|write| match write {
                    Write::Close(reply) => Some(reply),
                    _ => None,
                });
            }
            self.write(group.drain(..));
        }
        // Later requests are dropped with the channel, and so answered.
        drop(requests);
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // A checkpoint that fails is made up for when the database is opened next.
        drop(self.db.query_row(checkpoint, [], |_| Ok(())));
        drop(self.db.close());
        drop(lock);
        if let Some(reply) = closing {
            reply.send(Ok(()));
        }
    }

    fn write(&mut self, group: impl Iterator<Item = Write>) {
        let begun = self.db.execute_batch("BEGIN IMMEDIATE").map_err(Unavailable::from);
        let answers: Vec<Answer> = group.map(|request| self.apply(request, &begun)).collect();
        let durable = begun.and_then(|()| self.commit());
        if durable.is_err() {
            self.usage.forget_ids();
        }
        for answer in answers {
            answer(self, durable.clone());
        }
    }

    fn commit(&mut self) -> Result<(), Unavailable> {
        if let Some(why) = self.given_up.take() {
            return Err(why);
        }
        self.db.execute_batch("COMMIT").map_err(|why| {
            drop(self.db.execute_batch("ROLLBACK"));
            why.into()
        })
    }

    fn apply(&mut self, request: Write, begun: &Result<(), Unavailable>) -> Answer {
        match request {
            Write::Commit(changes, reply, permit) => {
                let done = self.step(begun, |writer| writer.change(changes));
                Box::new(move |writer, durable| {
                    let done = durable.map_err(StoreError::from).and(done);
                    if let Ok(committed) = &done {
                        committed.keys.iter().for_each(&writer.watch);
                    }
                    drop(permit);
                    reply.send(done);
                })
            }
            Write::AddUsage(batch, reply, permit) => {
                let done = self.step(begun, |writer| writer.usage.add(&writer.db, batch));
                answer((reply, permit), done)
            }
            Write::Tidy(what, reply, permit) => {
                answer((reply, permit), self.step(begun, |writer| writer.tidy(what)))
            }
            Write::Reserve(reservation, reply) => {
                let reserve = |writer: &mut Writer| quotas::reserve(&writer.db, &reservation);
                answer((reply, ()), self.step(begun, reserve))
            }
            Write::Refund(refunds, reply) => {
                let refund = |writer: &mut Writer| quotas::refund(&writer.db, &refunds);
                answer((reply, ()), self.step(begun, refund))
            }
            Write::Barrier(reply) | Write::Close(reply) => {
                // It waits for what was before it, whether that was done or not.
                Box::new(move |_, _| reply.send(Ok(())))
            }
        }
    }

    /// Does something whole or not at all.
    fn step<R>(
        &mut self,
        begun: &Result<(), Unavailable>,
        work: impl FnOnce(&mut Writer) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        begun.clone()?;
        // Without a transaction a savepoint would be one, and its release would commit it.
        if let Some(why) = &self.given_up {
            return Err(why.clone().into());
        }
        self.db.prepare_cached("SAVEPOINT step")?.execute([])?;
        let done = work(self);
        if let Err(why) = &done {
            self.usage.forget_ids();
            if self.db.is_autocommit() {
                self.given_up = Some(match why {
                    StoreError::Unavailable(why) => why.clone(),
                    other => Unavailable::Failed(other.to_string()),
                });
                return done;
            }
            self.db.prepare_cached("ROLLBACK TO step")?.execute([])?;
        }
        self.db.prepare_cached("RELEASE step")?.execute([])?;
        done
    }

    fn change(&mut self, changes: Vec<Change>) -> Result<Committed, StoreError> {
        let mut committed = Committed::default();
        let db = &self.db;
        for change in changes {
            match change {
                Change::IssueKey(key) => {
                    keys::insert(db, &key)?;
                    committed.keys.push(*key);
                }
                Change::UpdateKey { id, terms } => {
                    committed.keys.push(keys::update(db, &id, *terms)?);
                }
                Change::RotateKey { id, successor, grace_until } => {
                    committed.keys.push(keys::replace(db, &id, &successor.id, grace_until)?);
                    keys::insert(db, &successor)?;
                    committed.keys.push(*successor);
                }
                Change::RevokeKey { id, at } => committed.keys.push(keys::revoke(db, &id, at)?),
                Change::Put { kind, id, body, expect, at } => {
                    let object = objects::Draft { kind, id: &id, body: &body, at };
                    committed.versions.push(objects::put(db, &object, expect)?);
                }
                Change::Remove { kind, id, expect, at } => {
                    objects::remove(db, kind, (&id, expect), at)?;
                }
                Change::Needs { kind, id } => drop(objects::get(db, kind, &id)?),
                Change::Unchanged(revision) => {
                    if objects::revision(db)? != revision {
                        return Err(StoreError::Outdated);
                    }
                }
                Change::Audit(entry) => audit::insert(db, &entry)?,
                Change::Remember(answer) => idempotency::insert(db, &answer)?,
            }
        }
        Ok(committed)
    }

    /// Deletes a slice of what is too old; answers whether there may be more.
    fn tidy(&mut self, what: Tidy) -> Result<bool, StoreError> {
        let db = &self.db;
        let usage = self.usage.forget(db, what.usage_from)?;
        let audit = audit::forget(db, what.audit_from)?;
        let quotas = quotas::forget(db, what.now)?;
        let answers = idempotency::forget(db, what.now)?;
        Ok([usage, audit, quotas, answers].iter().any(|deleted| *deleted >= Tidy::SLICE as usize))
    }
}

fn answer<R: 'static, P: 'static>(
    (reply, permit): (Reply<R>, P),
    done: Result<R, StoreError>,
) -> Answer {
    Box::new(move |_, durable| {
        drop(permit);
        reply.send(durable.map_err(StoreError::from).and(done));
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tollgate_core::Time;

    use super::super::schema;
    use super::*;
    use crate::{AuditEntry, Expect, ObjectKind};

    fn writer() -> Writer {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db, 0).unwrap();
        Writer::new(db, Box::new(|_| ()))
    }

    fn audit(subject: &str) -> Change {
        Change::Audit(AuditEntry {
            at: 0,
            actor: String::new(),
            action: String::new(),
            subject: subject.to_owned(),
            before: None,
            after: None,
        })
    }

    /// The answers to lists of changes that were waiting together.
    fn commit_together(
        writer: &mut Writer,
        lists: Vec<Vec<Change>>,
    ) -> Vec<Result<Committed, StoreError>> {
        let room = Arc::new(Semaphore::new(lists.len()));
        let (group, answers): (Vec<_>, Vec<_>) = lists
            .into_iter()
            .map(|changes| {
                let (reply, answer) = Reply::channel();
                let permit = Arc::clone(&room).try_acquire_owned().unwrap();
                (Write::Commit(changes, reply, permit), answer)
            })
            .unzip();
        writer.write(group.into_iter());
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect()
    }

    fn audited(writer: &Writer) -> i64 {
        writer.db.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_database_that_turned_read_only_says_so_until_it_is_writable() {
        let mut writer = writer();
        writer.db.pragma_update(None, "query_only", true).unwrap();
        let read_only = Err(StoreError::Unavailable(Unavailable::ReadOnly));
        let answers = commit_together(&mut writer, vec![vec![audit("a")], vec![audit("b")]]);
        assert_eq!(answers, [read_only.clone(), read_only]);
        writer.db.pragma_update(None, "query_only", false).unwrap();
        let answers = commit_together(&mut writer, vec![vec![audit("a")], vec![audit("b")]]);
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(audited(&writer), 2);
    }

    #[test]
    fn one_list_that_cannot_be_made_leaves_its_group_alone() {
        let mut writer = writer();
        let (kind, id) = (ObjectKind::Plan, "pro".to_owned());
        let impossible = Change::Remove { kind, id, expect: Expect::Present, at: Time::EPOCH };
        let lists = vec![vec![audit("a")], vec![audit("b"), impossible], vec![audit("c")]];
        let answers = commit_together(&mut writer, lists);
        assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok());
        assert_eq!(audited(&writer), 2);
    }

    #[test]
    fn a_group_whose_transaction_is_given_up_is_refused_whole() {
        let mut writer = writer();
        // SQLite itself rolls the whole transaction back, as it does when a disk fails in the middle.
        writer
            .db
            .execute_batch(
                "CREATE TRIGGER fails BEFORE INSERT ON audit WHEN new.subject = 'b'
                 BEGIN SELECT raise(ROLLBACK, 'gone'); END",
            )
            .unwrap();
        let put = Change::Put {
            kind: ObjectKind::Plan,
            id: "pro".to_owned(),
            body: "{}".to_owned(),
            expect: Expect::Absent,
            at: Time::EPOCH,
        };
        let lists = vec![vec![audit("a")], vec![put.clone(), audit("b")], vec![audit("c")]];
        let answers = commit_together(&mut writer, lists);
        let is_failed = |answer| matches!(answer, &Err(StoreError::Unavailable(_)));
        assert!(answers.iter().all(is_failed), "{answers:?}");
        assert_eq!(audited(&writer), 0);
        let answers = commit_together(&mut writer, vec![vec![audit("a")], vec![put]]);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
}
