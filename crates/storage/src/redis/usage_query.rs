//! Questions about usage: the rows of the days that are asked about, read in pages and summed up here.

use hashbrown::HashMap;
use redis::{Pipeline, Value, cmd};
use tollgate_policy::{KeyId, TenantId};
use tollgate_redis::Plain;

use super::names::Names;
use super::reader::{WITHIN, scanned};
use super::values::{damaged, list, text};
use crate::StoreError;
use crate::usage::{FirstSums, Ranks, Totals, UsagePage, UsageQuery, UsageRow};

/// Tenants' days read in one round trip, and rows of each.
const TOGETHER: usize = 32;
const ROWS: usize = 500;

/// What a row of the answer is told apart by; empty where it is not. It orders as the rows do.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    tenant: Box<str>,
    key: Box<str>,
    /// Ranks of labels.
    route: u32,
    plan: u32,
    day: u32,
}

struct Asking<'a> {
    plain: &'a Plain,
    names: &'a Names,
    query: &'a UsageQuery,
    /// Of routes and plans, if rows are told apart by them.
    labels: Ranks,
    groups: FirstSums<Group>,
}

pub(super) async fn answer(
    plain: &Plain,
    names: &Names,
    query: &UsageQuery,
) -> Result<UsagePage, StoreError> {
    let by = query.group_by;
    let is_labelled = by.route || by.plan;
    let labels = if is_labelled { labels(plain, names).await? } else { Ranks::default() };
    let place = |is_grouped: bool, name: &str| if is_grouped { labels.place(name) } else { 0 };
    let after = query.begins_after()?.map(|([tenant, key, route, plan], day)| Group {
        tenant: tenant.into(),
        key: key.into(),
        route: place(by.route, route),
        plan: place(by.plan, plan),
        day,
    });
    let groups = FirstSums::new(query.at_most, after);
    let mut asking = Asking { plain, names, query, labels, groups };
    if query.from <= query.to {
        for days in asking.days().await?.chunks(TOGETHER) {
            let pages = asking.pages(days).await?;
            for pages in pages.chunks(TOGETHER) {
                asking.read(pages.to_vec()).await?;
            }
        }
    }
    Ok(asking.page())
}

/// A tenant's day, and where reading it goes on.
#[derive(Clone)]
struct Rows {
    day: u32,
    tenant: Box<str>,
    cursor: u64,
}

