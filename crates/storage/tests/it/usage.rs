//! Usage adds up, however it is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Time;
use tollgate_storage::{
    Caller, Day, Grouping, Store, StoreError, Tidy, UsagePage, UsageQuery, UsageRecorder, UsageRow,
    Use,
};

use crate::homes::{Home, Kind, embedded, on_every_store, store};
use crate::{NOW, runtime};

const ALL: Grouping = Grouping { tenant: true, key: true, route: true, plan: true, day: true };

fn at_day(n: u64) -> Time {
    NOW + Duration::from_secs(n * 86_400)
}

fn query(group_by: Grouping) -> UsageQuery {
    UsageQuery { group_by, ..UsageQuery::days(Day::of(NOW), Day::of(at_day(1000))) }
}

/// A request: tenant, key, route, plan, day, whether it was refused, tokens.
type Seen = (u8, u8, u8, u8, u64, bool, u64);

fn count(recorder: &mut UsageRecorder, seen: Seen) {
    let (tenant, key, route, plan, day, refused, tokens) = seen;
    let name = |what: &str, n: u8| if n == 0 { String::new() } else { format!("{what}-{n}") };
    let (tenant, route) = (format!("tenant-{tenant}"), format!("GET /{route}"));
    let caller = Caller {
        tenant: &tenant,
        key: &name("key", key),
        route: &route,
        plan: &name("plan", plan),
    };
    recorder.count(caller, Use { refused, tokens }, at_day(day));
}

/// The same question, answered by adding up one by one.
fn expected(seen: &[Seen], query: &UsageQuery) -> Vec<UsageRow> {
    let mut rows: BTreeMap<UsageRow, [u64; 3]> = BTreeMap::new();
    let by = query.group_by;
    for &(tenant, key, route, plan, day, refused, tokens) in seen {
        let name = |what: &str, n: u8| if n == 0 { String::new() } else { format!("{what}-{n}") };
        let (tenant, key) = (format!("tenant-{tenant}"), name("key", key));
        let day = Day::of(at_day(day));
        let is_asked = query.tenant.as_ref().is_none_or(|wanted| wanted.as_str() == tenant)
            && query.key.as_ref().is_none_or(|wanted| wanted.as_str() == key)
            && (query.from..=query.to).contains(&day);
        if is_asked {
            let group = UsageRow {
                tenant: by.tenant.then_some(tenant),
                key: by.key.then_some(key),
                route: by.route.then(|| format!("GET /{route}")),
                plan: by.plan.then(|| name("plan", plan)),
                day: by.day.then_some(day),
                ..UsageRow::default()
            };
            let sum = rows.entry(group).or_default();
            *sum = [sum[0] + 1, sum[1] + u64::from(refused), sum[2] + tokens];
        }
    }
    let filled = |(group, [requests, refusals, tokens]): (UsageRow, [u64; 3])| UsageRow {
        requests,
        refusals,
        tokens,
        ..group
    };
    rows.into_iter().map(filled).collect()
}

fn seen() -> impl Strategy<Value = Seen> {
    (0..3u8, 0..4u8, 0..3u8, 0..3u8, 0..5u64, any::<bool>(), 0..100u64)
}

fn groupings() -> impl Strategy<Value = Grouping> {
    any::<[bool; 5]>().prop_map(|[tenant, key, route, plan, day]| Grouping {
        tenant,
        key,
        route,
        plan,
        day,
    })
}

/// The rows of every page of an answer.
async fn pages(store: &Store, mut query: UsageQuery) -> Vec<Vec<UsageRow>> {
    let mut pages = Vec::new();
    loop {
        let page = store.usage(query.clone()).await.unwrap();
        assert!(page.rows.len() <= query.at_most);
        pages.push(page.rows);
        let Some(next) = page.next else { return pages };
        // As text, as somebody who asks again has it.
        query.after = Some(next.to_string().parse().unwrap());
    }
}

/// Questions about one set of batches: whose, which key's, of which days.
type Filters = (Option<u8>, Option<u8>, (u64, u64));

