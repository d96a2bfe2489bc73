//! The audit as rows.

use rusqlite::{Connection, Row, params};
use serde_json::Value;
use tollgate_core::Time;

use super::faults::{count_from_sql, count_to_sql, to_sql};
use super::keys::page_of;
use crate::{AuditEntry, Page, PageOf, StoreError, Tidy};

pub(super) fn insert(db: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached(
        "INSERT INTO audit (at, actor, action, subject, before, after) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    insert.execute(params![
        count_to_sql(entry.at),
        entry.actor,
        entry.action,
        entry.subject,
        entry.before.as_ref().map(Value::to_string),
        entry.after.as_ref().map(Value::to_string),
    ])?;
    Ok(())
}

/// A page, newest first.
pub(super) fn list(db: &Connection, page: &PageOf) -> Result<Page<AuditEntry>, StoreError> {
    let mut select = db.prepare_cached(
        "SELECT seq, at, actor, action, subject, before, after FROM audit WHERE seq < ?1
         ORDER BY seq DESC LIMIT ?2",
    )?;
    let before = page.after.as_ref().map_or(i64::MAX, |cursor| cursor.0);
    let wanted = page.rows();
    let rows = select.query_map(params![before, wanted as i64 + 1], |row| {
        Ok((row.get::<_, i64>(0)?, from_row(row)?))
    })?;
    Ok(page_of(rows.collect::<Result<Vec<_>, _>>()?, wanted))
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    // Whatever somebody has made of it by hand is shown as text.
    let json = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(AuditEntry {
        at: count_from_sql(row.get(1)?),
        actor: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        before: row.get::<_, Option<String>>(5)?.map(json),
        after: row.get::<_, Option<String>>(6)?.map(json),
    })
}

/// Deletes a slice of rows from before `from`. Rows are in the order of time, but for a clock that was set back.
pub(super) fn forget(db: &Connection, from: Time) -> Result<usize, StoreError> {
    let mut delete = db.prepare_cached(
        "DELETE FROM audit WHERE at < ?1 AND seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?2)",
    )?;
    Ok(delete.execute(params![to_sql(from), Tidy::SLICE])?)
}
