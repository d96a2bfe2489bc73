//! Tenants and plans with versions, the audit, and answers to an `Idempotency-Key`.

use std::time::Duration;

use serde_json::json;
use tollgate_core::Time;
use tollgate_policy::shapes::Plan;
use tollgate_storage::{
    AuditEntry, Change, Day, Expect, IdempotentAnswer, KeyTerms, ObjectKind, PageOf, Store,
    StoreError, StoredKey, Tidy, Unavailable,
};

use crate::homes::{Kind, on_every_store, store};
use crate::{NOW, issue, key, runtime};

fn put(id: &str, body: &str, expect: Expect) -> Change {
    let (id, body) = (id.to_owned(), body.to_owned());
    Change::Put { kind: ObjectKind::Plan, id, body, expect, at: NOW }
}

fn a_version_is_never_given_twice_and_an_old_one_replaces_nothing(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let commit = async |change| store.commit(vec![change]).await.map(|done| done.versions);
        let first = commit(put("pro", "{}", Expect::Absent)).await.unwrap()[0];
        let twice = commit(put("pro", "{}", Expect::Absent)).await;
        assert_eq!(twice, Err(StoreError::Exists { what: "plan pro".to_owned() }));
        let second =
            commit(put("pro", r#"{"quota":[]}"#, Expect::Version(first))).await.unwrap()[0];
        assert!(second > first);
        let stale = commit(put("pro", "{}", Expect::Version(first))).await;
        assert_eq!(stale, Err(StoreError::Stale { what: "plan pro".to_owned(), found: second }));
        let object = store.object(ObjectKind::Plan, "pro").await.unwrap();
        assert_eq!((object.version, object.body.as_str()), (second, r#"{"quota":[]}"#));
        assert_eq!(object.version.to_string().parse(), Ok(second));
        assert_eq!(object.read::<Plan>().unwrap(), Plan::default());

        let (kind, id) = (ObjectKind::Plan, "pro".to_owned());
        let remove = |expect| Change::Remove { kind, id: id.clone(), expect, at: NOW };
        assert!(commit(remove(Expect::Version(first))).await.is_err());
        commit(remove(Expect::Version(second))).await.unwrap();
        let gone = commit(remove(Expect::Present)).await;
        assert_eq!(gone, Err(StoreError::NotFound { what: "plan pro".to_owned() }));
        let third = commit(put("pro", "{}", Expect::Anything)).await.unwrap()[0];
        assert!(third > second);
    });
}

fn a_body_of_another_shape_is_told_as_damage_by_name(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        store.commit(vec![put("odd", r#"{"speed":1}"#, Expect::Absent)]).await.unwrap();
        let odd = store.objects(ObjectKind::Plan).await.unwrap().remove(0);
        let Err(StoreError::Unavailable(Unavailable::Damaged(how))) = odd.read::<Plan>() else {
            panic!("read")
        };
        assert!(how.starts_with("plan odd does not read") && how.contains("speed"), "{how}");
    });
}

fn tenants_and_plans_with_keys_in_force_stay(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (_, mut stored) = key("acme", 1);
        stored.terms.plan = Some("pro".parse().unwrap());
        store.commit(issue(&stored)).await.unwrap();
        for (kind, id) in [(ObjectKind::Tenant, "acme"), (ObjectKind::Plan, "pro")] {
            let (id, expect) = (id.to_owned(), Expect::Anything);
            let remove = || Change::Remove { kind, id: id.clone(), expect, at: NOW };
            let what = format!("{} {id}", kind.name());
            let refused = store.commit(vec![remove()]).await;
            assert_eq!(refused, Err(StoreError::InUse { what, keys: 1 }));
            assert_eq!(store.keys_in_force(kind, &id, NOW).await, Ok(1));
            assert_eq!(store.keys_in_force(kind, "other", NOW).await, Ok(0));
        }
        store.commit(vec![Change::RevokeKey { id: stored.id, at: NOW }]).await.unwrap();
        for (kind, id) in [(ObjectKind::Tenant, "acme"), (ObjectKind::Plan, "pro")] {
            assert_eq!(store.keys_in_force(kind, id, NOW).await, Ok(0));
            let (id, expect) = (id.to_owned(), Expect::Anything);
            store.commit(vec![Change::Remove { kind, id, expect, at: NOW }]).await.unwrap();
        }
    });
}

fn a_key_that_has_ended_holds_nothing_in_its_place(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let later = NOW + Duration::from_secs(60);
        let (_, mut expires) = key("acme", 1);
        expires.terms.plan = Some("pro".parse().unwrap());
        expires.terms.expires_at = Some(later);
        let (_, replaced) = key("acme", 2);
        let (_, mut successor) = key("acme", 3);
        successor.terms.expires_at = Some(later);
        store.commit([issue(&expires), issue(&replaced)].concat()).await.unwrap();
        let (id, successor) = (replaced.id, Box::new(successor));
        let rotate = Change::RotateKey { id, successor, grace_until: later };
        store.commit(vec![rotate]).await.unwrap();
        let tidy = async |now| {
            let tidy = Tidy { now, usage_from: Day::of(NOW), audit_from: NOW };
            while store.tidy(tidy).await.unwrap() {}
        };
        let in_force = async |now| {
            let acme = store.keys_in_force(ObjectKind::Tenant, "acme", now).await.unwrap();
            (acme, store.keys_in_force(ObjectKind::Plan, "pro", now).await.unwrap())
        };
        let before = Time::from_nanos(later.as_nanos() - 1000);
        tidy(before).await;
        assert_eq!(in_force(before).await, (3, 1));
        tidy(later).await;
        tidy(later).await;
        assert_eq!(in_force(later).await, (0, 0));
        let (kind, id) = (ObjectKind::Tenant, "acme".to_owned());
        let remove = Change::Remove { kind, id, expect: Expect::Anything, at: later };
        store.commit(vec![remove]).await.unwrap();
        // One that is given more time counts again.
        let terms = Box::new(KeyTerms { expires_at: None, ..expires.terms });
        store.commit(vec![Change::UpdateKey { id: expires.id.clone(), terms }]).await.unwrap();
        assert_eq!(in_force(later).await, (1, 1));
        store.commit(vec![Change::RevokeKey { id: expires.id, at: later }]).await.unwrap();
        tidy(later).await;
        assert_eq!(in_force(later).await, (0, 0));
    });
}

