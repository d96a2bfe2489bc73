//! Usage as rows: one for each day and key, with all its routes and plans in one text.
//!
//! A row for each route as well would be twenty times as many, and reading a year of them takes seconds. So a row holds a JSON
//! array of `[route, plan, requests, refusals, tokens]`, which `json_each` opens for people and [`Entries`] for us,
//! a number at a time. Adding to a row reads it and writes it back, once for all its routes.

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};

use super::faults::damaged;
use crate::usage::{Subject, Totals, UsageBatch};
use crate::{Day, StoreError, Tidy};

/// Names whose ids are remembered at most.
const REMEMBERED: usize = 100_000;

/// Adds usage, and remembers the ids of names, each with the last day that is known of it to be used on.
#[derive(Default)]
pub(super) struct UsageWriter {
    labels: HashMap<Box<str>, (i64, u32)>,
    holders: HashMap<(i64, Box<str>), (i64, u32)>,
}

/// Route, plan, and what was counted of them.
pub(super) type Entry = (i64, i64, Totals);

impl UsageWriter {
    pub(super) fn add(&mut self, db: &Connection, batch: UsageBatch) -> Result<(), StoreError> {
        let mut counts = batch.0;
        counts.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_same = |one: &Subject, other: &Subject| {
            (one.day, &one.tenant, &one.key) == (other.day, &other.tenant, &other.key)
        };
        for of_row in counts.chunk_by(|(one, _), (other, _)| is_same(one, other)) {
            self.add_to_row(db, of_row)?;
        }
        Ok(())
    }

    fn add_to_row(
        &mut self,
        db: &Connection,
        counts: &[(Subject, Totals)],
    ) -> Result<(), StoreError> {
        let Some((first, _)) = counts.first() else { return Ok(()) };
        let holder = self.holder(db, first)?;
        let mut select =
            db.prepare_cached("SELECT entries FROM usage WHERE day = ?1 AND holder = ?2")?;
        let text: Option<String> =
            select.query_row(params![first.day, holder], |row| row.get(0)).optional()?;
        let mut entries = Vec::new();
        for entry in Entries::of(text.as_deref().unwrap_or("[]")) {
            entries.push(entry?);
        }
        for (subject, totals) in counts {
            let day = subject.day;
            let route = self.label(db, &subject.route, day)?;
            let plan = self.label(db, &subject.plan, day)?;
            match entries.iter_mut().find(|entry| (entry.0, entry.1) == (route, plan)) {
                Some((.., sum)) => sum.add(*totals),
                None => entries.push((route, plan, *totals)),
            }
        }
        let mut upsert = db.prepare_cached(
            "INSERT INTO usage (day, holder, entries) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET entries = ?3",
        )?;
        upsert.execute(params![first.day, holder, written(&entries)])?;
        Ok(())
    }

