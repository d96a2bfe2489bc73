//! Quotas are spent from blocks that are already written down.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::Time;
use tollgate_storage::{
    Day, Draw, NotSpent, QuotaAccount, QuotaBook, QuotaPeriod, Store, Tidy, Unavailable, block,
};

use crate::homes::{Kind, embedded, on_every_store, store};
use crate::runtime;

pub fn period(n: u64) -> QuotaPeriod {
    QuotaPeriod { begins: Time::from_secs(n * 100), ends: Time::from_secs((n + 1) * 100) }
}

pub fn draw(amount: u64, limit: u64) -> Draw {
    Draw { amount, limit, period: period(1) }
}

/// Waits until nothing is on its way: an answer may lead to one more question, and that to none.
pub async fn settled(store: &Store) {
    for _ in 0..3 {
        store.barrier().await.unwrap();
    }
}

async fn taken(store: &Store, account: &QuotaAccount) -> u64 {
    store.quota_taken(account.name(), period(1).begins).await.unwrap()
}

fn the_first_waits_and_the_next_do_not(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(1, 10_000)).await.unwrap();
        assert_eq!(account.standing().unwrap().used, 1);
        for _ in 0..50 {
            account.try_spend(draw(1, 10_000)).unwrap();
        }
        assert!(taken(&store, &account).await >= 51);
    });
}

/// As a reload does it.
fn as_many_may_be_in_use_as_it_was_last_told(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store, 1);
    let _one = book.account("one").unwrap();
    assert!(book.account("two").is_err());
    book.set_max_accounts(2);
    let _two = book.account("two").unwrap();
    assert!(book.account("three").is_err());
}

fn more_is_reserved_ahead_of_need(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(1, 10_000)).await.unwrap();
        // A hundredth at most is reserved, and half of that suffices until the next has come.
        for _ in 0..40 {
            for _ in 0..50 {
                account.try_spend(draw(1, 10_000)).unwrap();
            }
            settled(&store).await;
            let standing = account.standing().unwrap();
            assert!((50..=100).contains(&standing.unspent), "{standing:?}");
        }
    });
}

fn exactly_the_limit_is_spent_and_then_nobody_asks_the_store(kind: Kind) {
    for limit in [1, 7, 99, 100, 1234] {
        let (_home, store) = store(kind);
        let book = QuotaBook::new(store.clone(), 100);
        runtime().block_on(async {
            let account = book.account("acme").unwrap();
            for _ in 0..limit {
                account.spend(draw(1, limit)).await.unwrap();
            }
            let refused = NotSpent::Exhausted { used: limit };
            assert_eq!(account.spend(draw(1, limit)).await.unwrap_err(), refused);
            assert_eq!(taken(&store, &account).await, limit);
            // Also once the store is gone, because it is not needed to refuse.
            store.close().await.unwrap();
            assert_eq!(account.try_spend(draw(1, limit)).unwrap_err(), refused);
        });
    }
}

fn many_at_once_spend_the_limit_and_not_one_more(kind: Kind) {
    let (_home, store) = store(kind);
    let book = Arc::new(QuotaBook::new(store.clone(), 100));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let spent = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..32 {
            let account = book.account("acme").unwrap();
            tasks.spawn(async move {
                let mut spent = 0;
                while account.spend(draw(1, 3000)).await.is_ok() {
                    spent += 1;
                }
                spent
            });
        }
        tasks.join_all().await.into_iter().sum::<u64>()
    });
    assert_eq!(spent, 3000);
    assert_eq!(runtime.block_on(store.quota_taken("acme", period(1).begins)), Ok(3000));
}

