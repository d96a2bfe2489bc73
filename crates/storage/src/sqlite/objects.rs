//! Tenants, plans and configuration as rows.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Time;

use super::faults::{count_from_sql, from_sql, to_sql};
use super::keys::IN_FORCE;
use crate::{Expect, Object, ObjectKind, Revision, StoreError, Version};

/// What is to be stored.
pub(super) struct Draft<'a> {
    pub(super) kind: ObjectKind,
    pub(super) id: &'a str,
    pub(super) body: &'a str,
    pub(super) at: Time,
}

fn named(kind: ObjectKind, id: &str) -> String {
    format!("{} {id}", kind.name())
}

pub(super) fn get(db: &Connection, kind: ObjectKind, id: &str) -> Result<Object, StoreError> {
    let sql = "SELECT id, body, version, updated_at FROM objects WHERE kind = ?1 AND id = ?2";
    let found = db
        .prepare_cached(sql)?
        .query_row([kind.name(), id], |row| from_row(kind, row))
        .optional()?;
    found.ok_or_else(|| StoreError::NotFound { what: named(kind, id) })
}

pub(super) fn list(db: &Connection, kind: ObjectKind) -> Result<Vec<Object>, StoreError> {
    let sql = "SELECT id, body, version, updated_at FROM objects WHERE kind = ?1 ORDER BY id";
    let mut select = db.prepare_cached(sql)?;
    let rows = select.query_map([kind.name()], |row| from_row(kind, row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn from_row(kind: ObjectKind, row: &Row<'_>) -> rusqlite::Result<Object> {
    Ok(Object {
        kind,
        id: row.get(0)?,
        body: row.get(1)?,
        version: Version(count_from_sql(row.get(2)?)),
        updated_at: from_sql(row.get(3)?),
    })
}

/// Refuses what `expect` does not allow.
fn check(
    db: &Connection,
    kind: ObjectKind,
    (id, expect): (&str, Expect),
) -> Result<(), StoreError> {
    let sql = "SELECT version FROM objects WHERE kind = ?1 AND id = ?2";
    let mut select = db.prepare_cached(sql)?;
    let found = select.query_row([kind.name(), id], |row| row.get(0)).optional()?;
    let found = found.map(|version| Version(count_from_sql(version)));
    let what = || named(kind, id);
    match (expect, found) {
        (Expect::Anything, _) | (Expect::Absent, None) | (Expect::Present, Some(_)) => Ok(()),
        (Expect::Version(wanted), Some(found)) if wanted == found => Ok(()),
        (Expect::Version(_), Some(found)) => Err(StoreError::Stale { what: what(), found }),
        (Expect::Absent, Some(_)) => Err(StoreError::Exists { what: what() }),
        (Expect::Present | Expect::Version(_), None) => Err(StoreError::NotFound { what: what() }),
    }
}

pub(super) fn put(
    db: &Connection,
    object: &Draft<'_>,
    expect: Expect,
) -> Result<Version, StoreError> {
    check(db, object.kind, (object.id, expect))?;
    let version = next_version(db)?;
    let mut put = db.prepare_cached(
        "INSERT INTO objects (kind, id, body, version, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET body = ?3, version = ?4, updated_at = ?5",
    )?;
    put.execute(params![object.kind.name(), object.id, object.body, version, to_sql(object.at)])?;
    Ok(Version(count_from_sql(version)))
}

pub(super) fn remove(
    db: &Connection,
    kind: ObjectKind,
    (id, expect): (&str, Expect),
    now: Time,
) -> Result<(), StoreError> {
    check(db, kind, (id, expect))?;
    let keys = keys_in_force(db, kind, (id, now))?;
    if keys > 0 {
        return Err(StoreError::InUse { what: named(kind, id), keys });
    }
    next_version(db)?;
    db.prepare_cached("DELETE FROM objects WHERE kind = ?1 AND id = ?2")?
        .execute([kind.name(), id])?;
    Ok(())
}

fn next_version(db: &Connection) -> Result<i64, StoreError> {
    let sql = "UPDATE versions SET last = last + 1 RETURNING last";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The version of the last change: also a removal has one.
pub(super) fn revision(db: &Connection) -> Result<Revision, StoreError> {
    let last = db.prepare_cached("SELECT last FROM versions")?.query_row([], |row| row.get(0))?;
    Ok(Revision(count_from_sql(last)))
}

/// How many keys that have not ended are this tenant's, or go by this plan.
pub(super) fn keys_in_force(
    db: &Connection,
    kind: ObjectKind,
    (id, now): (&str, Time),
) -> Result<u64, StoreError> {
    let sql = match kind {
        ObjectKind::Tenant => {
            format!("SELECT count(*) FROM keys WHERE tenant = ?2 AND {IN_FORCE}")
        }
        // A key that was replaced, and is in its grace, goes by the plan of the last of its line, also where that one has ended.
        ObjectKind::Plan => format!(
            "WITH RECURSIVE line (plan, replaced_by) AS (
                 SELECT plan, replaced_by FROM keys WHERE grace_until > ?1 AND {IN_FORCE}
                 UNION ALL
                 SELECT keys.plan, keys.replaced_by FROM line JOIN keys ON keys.id = line.replaced_by
             )
             SELECT (SELECT count(*) FROM keys WHERE plan = ?2 AND grace_until IS NULL AND {IN_FORCE})
                  + (SELECT count(*) FROM line WHERE plan = ?2 AND replaced_by IS NULL)"
        ),
        ObjectKind::Config => return Ok(0),
    };
    let mut select = db.prepare_cached(&sql)?;
    let keys: i64 = select.query_row(params![to_sql(now), id], |row| row.get(0))?;
    Ok(count_from_sql(keys))
}