    fn holder(&mut self, db: &Connection, subject: &Subject) -> Result<i64, StoreError> {
        let day = subject.day;
        let tenant = self.label(db, &subject.tenant, day)?;
        let name = (tenant, subject.key.clone());
        if let Some((id, last_day)) = self.holders.get(&name)
            && *last_day >= day
        {
            return Ok(*id);
        }
        let mut upsert = db.prepare_cached(
            "INSERT INTO usage_holders (tenant, key, last_day) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET last_day = max(last_day, ?3) RETURNING id, last_day",
        )?;
        let found = upsert
            .query_row(params![tenant, subject.key, day], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if self.holders.len() >= REMEMBERED {
            self.holders.clear();
        }
        self.holders.insert(name, found);
        Ok(found.0)
    }

    fn label(&mut self, db: &Connection, label: &str, day: u32) -> Result<i64, StoreError> {
        if let Some((id, last_day)) = self.labels.get(label)
            && *last_day >= day
        {
            return Ok(*id);
        }
        let mut upsert = db.prepare_cached(
            "INSERT INTO usage_labels (label, last_day) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET last_day = max(last_day, ?2) RETURNING id, last_day",
        )?;
        let found = upsert.query_row(params![label, day], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if self.labels.len() >= REMEMBERED {
            self.labels.clear();
        }
        self.labels.insert(label.into(), found);
        Ok(found.0)
    }

    /// Deletes a slice of the usage before a day and, when all of it is gone, of the names that nothing has been counted of since. Answers
    /// the most that was deleted of one kind.
    pub(super) fn forget(&mut self, db: &Connection, from: Day) -> Result<usize, StoreError> {
        let usage = db
            .prepare_cached(
                "DELETE FROM usage WHERE (day, holder) IN
                 (SELECT day, holder FROM usage WHERE day < ?1 ORDER BY day LIMIT ?2)",
            )?
            .execute(params![from.number(), Tidy::SLICE])?;
        if usage >= Tidy::SLICE as usize {
            return Ok(usage);
        }
        let mut most = usage;
        for table in ["usage_holders", "usage_labels"] {
            let sql = format!(
                "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE last_day < ?1 LIMIT ?2)"
            );
            let names = db.prepare_cached(&sql)?.execute(params![from.number(), Tidy::SLICE])?;
            if names > 0 {
                self.forget_ids();
            }
            most = most.max(names);
        }
        Ok(most)
    }

    /// Forgets ids that may not be there any more.
    pub(super) fn forget_ids(&mut self) {
        self.labels.clear();
        self.holders.clear();
    }
}

fn written(entries: &[Entry]) -> String {
    use std::fmt::Write;
    let mut text = String::from("[");
    for (route, plan, Totals { requests, refusals, tokens }) in entries {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}[{route},{plan},{requests},{refusals},{tokens}]");
    }
    text.push(']');
    text
}

/// Reads a row's text. It reads what [`written`] writes, and JSON of that shape without spaces.
pub(super) struct Entries<'a> {
    left: &'a [u8],
    is_first: bool,
    is_broken: bool,
}

impl<'a> Entries<'a> {
    pub(super) fn of(text: &'a str) -> Entries<'a> {
        Entries { left: text.as_bytes(), is_first: true, is_broken: false }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.left = self.left.strip_prefix(&[byte])?;
        Some(())
    }

    fn number(&mut self, end: u8) -> Option<u64> {
        let mut number = 0u64;
        let mut digits = 0;
        while let Some(digit) = self.left.get(digits).filter(|byte| byte.is_ascii_digit()) {
            number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            digits += 1;
        }
        self.left = &self.left[digits..];
        self.expect(end)?;
        (digits > 0).then_some(number)
    }

    fn entry(&mut self) -> Option<Entry> {
        self.expect(if self.is_first { b'[' } else { b',' })?;
        self.is_first = false;
        self.expect(b'[')?;
        let route = i64::try_from(self.number(b',')?).ok()?;
        let plan = i64::try_from(self.number(b',')?).ok()?;
        let (requests, refusals) = (self.number(b',')?, self.number(b',')?);
        let tokens = self.number(b']')?;
        Some((route, plan, Totals { requests, refusals, tokens }))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        let end: &[u8] = if self.is_first { b"[]" } else { b"]" };
        if self.is_broken || self.left == end {
            return None;
        }
        let entry = self.entry();
        // Nothing after it makes sense either.
        self.is_broken = entry.is_none();
        Some(entry.ok_or_else(|| damaged("a row of usage", "its entries are not as written")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_written() {
        let one = Totals { requests: 1, refusals: 0, tokens: 10 };
        let most = Totals { requests: u64::MAX, refusals: u64::MAX, tokens: u64::MAX };
        for entries in [vec![], vec![(1, 2, one)], vec![(1, 2, one), (i64::MAX, 0, most)]] {
            let text = written(&entries);
            let read: Result<Vec<Entry>, StoreError> = Entries::of(&text).collect();
            assert_eq!(read, Ok(entries));
            assert!(serde_json::from_str::<Vec<[u64; 5]>>(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_nobody_wrote_is_an_error_and_ends() {
        let texts = [
            "",
            "[",
            "]",
            "[1]",
            "[[1,2,3,4]]",
            "[[1,2,3,4,5]",
            "[[1,2,3,4,5],]",
            "[[1,2,3,4,]]",
            "[[-1,2,3,4,5]]",
            "[[1,2,3,4,99999999999999999999]]",
            "[[1,2,3,4,5]]x",
            "{}",
        ];
        for text in texts {
            let read: Vec<_> = Entries::of(text).take(10).collect();
            assert!(read.len() < 10 && read.iter().any(Result::is_err), "{text}: {read:?}");
        }
    }
}