fn ask(kind: Kind, batches: &[Vec<Seen>], groupings: &[Grouping], filters: Filters) {
    let (home, store) = store(kind);
    let (tenant, key, days) = filters;
    runtime().block_on(async {
        let mut recorders = [UsageRecorder::new(), UsageRecorder::new()];
        for (n, batch) in batches.iter().enumerate() {
            batch.iter().for_each(|seen| count(&mut recorders[n % 2], *seen));
            recorders[n % 2].flush(&store).await.unwrap();
        }
        let all = batches.concat();
        for group_by in groupings {
            let query = UsageQuery {
                tenant: tenant.map(|n| format!("tenant-{n}").parse().unwrap()),
                key: key.map(|n| format!("key-{n}").parse().unwrap()),
                from: Day::of(at_day(days.0)),
                to: Day::of(at_day(days.1)),
                group_by: *group_by,
                after: None,
                at_most: UsageQuery::ROWS,
            };
            assert_eq!(pages(&store, query.clone()).await.concat(), expected(&all, &query));
            let few = UsageQuery { at_most: 3, ..query.clone() };
            assert_eq!(pages(&store, few).await.concat(), expected(&all, &query));
        }
        store.close().await.unwrap();
        if let Home::Folder(folder) = &home {
            assert_eq!(shown_to_people(folder.path()), expected(&all, &query(ALL)));
        }
    });
}

fn every_question_is_answered_as_if_counted_one_by_one(kind: Kind) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) };
    proptest!(config, |(
        batches in prop::collection::vec(prop::collection::vec(seen(), 0..60), 1..5),
        group_by in prop::collection::vec(groupings(), 8),
        tenant in prop::option::of(0..4u8), key in prop::option::of(1..5u8),
        days in (0..6u64, 0..6u64),
    )| ask(kind, &batches, &group_by, (tenant, key, days)));
}

/// What any SQLite tool shows.
fn shown_to_people(folder: &std::path::Path) -> Vec<UsageRow> {
    let db = rusqlite::Connection::open(folder.join("tollgate.db")).unwrap();
    let sql = "SELECT tenant, key, route, plan, day, requests, refusals, tokens FROM usage_rows
               ORDER BY 1, 2, 3, 4, 5";
    let mut select = db.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let count = |at| row.get::<_, i64>(at).unwrap().unsigned_abs();
        Ok(UsageRow {
            tenant: row.get(0)?,
            key: row.get(1)?,
            route: row.get(2)?,
            plan: row.get(3)?,
            day: Some(row.get::<_, String>(4)?.parse().unwrap()),
            requests: count(5),
            refusals: count(6),
            tokens: count(7),
        })
    };
    select.query_map([], row).unwrap().map(Result::unwrap).collect()
}

async fn fill(store: &Store, days: u64) -> u64 {
    let mut recorder = UsageRecorder::new();
    for day in 0..days {
        for key in 1..=100 {
            count(&mut recorder, (key % 3, key, 0, 1, day, false, 1));
        }
    }
    recorder.flush(store).await.unwrap();
    days * 100
}

async fn requests(store: &Store) -> u64 {
    store.usage(query(Grouping::default())).await.unwrap().rows.iter().map(|row| row.requests).sum()
}

fn an_answer_of_many_rows_goes_page_by_page(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        fill(&store, 10).await;
        for (at_most, lengths) in [(400, vec![400, 400, 200]), (1000, vec![1000])] {
            let pages = pages(&store, UsageQuery { at_most, ..query(ALL) }).await;
            assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
            assert!(pages.concat().is_sorted());
        }
        // What goes on in another way than it began leads nowhere.
        let first = store.usage(UsageQuery { at_most: 1, ..query(ALL) }).await.unwrap();
        let other = UsageQuery { after: first.next, ..query(Grouping::default()) };
        assert_eq!(store.usage(other).await, Err(StoreError::BadCursor));
        let backwards =
            UsageQuery { from: Day::of(at_day(5)), to: Day::of(at_day(4)), ..query(ALL) };
        assert_eq!(store.usage(backwards).await, Ok(UsagePage::default()));
        let whole_calendar =
            UsageQuery { from: Day::from_number(0), to: Day::MAX, ..query(Grouping::default()) };
        let one_key = UsageQuery { key: Some("key-1".parse().unwrap()), ..whole_calendar };
        assert_eq!(store.usage(one_key).await.unwrap().rows[0].requests, 10);
    });
}

