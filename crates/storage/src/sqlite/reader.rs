//! A reader: answers questions one after another, each from the database as it was when the question began.

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::mpsc::Receiver;

use super::{audit, backup, idempotency, keys, objects, quotas, usage_query};
use crate::request::Read;

pub(super) struct Reader {
    db: Connection,
}

impl Reader {
    pub(super) fn new(db: Connection) -> Reader {
        Reader { db }
    }

    /// Works until it is told to close or nobody can ask any more.
    pub(super) fn run(self, requests: &Mutex<Receiver<Read>>) {
        loop {
            // Whoever holds the lock waits for all; a request is answered without it.
            let request = requests.lock().blocking_recv();
            match request {
                Some(Read::Close(reply)) => {
                    drop(self.db.close());
                    return reply.send(Ok(()));
                }
                Some(request) => self.answer(request),
                None => return,
            }
        }
    }

    fn answer(&self, request: Read) {
        let db = &self.db;
        match request {
            Read::Key(id, reply) => reply.send(keys::get(db, &id)),
            Read::Keys(tenant, page, reply) => reply.send(keys::list(db, tenant.as_ref(), &page)),
            Read::KeysOf(whose, now, reply) => reply.send(keys::of_user(db, &whose, now)),
            Read::AllKeys(now, parts) => {
                if let Err(why) = keys::send_all(db, now, &parts) {
                    drop(parts.blocking_send(Err(why)));
                }
            }
            Read::Object(kind, id, reply) => reply.send(objects::get(db, kind, &id)),
            Read::KeysInForce(kind, id, now, reply) => {
                reply.send(objects::keys_in_force(db, kind, (&id, now)));
            }
            Read::Objects(kind, reply) => reply.send(objects::list(db, kind)),
            Read::Revision(reply) => reply.send(objects::revision(db)),
            // Whatever was changed, this process changed, and its watchers know.
            Read::CatchUp(reply) => reply.send(Ok(())),
            Read::Audit(page, reply) => reply.send(audit::list(db, &page)),
            Read::Answer(key, now, reply) => reply.send(idempotency::get(db, &key, now)),
            Read::QuotaTaken(name, begins, reply) => reply.send(quotas::taken(db, &name, begins)),
            Read::Usage(query, reply) => reply.send(usage_query::answer(db, &query)),
            Read::Backup(file, reply) => reply.send(backup::write(db, &file)),
            Read::Close(reply) => reply.send(Ok(())),
        }
    }
}