fn a_clean_stop_is_exact_and_a_restart_goes_on_from_there(kind: Kind) {
    let (home, store) = store(kind);
    runtime().block_on(async {
        let book = QuotaBook::new(store.clone(), 100);
        let account = book.account("acme").unwrap();
        for _ in 0..123 {
            account.spend(draw(1, 10_000)).await.unwrap();
        }
        assert!(taken(&store, &account).await > 123);
        book.close().await.unwrap();
        assert_eq!(taken(&store, &account).await, 123);
        let closed = NotSpent::Unavailable(Unavailable::Closed);
        assert_eq!(account.spend(draw(1, 10_000)).await.unwrap_err(), closed);
        store.close().await.unwrap();

        let store = home.open();
        let book = QuotaBook::new(store.clone(), 100);
        let account = book.account("acme").unwrap();
        account.spend(draw(1, 10_000)).await.unwrap();
        assert_eq!(account.standing().unwrap().used, 124);
        let refused = account.spend(draw(9_877, 10_000)).await.unwrap_err();
        assert_eq!(refused, NotSpent::Exhausted { used: 124 });
        account.spend(draw(9_876, 10_000)).await.unwrap();
        store.close().await.unwrap();
    });
}

fn a_crash_strands_a_block_at_most_and_gives_nothing_back(kind: Kind) {
    let (_home, store) = store(kind);
    runtime().block_on(async {
        let limit = 10_000;
        let mut spent = 0;
        for crash in 1..=20 {
            let book = QuotaBook::new(store.clone(), 100);
            let account = book.account("acme").unwrap();
            for _ in 0..crash * 7 {
                account.spend(draw(1, limit)).await.unwrap();
                spent += 1;
            }
            settled(&store).await;
            let taken = taken(&store, &account).await;
            assert!(taken >= spent && taken - spent <= crash * block(limit, 0), "{taken} {spent}");
        }
    });
}

fn what_is_given_back_can_be_spent_again_but_not_in_another_period(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        let whole = account.spend(draw(10, 10)).await.unwrap();
        assert_eq!(whole.amount(), 10);
        assert!(account.spend(draw(1, 10)).await.is_err());
        whole.give_back();
        let again = account.spend(draw(10, 10)).await.unwrap();
        let next = Draw { period: period(2), ..draw(3, 10) };
        account.spend(next).await.unwrap();
        again.give_back();
        settled(&store).await;
        let standing = account.standing().unwrap();
        assert_eq!((standing.period, standing.used), (period(2), 3));
        // Somebody whose clock is a little behind is counted in the new period.
        account.spend(draw(7, 10)).await.unwrap();
        assert!(account.spend(draw(1, 10)).await.is_err());
    });
}

fn giving_back_much_leaves_no_more_than_a_block_to_be_stranded(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(5_000, 10_000)).await.unwrap().give_back();
        settled(&store).await;
        assert!(account.standing().unwrap().unspent <= 100);
        assert!(taken(&store, &account).await <= 100);
        account.spend(draw(10_000, 10_000)).await.unwrap();
    });
}

fn who_changes_the_plan_keeps_what_was_used(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(900, 1000)).await.unwrap();
        let refused = account.spend(draw(1, 500)).await.unwrap_err();
        assert_eq!(refused, NotSpent::Exhausted { used: 900 });
        account.spend(draw(4_100, 5_000)).await.unwrap();
        assert!(account.spend(draw(1, 5_000)).await.is_err());
    });
}

fn a_caller_that_hangs_up_while_waiting_has_spent_nothing(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 100);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        let mut hung_up = 0;
        while hung_up < 50 {
            let waiting = account.spend(draw(10, 10));
            tokio::select! {
                biased;
                // The store may be so quick that nobody waits; then there is nothing to hang up on.
                spent = waiting => spent.unwrap().give_back(),
                () = async {} => hung_up += 1,
            }
            settled(&store).await;
            assert_eq!(account.standing().unwrap().used, 0);
            book.settle_idle();
        }
        account.spend(draw(10, 10)).await.unwrap();
    });
}