fn old_usage_is_deleted_slice_by_slice_and_the_rest_stays(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        assert_eq!(fill(&store, 50).await, 5000);
        let usage_from = Day::of(at_day(45));
        let tidy = Tidy { now: at_day(50), usage_from, audit_from: Time::EPOCH };
        let mut slices = 0;
        while store.tidy(tidy).await.unwrap() {
            slices += 1;
        }
        assert_eq!((slices, requests(&store).await), (2, 500));
    });
}

#[test]
fn names_of_forgotten_usage_are_forgotten() {
    let (folder, store) = embedded();
    runtime().block_on(async {
        let mut recorder = UsageRecorder::new();
        // Keys and routes of the first days, beside one that stays.
        for day in 0..30 {
            for key in 1..=200 {
                count(&mut recorder, (1, key, key, 1, day, false, 1));
            }
        }
        (0..50).for_each(|day| count(&mut recorder, (2, 255, 255, 2, day, false, 1)));
        recorder.flush(&store).await.unwrap();
        let names = |table: &str| {
            let db = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
            let sql = format!("SELECT count(*) FROM {table}");
            db.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        // Two tenants, two plans, and the routes.
        assert_eq!((names("usage_holders"), names("usage_labels")), (201, 201 + 4));
        let usage_from = Day::of(at_day(29));
        let tidy = Tidy { now: at_day(50), usage_from, audit_from: Time::EPOCH };
        while store.tidy(tidy).await.unwrap() {}
        assert_eq!((names("usage_holders"), names("usage_labels")), (201, 201 + 4));
        let tidy = Tidy { usage_from: Day::of(at_day(30)), ..tidy };
        while store.tidy(tidy).await.unwrap() {}
        assert_eq!((names("usage_holders"), names("usage_labels")), (1, 3));
        // Whoever comes back is counted under names that are there.
        count(&mut recorder, (1, 7, 7, 1, 45, false, 1));
        recorder.flush(&store).await.unwrap();
        let rows = store.usage(query(ALL)).await.unwrap().rows;
        assert_eq!(rows.len(), 20 + 1);
        assert_eq!(
            (rows[0].key.as_deref(), rows[0].route.as_deref()),
            (Some("key-7"), Some("GET /7"))
        );
    });
}

fn nothing_is_lost_by_a_clean_stop_nor_by_a_store_that_fails(kind: Kind) {
    let (home, store) = store(kind);
    runtime().block_on(async {
        let mut recorder = UsageRecorder::new();
        (0..100).for_each(|n| count(&mut recorder, (1, 1, n % 3, 1, 0, n % 2 == 0, 2)));
        store.close().await.unwrap();
        assert!(recorder.flush(&store).await.is_err());
        (0..100).for_each(|n| count(&mut recorder, (1, 1, n % 3, 1, 0, n % 2 == 0, 2)));
        let store = home.open();
        recorder.flush(&store).await.unwrap();
        assert!(recorder.is_empty() && recorder.lost() == 0);
        store.close().await.unwrap();
        let store = home.open();
        let rows = store.usage(query(Grouping::default())).await.unwrap().rows;
        assert_eq!((rows[0].requests, rows[0].refusals, rows[0].tokens), (200, 100, 400));
    });
}

#[test]
fn a_recorder_is_bounded_and_says_what_it_did_not_count() {
    let mut recorder = UsageRecorder::new();
    for n in 0..UsageRecorder::MOST + 10 {
        let key = format!("key-{n}");
        let caller = Caller { tenant: "acme", key: &key, route: "GET /", plan: "" };
        recorder.count(caller, Use { refused: false, tokens: 1 }, NOW);
    }
    let known = Caller { tenant: "acme", key: "key-0", route: "GET /", plan: "" };
    recorder.count(known, Use { refused: false, tokens: 1 }, NOW);
    assert_eq!(recorder.lost(), 10);
    assert_eq!(recorder.drain().len(), UsageRecorder::MOST);
}

on_every_store! {
    every_question_is_answered_as_if_counted_one_by_one,
    an_answer_of_many_rows_goes_page_by_page,
    old_usage_is_deleted_slice_by_slice_and_the_rest_stays,
    nothing_is_lost_by_a_clean_stop_nor_by_a_store_that_fails,
}