/// By its own plan it went no more, and the one it goes by could vanish under it: with that its limit was gone.
fn a_key_in_its_grace_holds_the_plan_of_the_last_of_its_line_and_not_its_own(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let later = NOW + Duration::from_secs(60);
        let plan = |name: &str| Some(name.parse().unwrap());
        let in_force = async |now| {
            let mut counted = Vec::new();
            for name in ["large", "small", "tiny"] {
                counted.push(store.keys_in_force(ObjectKind::Plan, name, now).await.unwrap());
            }
            counted
        };
        let (_, mut first) = key("acme", 1);
        first.terms.plan = plan("large");
        let second = first.mint_successor(NOW).unwrap().1;
        let mut third = second.mint_successor(NOW).unwrap().1;
        let rotate = |old: &StoredKey, new: &StoredKey, grace_until| {
            let (id, successor) = (old.id.clone(), Box::new(new.clone()));
            Change::RotateKey { id, successor, grace_until }
        };
        let change = async |key: &StoredKey, terms: KeyTerms| {
            let (id, terms) = (key.id.clone(), Box::new(terms));
            store.commit(vec![Change::UpdateKey { id, terms }]).await.unwrap();
        };
        let with_plan = |name: &str| KeyTerms { plan: plan(name), ..KeyTerms::default() };
        store.commit(issue(&first)).await.unwrap();
        store.commit(vec![rotate(&first, &second, later)]).await.unwrap();
        assert_eq!(in_force(NOW).await, [2, 0, 0]);
        change(&second, with_plan("small")).await;
        assert_eq!(in_force(NOW).await, [0, 2, 0]);
        third.terms.plan = plan("small");
        let even_later = later + Duration::from_secs(60);
        store.commit(vec![rotate(&second, &third, even_later)]).await.unwrap();
        assert_eq!(in_force(NOW).await, [0, 3, 0]);

        // A name says nothing of plans, and what is revoked goes on saying what the others go by.
        change(&first, KeyTerms { name: "old".parse().ok(), ..with_plan("large") }).await;
        store.commit(vec![Change::RevokeKey { id: third.id.clone(), at: NOW }]).await.unwrap();
        assert_eq!(in_force(NOW).await, [0, 2, 0]);
        change(&third, with_plan("tiny")).await;
        assert_eq!(in_force(NOW).await, [0, 0, 2]);
        let remove = |name: &str, at| {
            let (kind, id, expect) = (ObjectKind::Plan, name.to_owned(), Expect::Anything);
            store.commit(vec![Change::Remove { kind, id, expect, at }])
        };
        for name in ["large", "small"] {
            remove(name, NOW).await.unwrap();
        }
        let what = "plan tiny".to_owned();
        assert_eq!(remove("tiny", NOW).await, Err(StoreError::InUse { what, keys: 2 }));

        let tidy = async |now| {
            let tidy = Tidy { now, usage_from: Day::of(NOW), audit_from: NOW };
            while store.tidy(tidy).await.unwrap() {}
        };
        tidy(later).await;
        assert_eq!(in_force(later).await, [0, 0, 1]);
        store.commit(vec![Change::RevokeKey { id: second.id, at: later }]).await.unwrap();
        tidy(even_later).await;
        assert_eq!(in_force(even_later).await, [0, 0, 0]);
        remove("tiny", later).await.unwrap();
    });
}

