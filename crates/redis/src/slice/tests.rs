//! A slice from its grant to its end.

use super::*;

const LIFE: Duration = Duration::from_secs(1);

fn grant(holds: u64) -> Grant {
    Grant { holds, lives: LIFE, mark: 7, at: 0, left: Left { one: 0, two: 0, three: 0 } }
}

#[tokio::test(start_paused = true)]
async fn a_slice_ends_before_redis_thinks_so() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    assert!(!slice.spend(1, now));
    slice.begin(grant(10), Report::default(), 10, now);
    assert!(slice.spend(4, now));
    assert!(!slice.spend(7, now));
    assert!(slice.spend(1, now + LIFE * 98 / 100));
    assert!(!slice.spend(1, now + LIFE * 99 / 100));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_slice_is_spent_without_a_look_at_the_clock() {
    let (now, begun) = (Instant::now(), Time::from_secs(1_000_000));
    let mut slice = Slice::new(now);
    assert_eq!(slice.spend_fresh(0, begun), None);
    slice.begin(grant(10), Report::default(), 10, now);
    assert_eq!(slice.spend_fresh(1, begun), None, "nobody said when that was");
    slice.note_elsewhere((90, LIFE), now);
    slice.asked_since(begun, (LIFE, LIFE));
    assert_eq!(slice.spend_fresh(4, begun + LIFE / 4), Some((96, LIFE * 3 / 4)));
    assert_eq!(slice.spend_fresh(7, begun), None);
    assert!(!slice.is_scarce());
    assert_eq!(slice.spend_fresh(5, begun), Some((91, LIFE)));
    assert!(slice.is_scarce());
    assert_eq!(slice.spend_fresh(1, begun + LIFE / 2), None, "it may be near its end");
    assert_eq!(slice.left(now), 1);
    let told = slice.report(10, now);
    assert_eq!(told.unspent, 1);
    slice.begin(grant(10), told, 10, now);
    assert_eq!(slice.spend_fresh(1, begun), None, "that was of the slice before");
}

#[tokio::test(start_paused = true)]
async fn what_is_spent_during_a_call_is_spent_of_the_new_slice() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.begin(grant(10), Report::default(), 10, now);
    let told = slice.report(100, now);
    assert_eq!(told, Report { granted: 10, unspent: 10, mark: 7 });
    assert!(slice.spend(3, now));
    slice.begin(grant(20), told, 20, now);
    assert_eq!(slice.left(now), 17);
    assert_eq!(slice.report(100, now), Report { granted: 20, unspent: 17, mark: 7 });
    // The answer was lost: what Redis knows is unknown, so nothing more is told of it.
    assert_eq!(slice.report(100, now), Report { granted: 0, unspent: 0, mark: -1 });
    assert!(slice.spend(17, now), "but it may be spent while it lives");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_cannot_be_spent_while_redis_is_asked() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.begin(grant(10), Report::default(), 10, now);
    let told = slice.report(4, now);
    assert_eq!(told.unspent, 10);
    assert!(!slice.spend(5, now));
    assert!(slice.spend(3, now));
    slice.begin(grant(4), told, 4, now);
    assert_eq!(slice.left(now), 1);
}

#[tokio::test(start_paused = true)]
async fn what_redis_did_not_take_back_is_still_held() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.begin(grant(10), Report::default(), 10, now);
    let told = slice.report(4, now);
    assert!(slice.spend(3, now));
    slice.untell(told, 4);
    assert_eq!(slice.left(now), 7);
    assert!(!slice.is_done(now));
    assert_eq!(slice.report(0, now), Report { granted: 10, unspent: 7, mark: 7 });
    assert!(slice.is_done(now), "nothing more can be told of it");
    slice.owe(1, 1, InView::ALWAYS);
    assert!(!slice.is_done(now), "but what is owed is to be paid");
}

#[tokio::test(start_paused = true)]
async fn only_what_this_slice_spent_can_be_put_back() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.begin(grant(10), Report::default(), 10, now);
    slice.spend(6, now);
    let told = slice.report(10, now);
    slice.begin(grant(10), told, 10, now);
    slice.unspend(6, 7, now);
    assert_eq!(slice.left(now), 10);
    slice.spend(2, now);
    slice.unspend(6, 7, now);
    assert_eq!(slice.left(now), 10);
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_in_another_window_is_not_put_back() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.begin(grant(10), Report::default(), 10, now);
    slice.spend(10, now);
    let first = slice.mark();
    let told = slice.report(10, now);
    slice.begin(Grant { mark: 8, ..grant(10) }, told, 10, now);
    slice.spend(10, now);
    slice.unspend(10, first, now);
    assert_eq!(slice.left(now), 0);
    slice.unspend(10, slice.mark(), now);
    assert_eq!(slice.left(now), 10);
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_is_paid_before_anything_is_spent() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    slice.owe(15, 15, InView::ALWAYS);
    assert_eq!(slice.demand(1, LIFE, now), 16);
    slice.begin(grant(10), Report::default(), 16, now);
    assert!(!slice.spend(1, now));
    let told = slice.report(10, now);
    assert_eq!(told, Report { granted: 10, unspent: 0, mark: 7 }, "it counts as spent");
    slice.begin(grant(10), told, 10, now);
    assert_eq!(slice.left(now), 5);
    assert_eq!(slice.demand(1, LIFE, now + LIFE), 1, "nothing is owed any more");
}

#[tokio::test(start_paused = true)]
async fn demand_follows_what_was_spent_and_at_most_doubles() {
    let now = Instant::now();
    let mut slice = Slice::new(now);
    assert_eq!(slice.demand(3, LIFE, now), 3);
    slice.begin(grant(100), Report::default(), 100, now);
    slice.spend(100, now);
    assert_eq!(slice.demand(1, LIFE, now + LIFE / 10), 200);
    assert_eq!(slice.demand(1, LIFE, now + LIFE), 50);
    assert_eq!(slice.demand(70, LIFE, now + LIFE), 70);
}
