//! Keys are issued, listed, changed, rotated and revoked, and survive.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_storage::{Change, KeyTerms, PageOf, StoreError};

use crate::homes::{Kind, on_every_store, store};
use crate::{NOW, issue, key, runtime};

fn what_is_issued_is_there_after_a_restart_and_the_key_itself_is_nowhere(kind: Kind) {
    let (home, store) = store(kind);
    let (secret, mut stored) = key("acme", 1);
    stored.user = Some("ann@example.com".parse().unwrap());
    stored.terms = KeyTerms {
        plan: Some("pro".parse().unwrap()),
        name: Some("Build für CI".parse().unwrap()),
        expires_at: Some(NOW + Duration::from_nanos(1)),
        rate_limit: Some(
            serde_json::from_str(r#"{"sustained":{"rate":5,"window":"minute"}}"#).unwrap(),
        ),
    };
    runtime().block_on(async {
        assert_eq!(store.commit(issue(&stored)).await.unwrap().keys, [stored.clone()]);
        store.close().await.unwrap();
        let store = home.open();
        assert_eq!(store.key(stored.id.clone()).await, Ok(stored));
        store.close().await.unwrap();
    });
    let (bytes, random) = (home.bytes(), &secret.as_str().as_bytes()[12..]);
    assert!(!bytes.windows(random.len()).any(|window| window == random));
}

fn lists_go_page_by_page_in_the_order_of_issue(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let mut issued = Vec::new();
        for n in 0..25 {
            let (_, stored) = key(if n % 3 == 0 { "acme" } else { "other" }, n);
            store.commit(issue(&stored)).await.unwrap();
            issued.push(stored);
        }
        for tenant in [None, Some("acme"), Some("other"), Some("nobody")] {
            let mut listed = Vec::new();
            let mut after = None;
            loop {
                let tenant = tenant.map(|tenant| tenant.parse().unwrap());
                let page = store.keys(tenant, PageOf { after, limit: 4 }).await.unwrap();
                assert!(page.rows.len() <= 4);
                listed.extend(page.rows);
                let Some(next) = page.next else { break };
                // As a caller sends it back.
                after = Some(next.to_string().parse().unwrap());
            }
            let is_listed = |tenant_of: &str| tenant.is_none_or(|tenant| tenant == tenant_of);
            let expected: Vec<_> =
                issued.iter().filter(|key| is_listed(key.tenant.as_str())).cloned().collect();
            assert_eq!(listed, expected);
        }
    });
    for text in ["", "c", "cz", "7", "c-"] {
        assert_eq!(text.parse::<tollgate_storage::Cursor>(), Err(StoreError::BadCursor));
    }
}

fn a_rotated_key_works_until_its_grace_ends_and_its_line_is_known(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (_, old) = key("acme", 1);
        store.commit(issue(&old)).await.unwrap();
        let (_, new) = old.mint_successor(NOW).unwrap();
        let grace_until = NOW + Duration::from_secs(60);
        let rotate = |successor| Change::RotateKey {
            id: old.id.clone(),
            successor: Box::new(successor),
            grace_until,
        };
        let committed = store.commit(vec![rotate(new.clone())]).await.unwrap();
        let [replaced, successor] = &committed.keys[..] else { panic!("{committed:?}") };
        assert_eq!((replaced.ends_at(), successor.ends_at()), (grace_until, Time::MAX));
        assert_eq!(replaced.replaced_by.as_ref(), Some(&new.id));
        assert_eq!((&successor.origin, &successor.tenant), (&old.id, &old.tenant));
        assert_ne!(successor.sha256, old.sha256);

        let (_, third) = new.mint_successor(NOW).unwrap();
        let again = store.commit(vec![rotate(third.clone())]).await;
        let expected = StoreError::NotCurrent { id: old.id.clone(), replaced_by: Some(new.id) };
        assert_eq!(again, Err(expected));
        assert!(matches!(store.key(third.id).await, Err(StoreError::NotFound { .. })));
    });
}

