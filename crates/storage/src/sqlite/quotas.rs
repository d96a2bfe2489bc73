//! Quota balances as rows.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Time;

use super::faults::{count_from_sql, count_to_sql, to_sql};
use crate::quota::{Grant, Refund, Reservation};
use crate::{StoreError, Tidy};

/// How long a balance is kept after its period: longer than clocks go wrong.
const KEPT: u64 = 7 * 86_400 * 1_000_000_000;

pub(super) fn taken(db: &Connection, name: &str, begins: Time) -> Result<u64, StoreError> {
    let sql = "SELECT taken FROM quotas WHERE name = ?1 AND begins = ?2";
    let mut select = db.prepare_cached(sql)?;
    let taken = select.query_row(params![name, to_sql(begins)], |row| row.get(0)).optional()?;
    Ok(count_from_sql(taken.unwrap_or(0)))
}

/// Takes as much of what is asked for as the limit leaves.
pub(super) fn reserve(db: &Connection, wanted: &Reservation) -> Result<Grant, StoreError> {
    let before = taken(db, &wanted.name, wanted.period.begins)?;
    let granted = wanted.amount.min(wanted.limit.saturating_sub(before));
    let taken = before.saturating_add(granted);
    if granted > 0 {
        let mut upsert = db.prepare_cached(
            "INSERT INTO quotas (name, begins, ends, taken) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET taken = ?4",
        )?;
        let (begins, ends) = (to_sql(wanted.period.begins), to_sql(wanted.period.ends));
        upsert.execute(params![wanted.name, begins, ends, count_to_sql(taken)])?;
    }
    Ok(Grant { granted, taken })
}

pub(super) fn refund(db: &Connection, refunds: &[Refund]) -> Result<(), StoreError> {
    let mut update = db.prepare_cached(
        "UPDATE quotas SET taken = max(0, taken - ?3) WHERE name = ?1 AND begins = ?2",
    )?;
    for refund in refunds {
        let amount = count_to_sql(refund.amount);
        update.execute(params![refund.name, to_sql(refund.begins), amount])?;
    }
    Ok(())
}

/// Deletes a slice of balances whose period is long over.
pub(super) fn forget(db: &Connection, now: Time) -> Result<usize, StoreError> {
    let before = Time::from_nanos(now.as_nanos().saturating_sub(KEPT));
    let mut delete = db.prepare_cached(
        "DELETE FROM quotas WHERE (name, begins) IN
         (SELECT name, begins FROM quotas WHERE ends < ?1 ORDER BY ends LIMIT ?2)",
    )?;
    Ok(delete.execute(params![to_sql(before), Tidy::SLICE])?)
}
