//! Questions about usage: a scan over days and keys, summed up here.
//!
//! SQLite would sort millions of rows to group them. Here groups are found by a hash of small numbers, and names are looked up
//! only for the rows of the answer.

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_policy::KeyId;

use super::faults::damaged;
use super::usage::Entries;
use crate::usage::{Totals, UsageQuery, UsageRow};
use crate::{Day, StoreError};

/// With so many days times keys, looking each up is slower than reading all.
const MOST_LOOKUPS: u64 = 20_000;

/// What a row of the answer is told apart by; 0 where it is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    tenant: i64,
    holder: i64,
    route: i64,
    plan: i64,
    day: u32,
}

struct Sums<'q> {
    query: &'q UsageQuery,
    /// The tenant of each holder that is asked about.
    holders: HashMap<i64, i64>,
    groups: HashMap<Group, Totals>,
}

pub(super) fn answer(db: &Connection, query: &UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
    let holders = holders(db, query)?;
    let mut sums = Sums { query, holders, groups: HashMap::new() };
    let days = u64::from(query.to.number()).saturating_sub(u64::from(query.from.number())) + 1;
    let is_filtered = query.tenant.is_some() || query.key.is_some();
    if query.from > query.to || sums.holders.is_empty() {
        // Nothing to read.
    } else if is_filtered && days.saturating_mul(sums.holders.len() as u64) <= MOST_LOOKUPS {
        sums.look_up(db)?;
    } else {
        sums.scan(db)?;
    }
    sums.rows(db)
}

/// Every holder that the query asks about, with its tenant.
fn holders(db: &Connection, query: &UsageQuery) -> Result<HashMap<i64, i64>, StoreError> {
    let tenant: Option<i64> = match &query.tenant {
        Some(tenant) => {
            let mut select = db.prepare_cached("SELECT id FROM usage_labels WHERE label = ?1")?;
            let id = select.query_row([tenant.as_str()], |row| row.get(0)).optional()?;
            let Some(id) = id else { return Ok(HashMap::new()) };
            Some(id)
        }
        None => None,
    };
    let key = query.key.as_ref().map(KeyId::as_str);
    let mut select = db.prepare_cached(
        "SELECT id, tenant FROM usage_holders
         WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR key = ?2)",
    )?;
    let rows = select.query_map(params![tenant, key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Sums<'_> {
    fn scan(&mut self, db: &Connection) -> Result<(), StoreError> {
        let mut select = db
            .prepare_cached("SELECT day, holder, entries FROM usage WHERE day BETWEEN ?1 AND ?2")?;
        let days = params![self.query.from.number(), self.query.to.number()];
        let mut rows = select.query(days)?;
        while let Some(row) = rows.next()? {
            let (day, holder) = (row.get(0)?, row.get(1)?);
            self.add(
                (day, holder),
                row.get_ref(2)?.as_str().map_err(|why| damaged("usage", why))?,
            )?;
        }
        Ok(())
    }

    fn look_up(&mut self, db: &Connection) -> Result<(), StoreError> {
        let mut select =
            db.prepare_cached("SELECT entries FROM usage WHERE day = ?1 AND holder = ?2")?;
        let holders: Vec<i64> = self.holders.keys().copied().collect();
        for day in self.query.from.number()..=self.query.to.number() {
            for holder in &holders {
                let mut rows = select.query(params![day, holder])?;
                if let Some(row) = rows.next()? {
                    let text = row.get_ref(0)?.as_str().map_err(|why| damaged("usage", why))?;
                    self.add((day, *holder), text)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, (day, holder): (u32, i64), entries: &str) -> Result<(), StoreError> {
        let Some(tenant) = self.holders.get(&holder).copied() else { return Ok(()) };
        let by = self.query.group_by;
        let whole = Group {
            tenant: if by.tenant { tenant } else { 0 },
            holder: if by.key { holder } else { 0 },
            route: 0,
            plan: 0,
            day: if by.day { day } else { 0 },
        };
        if !by.route && !by.plan {
            let mut sum = Totals::default();
            for entry in Entries::of(entries) {
                sum.add(entry?.2);
            }
            return self.add_to(whole, sum);
        }
        for entry in Entries::of(entries) {
            let (route, plan, totals) = entry?;
            let route = if by.route { route } else { 0 };
            let plan = if by.plan { plan } else { 0 };
            self.add_to(Group { route, plan, ..whole }, totals)?;
        }
        Ok(())
    }

    fn add_to(&mut self, group: Group, totals: Totals) -> Result<(), StoreError> {
        self.groups.entry(group).or_default().add(totals);
        if self.groups.len() > self.query.at_most {
            return Err(StoreError::TooManyRows { limit: self.query.at_most });
        }
        Ok(())
    }

    /// The groups with their names, in the order of these.
    fn rows(self, db: &Connection) -> Result<Vec<UsageRow>, StoreError> {
        let by = self.query.group_by;
        let ids = |id: fn(&Group) -> i64| self.groups.keys().map(id).collect::<HashSet<i64>>();
        let mut wanted = ids(|group| group.tenant);
        wanted.extend(ids(|group| group.route));
        wanted.extend(ids(|group| group.plan));
        let labels = names(db, "SELECT label FROM usage_labels WHERE id = ?1", wanted)?;
        let keys = "SELECT key FROM usage_holders WHERE id = ?1";
        let keys = names(db, keys, ids(|group| group.holder))?;
        let name = |names: &HashMap<i64, String>, id: i64, is_wanted: bool| {
            is_wanted.then(|| names.get(&id).cloned().unwrap_or_default())
        };
        let row = |(group, totals): (&Group, &Totals)| UsageRow {
            tenant: name(&labels, group.tenant, by.tenant),
            key: name(&keys, group.holder, by.key),
            route: name(&labels, group.route, by.route),
            plan: name(&labels, group.plan, by.plan),
            day: by.day.then(|| Day::from_number(group.day)),
            requests: totals.requests,
            refusals: totals.refusals,
            tokens: totals.tokens,
        };
        let mut rows: Vec<UsageRow> = self.groups.iter().map(row).collect();
        rows.sort_unstable();
        // Callers without a key have one for each tenant, and all are called the same.
        rows.dedup_by(|later, row| {
            let names =
                |row: &UsageRow| UsageRow { requests: 0, refusals: 0, tokens: 0, ..row.clone() };
            let is_same = by.key && !by.tenant && names(later) == names(row);
            if is_same {
                row.requests = row.requests.saturating_add(later.requests);
                row.refusals = row.refusals.saturating_add(later.refusals);
                row.tokens = row.tokens.saturating_add(later.tokens);
            }
            is_same
        });
        Ok(rows)
    }
}

fn names(
    db: &Connection,
    sql: &str,
    ids: HashSet<i64>,
) -> Result<HashMap<i64, String>, StoreError> {
    let mut select = db.prepare_cached(sql)?;
    let mut names = HashMap::with_capacity(ids.len());
    for id in ids {
        if let Some(name) = select.query_row([id], |row| row.get(0)).optional()? {
            names.insert(id, name);
        }
    }
    Ok(names)
}
