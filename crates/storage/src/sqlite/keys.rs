//! Keys as rows.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use tokio::sync::mpsc::Sender;
use tollgate_core::Time;
use tollgate_policy::{KeyId, Label, PlanName, Sha256, TenantId, UserName};

use super::faults::{damaged, from_sql, to_sql};
use crate::{Cursor, KeyTerms, Page, PageOf, StoreError, StoredKey};

/// Keys sent at once when all are.
const PART: usize = 1000;

const COLUMNS: &str = "seq, id, origin, sha256, display_prefix, tenant, user, plan, name, rate_limit, \
                       created_at, expires_at, revoked_at, replaced_by, grace_until";

fn from_row(row: &Row<'_>) -> rusqlite::Result<StoredKey> {
    let sha256: [u8; 32] = row.get(3)?;
    Ok(StoredKey {
        id: parsed(row, 1)?,
        origin: parsed(row, 2)?,
        sha256: Sha256::from_bytes(sha256),
        display_prefix: row.get(4)?,
        tenant: parsed(row, 5)?,
        user: maybe_parsed(row, 6)?,
        terms: KeyTerms {
            plan: maybe_parsed(row, 7)?,
            name: maybe_parsed(row, 8)?,
            rate_limit: match row.get_ref(9)?.as_str_or_null()? {
                Some(json) => Some(serde_json::from_str(json).map_err(|why| unreadable(9, why))?),
                None => None,
            },
            expires_at: row.get::<_, Option<i64>>(11)?.map(from_sql),
        },
        created_at: from_sql(row.get(10)?),
        revoked_at: row.get::<_, Option<i64>>(12)?.map(from_sql),
        replaced_by: maybe_parsed(row, 13)?,
        grace_until: row.get::<_, Option<i64>>(14)?.map(from_sql),
    })
}

fn unreadable(
    column: usize,
    why: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(why))
}

fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|why| unreadable(column, why))
}

fn maybe_parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(str::parse).transpose().map_err(|why| unreadable(column, why))
}

/// What went wrong with a row: its content, or the database.
fn fault(why: rusqlite::Error) -> StoreError {
    match why {
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
            damaged("a key", why)
        }
        other => other.into(),
    }
}

fn not_found(id: &KeyId) -> StoreError {
    StoreError::NotFound { what: format!("key {id}") }
}

pub(super) fn get(db: &Connection, id: &KeyId) -> Result<StoredKey, StoreError> {
    let mut select = db.prepare_cached(&format!("SELECT {COLUMNS} FROM keys WHERE id = ?1"))?;
    let found = select.query_row([id.as_str()], from_row).optional().map_err(fault)?;
    found.ok_or_else(|| not_found(id))
}

pub(super) fn list(
    db: &Connection,
    tenant: Option<&TenantId>,
    page: &PageOf,
) -> Result<Page<StoredKey>, StoreError> {
    // Without a tenant the order of the table is the order of the list; with one, that of its index.
    let filter = if tenant.is_some() { "tenant = ?1 AND" } else { "?1 IS NULL AND" };
    let sql = format!("SELECT {COLUMNS} FROM keys WHERE {filter} seq > ?2 ORDER BY seq LIMIT ?3");
    let after = page.after.as_ref().map_or(0, |cursor| cursor.0);
    let wanted = page.rows();
    let mut select = db.prepare_cached(&sql)?;
    let tenant = tenant.map(TenantId::as_str);
    let rows = select.query_map(params![tenant, after, wanted as i64 + 1], |row| {
        Ok((row.get::<_, i64>(0)?, from_row(row)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    Ok(page_of(rows, wanted))
}

/// The first `wanted` of rows that were asked for with one more.
pub(super) fn page_of<R>(mut rows: Vec<(i64, R)>, wanted: usize) -> Page<R> {
    let has_more = rows.len() > wanted;
    rows.truncate(wanted);
    let next = rows.last().filter(|_| has_more).map(|(seq, _)| Cursor(*seq));
    Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
}

/// What a key that has not ended at `?1` is told by.
pub(super) const IN_FORCE: &str = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?1)
     AND (grace_until IS NULL OR grace_until > ?1)";

/// All keys of a user that have not ended.
pub(super) fn of_user(
    db: &Connection,
    (tenant, user): &(TenantId, UserName),
    now: Time,
) -> Result<Vec<StoredKey>, StoreError> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM keys WHERE tenant = ?2 AND user = ?3 AND {IN_FORCE} ORDER BY seq"
    ))?;
    let whose = params![to_sql(now), tenant.as_str(), user.as_str()];
    let rows = select.query_map(whose, from_row)?;
    rows.collect::<Result<_, _>>().map_err(fault)
}

