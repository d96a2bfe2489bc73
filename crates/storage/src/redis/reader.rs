//! Answers questions, many at once, in pages that keep Redis for a moment each.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd};
use tokio::sync::mpsc::Sender;
use tollgate_core::Time;
use tollgate_policy::{TenantId, UserName};
use tollgate_redis::Plain;

use super::feed::Feed;
use super::names::Names;
use super::values::{damaged, list, number, read_moment, text};
use super::{row, usage_query};
use crate::request::Read;
use crate::{
    AuditEntry, Cursor, IdempotentAnswer, Object, ObjectKind, Page, PageOf, Revision, StoreError,
    StoredKey, Unavailable, Version,
};

/// Keys read at once. Redis sends a thousand in about a millisecond.
pub(super) const PART: usize = 1000;
/// The longest that a question waits.
pub(super) const WITHIN: Duration = Duration::from_secs(10);

/// What a question is answered with.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) plain: Arc<Plain>,
    pub(super) names: Names,
    pub(super) feed: Arc<Feed>,
}

/// A list of keys, read part by part. Keys are never deleted, so nothing is missed between two parts.
pub(super) struct Parts<'a> {
    plain: &'a Plain,
    names: &'a Names,
    order: String,
    count: usize,
    /// Places and ids of the next part; `None` before the first.
    next: Option<Vec<(i64, String)>>,
    after: i64,
}

/// Places and rows that are yet to be read.
type Unread = Vec<(i64, Value)>;

impl<'a> Parts<'a> {
    /// `count` at a time of the list called `order`, after a place.
    pub(super) fn new(
        (plain, names): (&'a Plain, &'a Names),
        order: String,
        (after, count): (i64, usize),
    ) -> Parts<'a> {
        Parts { plain, names, order, count, next: None, after }
    }

    fn ids(&self, after: i64) -> Cmd {
        let mut range = cmd("ZRANGEBYSCORE");
        range.arg(self.names.of(&self.order)).arg(format!("({after}")).arg("+inf");
        range.arg("WITHSCORES").arg("LIMIT").arg(0).arg(self.count);
        range
    }

    /// The next part; empty at the end. The ids of the one after it are asked for on the same way.
    pub(super) async fn next(&mut self) -> Result<Unread, StoreError> {
        let ids = match self.next.take() {
            Some(ids) => ids,
            None => read_ids(&self.plain.ask(self.ids(self.after), WITHIN).await?)?,
        };
        let Some((last, _)) = ids.last() else { return Ok(Vec::new()) };
        self.after = *last;
        let mut both = Pipeline::with_capacity(2);
        both.cmd("HMGET").arg(self.names.of("keys"));
        for (_, id) in &ids {
            both.arg(id);
        }
        let is_last = ids.len() < self.count;
        if !is_last {
            both.add_command(self.ids(self.after));
        }
        let mut answers = self.plain.ask_all(&both, WITHIN).await?.into_iter();
        let rows = answers.next().unwrap_or(Err(tollgate_redis::Unavailable::Nonsense))?;
        self.next = Some(match answers.next() {
            Some(ids) => read_ids(&ids?)?,
            None => Vec::new(),
        });
        let Value::Array(rows) = rows else { return Err(damaged("the keys")) };
        Ok(ids.into_iter().map(|(place, _)| place).zip(rows).collect())
    }
}

fn read_ids(value: &Value) -> Result<Vec<(i64, String)>, StoreError> {
    let read = |pair: &[Value]| Some((number(&pair[1])?, text(&pair[0])?.to_owned()));
    let ids = list(value).and_then(|ids| ids.chunks_exact(2).map(read).collect());
    ids.ok_or_else(|| damaged("the list of keys"))
}

/// The keys of a part.
pub(super) fn read_rows(rows: &Unread) -> Result<Vec<(i64, StoredKey)>, StoreError> {
    let read = |(place, row): &(i64, Value)| {
        Ok((*place, row::read_key(text(row).ok_or_else(|| damaged("a key"))?)?))
    };
    rows.iter().map(read).collect()
}