/// Where the key that ended it goes by another plan meanwhile, it is that one which it holds again.
fn a_key_that_is_given_more_time_in_its_grace_holds_its_lines_plan(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (soon, later) = (NOW + Duration::from_secs(30), NOW + Duration::from_secs(60));
        let (_, mut old) = key("acme", 1);
        old.terms.plan = Some("large".parse().unwrap());
        let new = old.mint_successor(NOW).unwrap().1;
        old.terms.expires_at = Some(soon);
        let (id, successor) = (old.id.clone(), Box::new(new.clone()));
        store.commit(issue(&old)).await.unwrap();
        store.commit(vec![Change::RotateKey { id, successor, grace_until: later }]).await.unwrap();
        let tidy = Tidy { now: soon, usage_from: Day::of(NOW), audit_from: NOW };
        while store.tidy(tidy).await.unwrap() {}
        let small = KeyTerms { plan: "small".parse().ok(), ..KeyTerms::default() };
        let longer = KeyTerms { expires_at: None, ..old.terms };
        for (id, terms) in [(new.id.clone(), small), (old.id.clone(), longer)] {
            let terms = Box::new(terms);
            store.commit(vec![Change::UpdateKey { id, terms }]).await.unwrap();
        }
        store.commit(vec![Change::RevokeKey { id: new.id, at: soon }]).await.unwrap();
        let in_force =
            async |name| store.keys_in_force(ObjectKind::Plan, name, soon).await.unwrap();
        assert_eq!((in_force("large").await, in_force("small").await), (0, 1));
    });
}

fn audit(n: u64) -> Change {
    Change::Audit(AuditEntry {
        at: NOW.as_nanos() + n,
        actor: "admin".to_owned(),
        action: "key.issue".to_owned(),
        subject: format!("key {n}"),
        before: None,
        after: Some(json!({ "plan": "pro", "n": n })),
    })
}

async fn audited(store: &Store) -> Vec<String> {
    let page = PageOf { after: None, limit: 1000 };
    store.audit(page).await.unwrap().rows.into_iter().map(|entry| entry.subject).collect()
}

fn changes_are_made_all_or_none(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (_, stored) = key("acme", 1);
        let mut changes = issue(&stored);
        changes.extend([audit(1), put("pro", "{}", Expect::Present)]);
        assert!(store.commit(changes).await.is_err());
        assert!(store.key(stored.id.clone()).await.is_err());
        assert!(audited(&store).await.is_empty());
        let mut changes = issue(&stored);
        changes.extend([audit(1), put("pro", "{}", Expect::Absent)]);
        store.commit(changes).await.unwrap();
        assert!(store.key(stored.id.clone()).await.is_ok());
        assert_eq!(audited(&store).await, ["key 1"]);
    });
}