/// Sends all keys that have not ended; stops when nobody receives them.
pub(super) fn send_all(
    db: &Connection,
    now: Time,
    parts: &Sender<Result<Vec<StoredKey>, StoreError>>,
) -> Result<(), StoreError> {
    let mut select = db.prepare_cached(&format!("SELECT {COLUMNS} FROM keys WHERE {IN_FORCE}"))?;
    let mut rows = select.query([to_sql(now)])?;
    let mut part = Vec::with_capacity(PART);
    while let Some(row) = rows.next()? {
        part.push(from_row(row).map_err(fault)?);
        if part.len() == PART {
            let full = std::mem::replace(&mut part, Vec::with_capacity(PART));
            if parts.blocking_send(Ok(full)).is_err() {
                return Ok(());
            }
        }
    }
    drop(parts.blocking_send(Ok(part)));
    Ok(())
}

pub(super) fn insert(db: &Connection, key: &StoredKey) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached(
        "INSERT INTO keys (id, origin, sha256, display_prefix, tenant, user, plan, name, rate_limit,
                           created_at, expires_at, revoked_at, replaced_by, grace_until)
         VALUES (:id, :origin, :sha256, :display_prefix, :tenant, :user, :plan, :name, :rate_limit,
                 :created_at, :expires_at, :revoked_at, :replaced_by, :grace_until)
         ON CONFLICT DO NOTHING",
    )?;
    let inserted = insert.execute(named_params! {
        ":id": key.id.as_str(),
        ":origin": key.origin.as_str(),
        ":sha256": key.sha256.as_bytes(),
        ":display_prefix": key.display_prefix,
        ":tenant": key.tenant.as_str(),
        ":user": key.user.as_ref().map(UserName::as_str),
        ":plan": key.terms.plan.as_ref().map(PlanName::as_str),
        ":name": key.terms.name.as_ref().map(Label::as_str),
        ":rate_limit": rate_limit(&key.terms)?,
        ":created_at": to_sql(key.created_at),
        ":expires_at": key.terms.expires_at.map(to_sql),
        ":revoked_at": key.revoked_at.map(to_sql),
        ":replaced_by": key.replaced_by.as_ref().map(KeyId::as_str),
        ":grace_until": key.grace_until.map(to_sql),
    })?;
    if inserted == 0 {
        return Err(StoreError::Exists { what: format!("key {}", key.id) });
    }
    Ok(())
}

fn rate_limit(terms: &KeyTerms) -> Result<Option<String>, StoreError> {
    let written = terms.rate_limit.as_ref().map(serde_json::to_string).transpose();
    written.map_err(|why| damaged("a rate limit", why))
}

pub(super) fn update(
    db: &Connection,
    id: &KeyId,
    terms: KeyTerms,
) -> Result<StoredKey, StoreError> {
    let mut key = get(db, id)?;
    key.terms = terms;
    let mut update = db.prepare_cached(
        "UPDATE keys SET plan = ?2, name = ?3, rate_limit = ?4, expires_at = ?5 WHERE id = ?1",
    )?;
    update.execute(params![
        id.as_str(),
        key.terms.plan.as_ref().map(PlanName::as_str),
        key.terms.name.as_ref().map(Label::as_str),
        rate_limit(&key.terms)?,
        key.terms.expires_at.map(to_sql),
    ])?;
    Ok(key)
}

/// Says what takes a key's place.
pub(super) fn replace(
    db: &Connection,
    id: &KeyId,
    by: &KeyId,
    grace_until: Time,
) -> Result<StoredKey, StoreError> {
    let mut key = get(db, id)?;
    if key.revoked_at.is_some() || key.replaced_by.is_some() {
        let replaced_by = key.replaced_by;
        return Err(StoreError::NotCurrent { id: id.clone(), replaced_by });
    }
    key.replaced_by = Some(by.clone());
    key.grace_until = Some(grace_until);
    let mut update =
        db.prepare_cached("UPDATE keys SET replaced_by = ?2, grace_until = ?3 WHERE id = ?1")?;
    update.execute(params![id.as_str(), by.as_str(), to_sql(grace_until)])?;
    Ok(key)
}

/// Revokes a key. One that is revoked stays as it is.
pub(super) fn revoke(db: &Connection, id: &KeyId, at: Time) -> Result<StoredKey, StoreError> {
    let mut key = get(db, id)?;
    if key.revoked_at.is_none() {
        key.revoked_at = Some(at);
        let mut update = db.prepare_cached("UPDATE keys SET revoked_at = ?2 WHERE id = ?1")?;
        update.execute(params![id.as_str(), to_sql(at)])?;
    }
    Ok(key)
}