fn a_revoked_key_has_ended_and_cannot_be_rotated(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (_, stored) = key("acme", 1);
        store.commit(issue(&stored)).await.unwrap();
        let revoke = |at| vec![Change::RevokeKey { id: stored.id.clone(), at }];
        let first = store.commit(revoke(NOW)).await.unwrap();
        assert_eq!(first.keys[0].ends_at(), Time::EPOCH);
        // Again changes nothing, not even the moment.
        let later = NOW + Duration::from_secs(1);
        assert_eq!(store.commit(revoke(later)).await.unwrap(), first);
        let (_, successor) = stored.mint_successor(NOW).unwrap();
        let rotate = Change::RotateKey {
            id: stored.id.clone(),
            successor: Box::new(successor),
            grace_until: later,
        };
        let expected = StoreError::NotCurrent { id: stored.id.clone(), replaced_by: None };
        assert_eq!(store.commit(vec![rotate]).await, Err(expected));
        let mut all = 0;
        store.for_each_key(NOW, |_| all += 1).await.unwrap();
        assert_eq!(all, 0);
    });
}

fn a_key_moves_to_another_plan(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (_, stored) = key("acme", 1);
        store.commit(issue(&stored)).await.unwrap();
        let terms = KeyTerms { plan: Some("pro".parse().unwrap()), ..KeyTerms::default() };
        let update = Change::UpdateKey { id: stored.id.clone(), terms: Box::new(terms.clone()) };
        let committed = store.commit(vec![update]).await.unwrap();
        assert_eq!(committed.keys[0].terms, terms);
        assert_eq!(store.key(stored.id.clone()).await.unwrap().terms, terms);
        let missing = Change::UpdateKey {
            id: "key_none".parse().unwrap(),
            terms: Box::new(KeyTerms::default()),
        };
        let answer = store.commit(vec![missing]).await;
        assert_eq!(answer, Err(StoreError::NotFound { what: "key key_none".to_owned() }));
    });
}

fn keys_of_a_user_are_found_among_those_of_others(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let (mut expected, mut all) = (Vec::new(), Vec::new());
        for seed in 0..2500 {
            let (_, mut stored) = key(if seed % 3 == 0 { "acme" } else { "part" }, seed);
            let is_anns = seed % 500 == 0;
            stored.user = Some(if is_anns { "ann" } else { "bob" }.parse().unwrap());
            // One of them ends now, and another has been revoked.
            stored.terms.expires_at = (seed == 1500).then_some(NOW);
            stored.revoked_at = (seed == 0).then_some(NOW);
            if is_anns && seed % 3 != 0 {
                expected.push(stored.clone());
            }
            all.extend(issue(&stored));
        }
        for part in all.chunks(500) {
            store.commit(part.to_vec()).await.unwrap();
        }
        let of = async |tenant: &str, user: &str| {
            store.keys_of(tenant.parse().unwrap(), user.parse().unwrap(), NOW).await.unwrap()
        };
        assert_eq!(of("part", "ann").await, expected);
        assert_eq!(of("acme", "ann").await, []);
        assert_eq!(of("acme", "eve").await, []);
    });
}

fn all_keys_in_force_are_loaded_and_no_others(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let second = Duration::from_secs(1);
        let mut expected = Vec::new();
        for n in 0..2500 {
            let (_, mut stored) = key("acme", n);
            match n % 5 {
                0 => stored.revoked_at = Some(NOW),
                1 => stored.terms.expires_at = Some(NOW),
                2 => stored.grace_until = Some(NOW),
                3 => stored.terms.expires_at = Some(NOW + second),
                _ => stored.grace_until = Some(NOW + second),
            }
            store.commit(issue(&stored)).await.unwrap();
            if n % 5 > 2 {
                expected.push(stored);
            }
        }
        let mut loaded = Vec::new();
        store.for_each_key(NOW, |key| loaded.push(key)).await.unwrap();
        assert_eq!(loaded, expected);
    });
}

#[test]
fn an_audit_row_says_nothing_a_key_could_be_found_by() {
    let (secret, stored) = key("acme", 1);
    let text = stored.for_audit().to_string();
    assert!(text.contains(stored.id.as_str()) && text.contains("acme"));
    assert!(!text.contains(&stored.sha256.to_string()) && !text.contains(secret.as_str()));
}

on_every_store! {
    what_is_issued_is_there_after_a_restart_and_the_key_itself_is_nowhere,
    lists_go_page_by_page_in_the_order_of_issue,
    a_rotated_key_works_until_its_grace_ends_and_its_line_is_known,
    a_revoked_key_has_ended_and_cannot_be_rotated,
    a_key_moves_to_another_plan,
    all_keys_in_force_are_loaded_and_no_others,
    keys_of_a_user_are_found_among_those_of_others,
}