impl Reader {
    pub(super) async fn answer(self, request: Read) {
        match request {
            Read::Key(id, reply) => {
                let found = self.hash("keys", id.as_str()).await;
                reply.send(found.and_then(|found| match found {
                    Some(text) => row::read_key(&text),
                    None => Err(StoreError::NotFound { what: format!("key {id}") }),
                }));
            }
            Read::Keys(tenant, page, reply) => reply.send(self.keys(tenant, page).await),
            Read::KeysOf(whose, now, reply) => reply.send(self.keys_of(whose, now).await),
            Read::AllKeys(now, parts) => {
                if let Err(why) = self.send_all(now, &parts).await {
                    drop(parts.send(Err(why)).await);
                }
            }
            Read::Object(kind, id, reply) => reply.send(self.object(kind, id).await),
            Read::Objects(kind, reply) => reply.send(self.objects(kind).await),
            Read::KeysInForce(kind, id, _, reply) => {
                let name = format!("{}:{id}", kind.name());
                let found = self.hash("in_force", &name).await;
                reply.send(found.map(|found| found.and_then(|n| n.parse().ok()).unwrap_or(0)));
            }
            Read::Revision(reply) => {
                let found = self.hash("meta", "versions").await;
                let read = |found: Option<String>| found.and_then(|n| n.parse().ok()).unwrap_or(0);
                reply.send(found.map(|found| Revision(read(found))));
            }
            Read::CatchUp(reply) => reply.send(self.feed.catch_up().await),
            Read::Audit(page, reply) => reply.send(self.audit(page).await),
            Read::Answer(key, now, reply) => reply.send(self.remembered(&key, now).await),
            Read::QuotaTaken(name, begins, reply) => {
                let mut hget = cmd("HGET");
                hget.arg(self.names.quota(&name, begins)).arg("taken");
                reply.send(self.ask(hget).await.map(|taken| {
                    number(&taken).and_then(|taken| u64::try_from(taken).ok()).unwrap_or(0)
                }));
            }
            Read::Usage(query, reply) => {
                reply.send(usage_query::answer(&self.plain, &self.names, &query).await);
            }
            Read::Backup(_, reply) => {
                let what =
                    "everything is in Redis: back that up, with BGSAVE or a copy of its files";
                reply.send(Err(Unavailable::Failed(what.to_owned()).into()));
            }
            Read::Close(reply) => reply.send(Ok(())),
        }
    }

    async fn ask(&self, cmd: Cmd) -> Result<Value, StoreError> {
        Ok(self.plain.ask(cmd, WITHIN).await?)
    }

    async fn hash(&self, name: &str, field: &str) -> Result<Option<String>, StoreError> {
        let mut hget = cmd("HGET");
        hget.arg(self.names.of(name)).arg(field);
        Ok(text(&self.ask(hget).await?).map(str::to_owned))
    }

    async fn keys(
        &self,
        tenant: Option<TenantId>,
        asked: PageOf,
    ) -> Result<Page<StoredKey>, StoreError> {
        let order = Names::order(tenant.as_ref().map(TenantId::as_str));
        let after = asked.after.as_ref().map_or(0, |cursor| cursor.0);
        let wanted = asked.rows();
        let from = (after, wanted + 1);
        let rows = Parts::new((&self.plain, &self.names), order, from).next().await?;
        Ok(page_of(read_rows(&rows)?, wanted))
    }

    /// All keys of a user that have not ended. Nothing lists them but their tenant's, which is read whole.
    async fn keys_of(
        &self,
        (tenant, user): (TenantId, UserName),
        now: Time,
    ) -> Result<Vec<StoredKey>, StoreError> {
        let order = Names::order(Some(tenant.as_str()));
        let mut rest = Parts::new((&self.plain, &self.names), order, (0, PART));
        let mut found = Vec::new();
        loop {
            let rows = rest.next().await?;
            if rows.is_empty() {
                return Ok(found);
            }
            let keys = read_rows(&rows)?.into_iter().map(|(_, key)| key);
            found
                .extend(keys.filter(|key| key.user.as_ref() == Some(&user) && key.ends_at() > now));
        }
    }