fn the_audit_is_read_newest_first_page_by_page_and_forgotten_by_age(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        for n in 0..10 {
            store.commit(vec![audit(n)]).await.unwrap();
        }
        let first = store.audit(PageOf { after: None, limit: 6 }).await.unwrap();
        assert_eq!(first.rows[0].after, Some(json!({ "plan": "pro", "n": 9 })));
        let second = store.audit(PageOf { after: first.next, limit: 6 }).await.unwrap();
        let rows = [first.rows, second.rows].concat();
        let expected: Vec<String> = (0..10).rev().map(|n| format!("key {n}")).collect();
        assert_eq!(rows.into_iter().map(|row| row.subject).collect::<Vec<_>>(), expected);
        assert_eq!(second.next, None);

        let audit_from = NOW + Duration::from_nanos(7);
        let tidy = Tidy { now: NOW, usage_from: Day::of(NOW), audit_from };
        assert_eq!(store.tidy(tidy).await, Ok(false));
        assert_eq!(audited(&store).await, ["key 9", "key 8", "key 7"]);
    });
}

fn answer(key: &str, seconds: u64) -> IdempotentAnswer {
    IdempotentAnswer {
        key: key.to_owned(),
        fingerprint: crate::key("acme", 7).1.sha256,
        status: 201,
        body: r#"{"id":"key_1"}"#.to_owned(),
        at: NOW + Duration::from_secs(seconds),
    }
}

fn the_same_idempotency_key_does_nothing_twice_within_a_day(kind: Kind) {
    let (_home, store) = store(kind);
    let day = 24 * 3600;
    runtime().block_on(async {
        let remember = |answer: IdempotentAnswer| Change::Remember(Box::new(answer));
        let (_, stored) = key("acme", 1);
        let mut changes = issue(&stored);
        changes.push(remember(answer("a", 0)));
        store.commit(changes).await.unwrap();

        let (_, another) = key("acme", 2);
        let mut changes = issue(&another);
        changes.push(remember(answer("a", day - 1)));
        let refused = store.commit(changes).await;
        assert_eq!(refused, Err(StoreError::Answered(Box::new(answer("a", 0)))));
        assert!(store.key(another.id).await.is_err());

        let at = |seconds| NOW + Duration::from_secs(seconds);
        assert_eq!(store.answer_to("a", at(day - 1)).await, Ok(Some(answer("a", 0))));
        assert_eq!(store.answer_to("a", at(day)).await, Ok(None));
        assert_eq!(store.answer_to("b", at(0)).await, Ok(None));
        store.commit(vec![remember(answer("a", day))]).await.unwrap();
        assert_eq!(store.answer_to("a", at(day)).await, Ok(Some(answer("a", day))));
    });
}

fn answers_are_forgotten_by_age_and_by_number(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let most = u64::from(IdempotentAnswer::MOST);
        let remember =
            |n: u64| Change::Remember(Box::new(answer(&format!("n{n}"), n / most * 24 * 3600)));
        for part in (0..most).collect::<Vec<_>>().chunks(2000) {
            store.commit(part.iter().copied().map(remember).collect()).await.unwrap();
        }
        assert!(store.answer_to("n0", NOW).await.unwrap().is_some());
        store.commit((most..most + 10).map(remember).collect()).await.unwrap();
        assert!(store.answer_to("n9", NOW).await.unwrap().is_none());
        assert!(store.answer_to("n10", NOW).await.unwrap().is_some());

        let now = NOW + Duration::from_secs(24 * 3600);
        let tidy = Tidy { now, usage_from: Day::of(NOW), audit_from: NOW };
        while store.tidy(tidy).await.unwrap() {}
        // At this moment they would not be too old yet, so they are gone.
        assert!(store.answer_to("n10", NOW).await.unwrap().is_none());
        assert!(store.answer_to(&format!("n{most}"), now).await.unwrap().is_some());
    });
}

on_every_store! {
    a_version_is_never_given_twice_and_an_old_one_replaces_nothing,
    a_body_of_another_shape_is_told_as_damage_by_name,
    tenants_and_plans_with_keys_in_force_stay,
    a_key_that_has_ended_holds_nothing_in_its_place,
    a_key_in_its_grace_holds_the_plan_of_the_last_of_its_line_and_not_its_own,
    a_key_that_is_given_more_time_in_its_grace_holds_its_lines_plan,
    changes_are_made_all_or_none,
    the_audit_is_read_newest_first_page_by_page_and_forgotten_by_age,
    the_same_idempotency_key_does_nothing_twice_within_a_day,
    answers_are_forgotten_by_age_and_by_number,
}