impl Asking<'_> {
    async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let answers = self.plain.ask_all(pipeline, WITHIN).await?;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }

    /// The days that there is something of.
    async fn days(&self) -> Result<Vec<u32>, StoreError> {
        let mut range = cmd("ZRANGEBYSCORE");
        range.arg(self.names.of("usage:days"));
        range.arg(self.query.from.number()).arg(self.query.to.number());
        let value = self.plain.ask(range, WITHIN).await?;
        let days = list(&value).ok_or_else(|| damaged("the days of usage"))?;
        Ok(days.iter().filter_map(|day| text(day)?.parse().ok()).collect())
    }

    /// The tenants of these days.
    async fn pages(&self, days: &[u32]) -> Result<Vec<Rows>, StoreError> {
        let rows = |day, tenant: &str| Rows { day, tenant: tenant.into(), cursor: 0 };
        if let Some(tenant) = self.query.tenant.as_ref().map(TenantId::as_str) {
            return Ok(days.iter().map(|day| rows(*day, tenant)).collect());
        }
        let mut members = Pipeline::with_capacity(days.len());
        for day in days {
            members.cmd("SMEMBERS").arg(self.names.of(&format!("usage:{day}")));
        }
        let mut pages = Vec::new();
        for (day, tenants) in days.iter().zip(self.ask(&members).await?) {
            let tenants = list(&tenants).ok_or_else(|| damaged("the tenants of a day"))?;
            pages.extend(tenants.iter().filter_map(text).map(|tenant| rows(*day, tenant)));
        }
        Ok(pages)
    }

    /// Reads pages, and what follows them, until there is nothing more.
    async fn read(&mut self, mut pages: Vec<Rows>) -> Result<(), StoreError> {
        let key = self.query.key.as_ref().map(KeyId::as_str);
        while !pages.is_empty() {
            let mut pipeline = Pipeline::with_capacity(pages.len());
            for Rows { day, tenant, cursor } in &pages {
                let name = self.names.of(&format!("usage:{day}:{tenant}"));
                match key {
                    Some(key) => pipeline.cmd("HGET").arg(name).arg(key),
                    None => pipeline.cmd("HSCAN").arg(name).arg(*cursor).arg("COUNT").arg(ROWS),
                };
            }
            let answers = self.ask(&pipeline).await?;
            let mut more = Vec::new();
            for (mut rows, answer) in pages.into_iter().zip(answers) {
                if let Some(key) = key {
                    if let Some(entries) = text(&answer) {
                        self.add(&rows, key, entries)?;
                    }
                    continue;
                }
                let (next, pairs) = scanned(&answer).ok_or_else(|| damaged("usage"))?;
                for pair in pairs.chunks_exact(2) {
                    let both = text(&pair[0]).zip(text(&pair[1]));
                    let (key, entries) = both.ok_or_else(|| damaged("usage"))?;
                    self.add(&rows, key, entries)?;
                }
                if next != 0 {
                    rows.cursor = next;
                    more.push(rows);
                }
            }
            pages = more;
        }
        Ok(())
    }

    fn add(&mut self, rows: &Rows, key: &str, entries: &str) -> Result<(), StoreError> {
        let by = self.query.group_by;
        let whole = Group {
            tenant: if by.tenant { rows.tenant.clone() } else { Box::default() },
            key: if by.key { key.into() } else { Box::default() },
            day: if by.day { rows.day } else { 0 },
            ..Group::default()
        };
        let label = |is_grouped: bool, number: u32| {
            if is_grouped { self.labels.rank(number.into()) } else { Some(0) }
        };
        let mut sum = Totals::default();
        for entry in entries.split_terminator(';') {
            let (route, plan, totals) = read(entry).ok_or_else(|| damaged("usage"))?;
            if !by.route && !by.plan {
                sum.add(totals);
            // A label that was not there when labels were read has been used only since.
            } else if let Some((route, plan)) = label(by.route, route).zip(label(by.plan, plan)) {
                self.groups.add(Group { route, plan, ..whole.clone() }, totals);
            }
        }
        if !by.route && !by.plan {
            self.groups.add(whole, sum);
        }
        Ok(())
    }

    /// The groups with their names.
    fn page(self) -> UsagePage {
        let (by, labels) = (self.query.group_by, &self.labels);
        let (groups, has_more) = self.groups.first();
        let row = |(group, totals): (Group, Totals)| {
            let (route, plan) = (labels.name(group.route), labels.name(group.plan));
            UsageRow::of(by, ([&group.tenant, &group.key, route, plan], group.day), totals)
        };
        UsagePage::of(groups.into_iter().map(row).collect(), has_more)
    }
}

/// Every route and plan that was ever used.
async fn labels(plain: &Plain, names: &Names) -> Result<Ranks, StoreError> {
    let (mut labels, mut cursor) = (HashMap::new(), 0);
    loop {
        let mut hscan = cmd("HSCAN");
        hscan.arg(names.of("labelled")).arg(cursor).arg("COUNT").arg(ROWS);
        let value = plain.ask(hscan, WITHIN).await?;
        let (next, pairs) = scanned(&value).ok_or_else(|| damaged("the labels of usage"))?;
        let read = |pair: &[Value]| {
            Some((text(&pair[0])?.parse::<u32>().ok()?.into(), text(&pair[1])?.into()))
        };
        // A scan may tell the same twice.
        labels.extend(pairs.chunks_exact(2).filter_map(read));
        if next == 0 {
            return Ok(Ranks::of(labels.into_iter().collect()));
        }
        cursor = next;
    }
}

/// Route, plan, and what was counted of them.
fn read(entry: &str) -> Option<(u32, u32, Totals)> {
    let mut numbers = entry.split(',').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (route, plan) = (u32::try_from(next()?).ok()?, u32::try_from(next()?).ok()?);
    let totals = Totals { requests: next()?, refusals: next()?, tokens: next()? };
    Some((route, plan, totals))
}
