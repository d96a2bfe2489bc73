//! Questions about usage: a scan over days and keys, summed up here.
//!
//! SQLite would sort millions of rows to group them. Here groups are found by a hash of small numbers, which are ranks: they order
//! as the names do, so that only the groups that are told need to be kept.

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_policy::KeyId;

use super::faults::damaged;
use super::usage::Entries;
use crate::StoreError;
use crate::usage::{FirstSums, Ranks, Totals, UsagePage, UsageQuery, UsageRow};

/// With so many days times keys, looking each up is slower than reading all.
const MOST_LOOKUPS: u64 = 20_000;

/// What a row of the answer is told apart by: ranks, and 0 where it is not. It orders as the rows do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    tenant: u32,
    key: u32,
    route: u32,
    plan: u32,
    day: u32,
}

struct Sums<'q> {
    query: &'q UsageQuery,
    /// The tenant of each holder that is asked about.
    holders: HashMap<i64, i64>,
    /// Of tenants, routes and plans.
    labels: Ranks,
    /// Of keys, by holder.
    keys: Ranks,
    groups: FirstSums<Group>,
}

pub(super) fn answer(db: &Connection, query: &UsageQuery) -> Result<UsagePage, StoreError> {
    let (holders, keys) = holders(db, query)?;
    let labels = labels(db, query)?;
    let after = query.begins_after()?.map(|([tenant, key, route, plan], day)| {
        let by = query.group_by;
        let place = |is_grouped: bool, name: &str| if is_grouped { labels.place(name) } else { 0 };
        Group {
            tenant: place(by.tenant, tenant),
            key: if by.key { keys.place(key) } else { 0 },
            route: place(by.route, route),
            plan: place(by.plan, plan),
            day,
        }
    });
    let groups = FirstSums::new(query.at_most, after);
    let mut sums = Sums { query, holders, labels, keys, groups };
    let days = u64::from(query.to.number()).saturating_sub(u64::from(query.from.number())) + 1;
    let is_filtered = query.tenant.is_some() || query.key.is_some();
    if query.from > query.to || sums.holders.is_empty() {
        // Nothing to read.
    } else if is_filtered && days.saturating_mul(sums.holders.len() as u64) <= MOST_LOOKUPS {
        sums.look_up(db)?;
    } else {
        sums.scan(db)?;
    }
    Ok(sums.page())
}

/// Every holder that the query asks about, with its tenant, and with its key if rows are told apart by that.
fn holders(db: &Connection, query: &UsageQuery) -> Result<(HashMap<i64, i64>, Ranks), StoreError> {
    let tenant: Option<i64> = match &query.tenant {
        Some(tenant) => {
            let mut select = db.prepare_cached("SELECT id FROM usage_labels WHERE label = ?1")?;
            let id = select.query_row([tenant.as_str()], |row| row.get(0)).optional()?;
            let Some(id) = id else { return Ok((HashMap::new(), Ranks::default())) };
            Some(id)
        }
        None => None,
    };
    let key = query.key.as_ref().map(KeyId::as_str);
    let mut select = db.prepare_cached(
        "SELECT id, tenant, key FROM usage_holders
         WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR key = ?2)",
    )?;
    let mut rows = select.query(params![tenant, key])?;
    let (mut holders, mut keys) = (HashMap::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        holders.insert(id, row.get(1)?);
        if query.group_by.key {
            keys.push((id, row.get(2)?));
        }
    }
    Ok((holders, Ranks::of(keys)))
}

/// Names of tenants, routes and plans, if rows are told apart by any of them.
fn labels(db: &Connection, query: &UsageQuery) -> Result<Ranks, StoreError> {
    let by = query.group_by;
    if !by.tenant && !by.route && !by.plan {
        return Ok(Ranks::default());
    }
    let mut select = db.prepare_cached("SELECT id, label FROM usage_labels")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Ranks::of(rows.collect::<Result<_, _>>()?))
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
        let label = |is_grouped: bool, id: i64| {
            if is_grouped { self.labels.rank(id) } else { Some(0) }
        };
        let key = if by.key { self.keys.rank(holder) } else { Some(0) };
        // A name that was not there when names were read has been used only since.
        let Some((tenant, key)) = label(by.tenant, tenant).zip(key) else { return Ok(()) };
        let whole = Group { tenant, key, route: 0, plan: 0, day: if by.day { day } else { 0 } };
        if !by.route && !by.plan {
            let mut sum = Totals::default();
            for entry in Entries::of(entries) {
                sum.add(entry?.2);
            }
            self.groups.add(whole, sum);
            return Ok(());
        }
        for entry in Entries::of(entries) {
            let (route, plan, totals) = entry?;
            if let Some((route, plan)) = label(by.route, route).zip(label(by.plan, plan)) {
                self.groups.add(Group { route, plan, ..whole }, totals);
            }
        }
        Ok(())
    }

    /// The groups with their names.
    fn page(self) -> UsagePage {
        let (by, labels, keys) = (self.query.group_by, &self.labels, &self.keys);
        let (groups, has_more) = self.groups.first();
        let row = |(group, totals): (Group, Totals)| {
            let names = [
                labels.name(group.tenant),
                keys.name(group.key),
                labels.name(group.route),
                labels.name(group.plan),
            ];
            UsageRow::of(by, (names, group.day), totals)
        };
        UsagePage::of(groups.into_iter().map(row).collect(), has_more)
    }
}