fn idle_accounts_are_settled_and_make_room_for_others(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 64);
    runtime().block_on(async {
        for n in 0..2000 {
            let account = book.account(&format!("user-{n}")).unwrap();
            account.spend(draw(3, 10_000)).await.unwrap();
            settled(&store).await;
        }
        assert!(book.len() <= 64, "{}", book.len());
        book.settle_idle();
        assert_eq!(book.len(), 0);
        settled(&store).await;
        for n in 0..2000 {
            let taken = store.quota_taken(&format!("user-{n}"), period(1).begins).await.unwrap();
            assert_eq!(taken, 3, "user-{n}");
        }
        let held: Vec<_> = (0..200).map(|n| book.account(&format!("held-{n}"))).collect();
        assert!(held.iter().any(Result::is_err) && book.len() <= 64);
    });
}

fn accounts_that_were_only_looked_at_make_room_for_others(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 64);
    runtime().block_on(async {
        for n in 0..1000 {
            drop(book.account(&format!("looked-at-{n}")).unwrap());
        }
        assert!(book.len() <= 64, "{}", book.len());
        book.account("acme").unwrap().spend(draw(1, 10)).await.unwrap();
        drop(book.account("another").unwrap());
        settled(&store).await;
        book.settle_idle();
        assert_eq!(book.len(), 0);
    });
}

fn an_amount_above_the_limit_never_asks_the_store(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 64);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        let refused = account.spend(draw(11, 10)).await.unwrap_err();
        assert_eq!(refused, NotSpent::Exhausted { used: 0 });
    });
}

fn a_store_that_is_gone_is_asked_once_a_request_and_what_is_reserved_is_still_spent(kind: Kind) {
    let (_home, store) = store(kind);
    let book = QuotaBook::new(store.clone(), 64);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(1, 10_000)).await.unwrap();
        settled(&store).await;
        store.close().await.unwrap();
        let mut spent = 1;
        let refused = loop {
            match account.spend(draw(1, 10_000)).await {
                Ok(_) => spent += 1,
                Err(why) => break why,
            }
        };
        assert_eq!(refused, NotSpent::Unavailable(Unavailable::Closed));
        assert_eq!(spent, 1 + block(10_000, 0));
        assert_eq!(account.try_spend(draw(1, 10_000)).unwrap_err(), NotSpent::MustWait);
        account.spend(draw(9_000, 10_000)).await.unwrap_err();
        assert!(book.close().await.is_err());
    });
}

#[test]
fn balances_are_kept_a_week_beyond_their_period() {
    let (_folder, store) = embedded();
    let book = QuotaBook::new(store.clone(), 64);
    runtime().block_on(async {
        let account = book.account("acme").unwrap();
        account.spend(draw(10, 10)).await.unwrap();
        let week = std::time::Duration::from_secs(7 * 86_400);
        let end = period(1).ends;
        for (now, kept) in [(end, 10), (end + week, 10), (end + week * 2, 0)] {
            let tidy = Tidy { now, usage_from: Day::of(now), audit_from: now };
            assert_eq!(store.tidy(tidy).await, Ok(false));
            assert_eq!(taken(&store, &account).await, kept);
        }
    });
}

on_every_store! {
    the_first_waits_and_the_next_do_not,
    more_is_reserved_ahead_of_need,
    as_many_may_be_in_use_as_it_was_last_told,
    exactly_the_limit_is_spent_and_then_nobody_asks_the_store,
    many_at_once_spend_the_limit_and_not_one_more,
    a_clean_stop_is_exact_and_a_restart_goes_on_from_there,
    a_crash_strands_a_block_at_most_and_gives_nothing_back,
    what_is_given_back_can_be_spent_again_but_not_in_another_period,
    giving_back_much_leaves_no_more_than_a_block_to_be_stranded,
    who_changes_the_plan_keeps_what_was_used,
    a_caller_that_hangs_up_while_waiting_has_spent_nothing,
    idle_accounts_are_settled_and_make_room_for_others,
    accounts_that_were_only_looked_at_make_room_for_others,
    an_amount_above_the_limit_never_asks_the_store,
    a_store_that_is_gone_is_asked_once_a_request_and_what_is_reserved_is_still_spent,
}
