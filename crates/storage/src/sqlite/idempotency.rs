//! What was answered to an `Idempotency-Key`, as rows: for a day, and so many at most.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Time;
use tollgate_policy::Sha256;

use super::faults::{from_sql, to_sql};
use crate::{IdempotentAnswer, StoreError, Tidy};

/// The latest moment of answers that are forgotten at `now`.
fn forgotten_at(now: Time) -> Time {
    let kept = u64::try_from(IdempotentAnswer::KEPT.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(now.as_nanos().saturating_sub(kept))
}

pub(super) fn get(
    db: &Connection,
    key: &str,
    now: Time,
) -> Result<Option<IdempotentAnswer>, StoreError> {
    let mut select = db.prepare_cached(
        "SELECT fingerprint, status, body, at FROM answers WHERE idempotency_key = ?1 AND at > ?2",
    )?;
    let found = select.query_row(params![key, to_sql(forgotten_at(now))], |row| {
        let fingerprint: [u8; 32] = row.get(0)?;
        Ok(IdempotentAnswer {
            key: key.to_owned(),
            fingerprint: Sha256::from_bytes(fingerprint),
            status: row.get(1)?,
            body: row.get(2)?,
            at: from_sql(row.get(3)?),
        })
    });
    Ok(found.optional()?)
}

pub(super) fn insert(db: &Connection, answer: &IdempotentAnswer) -> Result<(), StoreError> {
    if let Some(earlier) = get(db, &answer.key, answer.at)? {
        return Err(StoreError::Answered(Box::new(earlier)));
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO answers (idempotency_key, fingerprint, status, body, at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET fingerprint = ?2, status = ?3, body = ?4, at = ?5",
    )?;
    let fingerprint = answer.fingerprint.as_bytes();
    insert.execute(params![
        answer.key,
        fingerprint,
        answer.status,
        answer.body,
        to_sql(answer.at)
    ])?;
    // Numbers are given in order and never twice, so a number tells how many came after.
    let mut bound =
        db.prepare_cached("DELETE FROM answers WHERE seq <= (SELECT max(seq) FROM answers) - ?1")?;
    bound.execute([IdempotentAnswer::MOST])?;
    Ok(())
}

/// Deletes a slice of what is forgotten.
pub(super) fn forget(db: &Connection, now: Time) -> Result<usize, StoreError> {
    let mut delete = db.prepare_cached(
        "DELETE FROM answers WHERE at <= ?1 AND seq IN (SELECT seq FROM answers ORDER BY seq LIMIT ?2)",
    )?;
    Ok(delete.execute(params![to_sql(forgotten_at(now)), Tidy::SLICE])?)
}