    /// Sends all keys that have not ended; stops when nobody receives them.
    async fn send_all(
        &self,
        now: Time,
        parts: &Sender<Result<Vec<StoredKey>, StoreError>>,
    ) -> Result<(), StoreError> {
        self.feed.loading().await?;
        let list = (&*self.plain, &self.names);
        let mut rest = Parts::new(list, Names::order(None), (0, PART));
        let mut reading = None;
        loop {
            let rows = rest.next().await?;
            let is_end = rows.is_empty();
            // One part is read by another thread while the next is fetched.
            let next = tokio::task::spawn_blocking(move || read_rows(&rows));
            if let Some(before) = reading.replace(next) {
                let rows: Result<_, StoreError> = before
                    .await
                    .map_err(|why| StoreError::from(Unavailable::Failed(why.to_string())))?;
                let keys = rows?.into_iter().map(|(_, key): (i64, StoredKey)| key);
                let part = keys.filter(|key| key.ends_at() > now).collect();
                if parts.send(Ok(part)).await.is_err() {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn object(&self, kind: ObjectKind, id: String) -> Result<Object, StoreError> {
        let mut hget = cmd("HGET");
        hget.arg(self.names.objects(kind)).arg(&id);
        let value = self.ask(hget).await?;
        let what = format!("{} {id}", kind.name());
        match text(&value) {
            Some(text) => read_object((kind, id), text),
            None => Err(StoreError::NotFound { what }),
        }
    }

    async fn objects(&self, kind: ObjectKind) -> Result<Vec<Object>, StoreError> {
        let mut objects = Vec::new();
        let mut cursor = 0;
        loop {
            let mut hscan = cmd("HSCAN");
            hscan.arg(self.names.objects(kind)).arg(cursor).arg("COUNT").arg(PART);
            let value = self.ask(hscan).await?;
            let (next, pairs) = scanned(&value).ok_or_else(|| damaged("the objects"))?;
            for pair in pairs.chunks_exact(2) {
                let both = text(&pair[0]).zip(text(&pair[1]));
                let (id, value) = both.ok_or_else(|| damaged("an object"))?;
                objects.push(read_object((kind, id.to_owned()), value)?);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        objects.sort_unstable_by(|one: &Object, other| one.id.cmp(&other.id));
        // A scan may tell the same twice.
        objects.dedup_by(|later, one| later.id == one.id);
        Ok(objects)
    }

    async fn audit(&self, asked: PageOf) -> Result<Page<AuditEntry>, StoreError> {
        let wanted = asked.rows();
        let from = asked.after.map_or_else(|| "+".to_owned(), |cursor| format!("({}-0", cursor.0));
        let mut range = cmd("XREVRANGE");
        range.arg(self.names.of("audit")).arg(from).arg("-").arg("COUNT").arg(wanted + 1);
        let value = self.ask(range).await?;
        let rows = list(&value).and_then(|rows| rows.iter().map(read_audited).collect());
        Ok(page_of(rows.ok_or_else(|| damaged("the audit"))?, wanted))
    }

    async fn remembered(
        &self,
        key: &str,
        now: Time,
    ) -> Result<Option<IdempotentAnswer>, StoreError> {
        let Some(text) = self.hash("answers", key).await? else { return Ok(None) };
        let answer = row::read_answer(key, &text)?;
        Ok(Some(answer).filter(|answer| answer.at > row::forgotten_at(now)))
    }
}

/// The next cursor of a scan, and what it found.
pub(super) fn scanned(value: &Value) -> Option<(u64, &[Value])> {
    let [cursor, found] = list(value)? else { return None };
    Some((text(cursor)?.parse().ok()?, list(found)?))
}

/// Version, moment and body.
fn read_object((kind, id): (ObjectKind, String), text: &str) -> Result<Object, StoreError> {
    let mut parts = text.splitn(3, ' ');
    let mut read = || {
        let version = Version(parts.next()?.parse().ok()?);
        let updated_at = read_moment(parts.next()?)?;
        Some((version, updated_at, parts.next()?.to_owned()))
    };
    let (version, updated_at, body) =
        read().ok_or_else(|| damaged(&format!("{} {id}", kind.name())))?;
    Ok(Object { kind, id, body, version, updated_at })
}

fn read_audited(entry: &Value) -> Option<(i64, AuditEntry)> {
    let [id, fields] = list(entry)? else { return None };
    let [_, _, _, row] = list(fields)? else { return None };
    let place = text(id)?.split('-').next()?.parse().ok()?;
    Some((place, serde_json::from_str(text(row)?).ok()?))
}

/// The first `wanted` of rows that were asked for with one more.
fn page_of<R>(mut rows: Vec<(i64, R)>, wanted: usize) -> Page<R> {
    let has_more = rows.len() > wanted;
    rows.truncate(wanted);
    let next = rows.last().filter(|_| has_more).map(|(place, _)| Cursor(*place));
    Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
}
