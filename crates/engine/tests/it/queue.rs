//! Waiting in line, under paused time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::Instant;
use tollgate_engine::{
    Arrival, Charge, Clock, Limit, Limiter, Patience, Queue, QueueRefusal, Rate, Refusal, Rule,
    Time, Waiting,
};

/// The runtime's own time, which stands still while anything can run.
#[derive(Clone, Copy)]
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Time {
        Time::from_secs(1_767_225_600) + self.0.elapsed()
    }
}

/// A counter, the queue before it, and who passed when.
struct Line {
    limiter: Limiter<PausedClock>,
    rule: Arc<Rule>,
    queue: Queue,
    passed: RefCell<Vec<(String, u128)>>,
    begin: Instant,
}

impl Line {
    fn new(limit: Limit, max_wait: Duration, max_depth: usize) -> Rc<Line> {
        let begin = Instant::now();
        let limiter = Limiter::with_clock(PausedClock(begin), 1_000);
        let rule = limiter.define("shared", limit);
        let queue = Queue::new(max_wait, max_depth);
        Rc::new(Line { limiter, rule, queue, passed: RefCell::default(), begin })
    }

    /// Ten a second, one at a time.
    fn ten_a_second(max_wait: Duration, max_depth: usize) -> Rc<Line> {
        let limit = Limit::token_bucket(Rate::per_second(10)).burst(1).build().unwrap();
        Line::new(limit, max_wait, max_depth)
    }

    async fn request(self: Rc<Line>, tenant: &str, name: String) -> Result<(), QueueRefusal> {
        let id = self.limiter.identity("everybody");
        let check = |as_of| self.limiter.check_at(&self.rule, id, 1, as_of);
        let attempt = |as_of| check(as_of).map_err(Refusal::retry_after);
        let behind = |ahead| self.limiter.wait_behind(Charge::new(&self.rule, id), ahead);
        let request = Waiting { lane: self.limiter.identity(tenant), cost: 1 };
        self.queue.pass(self.limiter.clock(), request, behind, attempt).await?;
        self.passed.borrow_mut().push((name, self.begin.elapsed().as_millis()));
        Ok(())
    }

    fn order(&self) -> Vec<String> {
        self.passed.borrow().iter().map(|(name, _)| name.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn they_pass_in_order_of_arrival_exactly_when_they_may() {
    let line = Line::ten_a_second(Duration::from_secs(1), 100);
    let local = LocalSet::new();
    for n in 0..8 {
        local.spawn_local(Rc::clone(&line).request("acme", format!("{n}")));
    }
    local.await;
    let expected: Vec<_> = (0..8).map(|n| (format!("{n}"), n * 100)).collect();
    assert_eq!(*line.passed.borrow(), expected);
    assert!(line.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leaky_bucket_releases_evenly_however_large_it_is() {
    let limit = Limit::leaky_bucket(Rate::per_second(10)).burst(50).paced().build().unwrap();
    let line = Line::new(limit, Duration::from_secs(5), 100);
    let local = LocalSet::new();
    for n in 0..20 {
        local.spawn_local(Rc::clone(&line).request("acme", format!("{n}")));
    }
    local.await;
    let times: Vec<u128> = line.passed.borrow().iter().map(|(_, at)| *at).collect();
    assert_eq!(times, (0..20).map(|n| n * 100).collect::<Vec<_>>());
}

/// The runtime's timers wake at whole milliseconds, and this limit releases five in each.
#[tokio::test(start_paused = true)]
async fn a_leaky_bucket_keeps_its_pace_though_everybody_wakes_late() {
    const RATE: u128 = 5_000;
    const LATE_US: u128 = 1_000;
    let limit = Limit::leaky_bucket(Rate::per_second(5_000)).burst(3_000).paced().build().unwrap();
    let line = Line::new(limit, Duration::from_secs(5), 3_000);
    let local = LocalSet::new();
    let passed = Rc::new(RefCell::new(Vec::new()));
    for n in 0..2_000 {
        let (line, passed) = (Rc::clone(&line), Rc::clone(&passed));
        local.spawn_local(async move {
            let begin = line.begin;
            line.request("acme", format!("{n}")).await.unwrap();
            passed.borrow_mut().push(begin.elapsed().as_micros());
        });
    }
    local.await;
    let passed = passed.borrow();
    // The last one's turn is 1,999 fifths of a millisecond after the first.
    assert!(passed.last().is_some_and(|at| (399_800..402_000).contains(at)), "{passed:?}");
    for (i, from) in passed.iter().enumerate() {
        for (n, to) in (1..).zip(&passed[i..]) {
            assert!((n - 1) * 1_000_000 <= RATE * (to - from + LATE_US), "{n} from {from} to {to}");
        }
    }
}

/// What would have passed during a long stop is lost: only as much comes together as a few milliseconds are worth.
#[tokio::test(start_paused = true)]
async fn after_a_long_stop_only_little_passes_together() {
    let limit = Limit::leaky_bucket(Rate::per_second(5_000)).burst(3_000).paced().build().unwrap();
    let line = Line::new(limit, Duration::from_secs(60), 3_000);
    let local = LocalSet::new();
    for n in 0..1_000 {
        local.spawn_local(Rc::clone(&line).request("acme", format!("{n}")));
    }
    local
        .run_until(async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        })
        .await;
    let together = line.passed.borrow().iter().filter(|(_, at)| *at >= 1_000).count();
    assert!((1..=5 * 12).contains(&together), "{together}");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_a_thousand_waiting_costs_another_one_turn() {
    let line = Line::ten_a_second(Duration::from_secs(1_000), 1_000);
    let local = LocalSet::new();
    for n in 0..1_000 {
        local.spawn_local(Rc::clone(&line).request("crowd", format!("crowd {n}")));
    }
    let other = Rc::clone(&line);
    local.spawn_local(async move {
        tokio::time::sleep(Duration::from_millis(250)).await;
        other.request("single", "single".to_owned()).await
    });
    local
        .run_until(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
        })
        .await;
    // It came at 250 ms; the turn at 300 ms was already another's, the next one is its own.
    let at = line.passed.borrow().iter().find(|(name, _)| name == "single").map(|(_, at)| *at);
    assert_eq!(at, Some(400));
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_and_each_keeps_its_order() {
    let line = Line::ten_a_second(Duration::from_secs(100), 100);
    let local = LocalSet::new();
    for name in ["a0", "a1", "a2", "a3", "b0", "b1", "c0"] {
        local.spawn_local(Rc::clone(&line).request(&name[..1], name.to_owned()));
    }
    local.await;
    // a0 found nobody waiting and passed at once.
    assert_eq!(line.order(), ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_although_there_are_tokens() {
    let limit = Limit::token_bucket(Rate::per_second(10)).burst(2).build().unwrap();
    let line = Line::new(limit, Duration::from_secs(100), 100);
    let local = LocalSet::new();
    for n in 0..4 {
        local.spawn_local(Rc::clone(&line).request("acme", format!("{n}")));
    }
    let late = Rc::clone(&line);
    local.spawn_local(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        late.request("acme", "late".to_owned()).await
    });
    local.await;
    assert_eq!(line.order(), ["0", "1", "2", "3", "late"]);
}

/// It has waited in another queue meanwhile.
#[tokio::test(start_paused = true)]
async fn who_joins_late_goes_before_those_who_arrived_later_but_takes_nobodys_turn() {
    let queue = Queue::new(Duration::MAX, usize::MAX);
    let limiter = Limiter::with_clock(PausedClock(Instant::now()), 10);
    let lane = limiter.identity("acme");
    let arrivals = [(); 4].map(|()| Arrival::now());
    let order = RefCell::new(Vec::new());
    let wait = async |nth: usize| {
        let until = Instant::now() + Duration::from_secs(1);
        let patience = Patience { arrival: arrivals[nth], until, max_depth: 10 };
        let turn = queue.turn(patience, Waiting { lane, cost: 1 }, |_| None).await.unwrap();
        // Those that follow join now.
        tokio::task::yield_now().await;
        let earlier = arrivals.map(|arrival| queue.has_earlier_than(arrival));
        order.borrow_mut().push((nth, earlier));
        turn.served(limiter.clock().now());
    };
    tokio::join!(wait(1), wait(3), wait(0), wait(2));
    let expected = [
        (1, [false, true, true, true]),
        (0, [false, true, true, true]),
        (2, [false, false, false, true]),
        (3, [false, false, false, false]),
    ];
    assert_eq!(*order.borrow(), expected);
}

#[tokio::test(start_paused = true)]
async fn at_most_so_many_wait_in_a_lane() {
    let line = Line::ten_a_second(Duration::from_secs(100), 3);
    let local = LocalSet::new();
    let mut waiting = Vec::new();
    for n in 0..6 {
        waiting.push(local.spawn_local(Rc::clone(&line).request("acme", format!("{n}"))));
    }
    let other = local.spawn_local(Rc::clone(&line).request("other", "other".to_owned()));
    local.await;
    let full = Err(QueueRefusal::Full);
    let mut results = Vec::new();
    for task in waiting {
        results.push(task.await.unwrap());
    }
    assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(()), full, full]);
    assert_eq!(other.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_wait_known_to_be_too_long_is_refused_at_once() {
    let line = Line::ten_a_second(Duration::from_millis(350), 100);
    let local = LocalSet::new();
    for n in 0..4 {
        local.spawn_local(Rc::clone(&line).request("acme", format!("{n}")));
    }
    let late = Rc::clone(&line);
    let refused = local.spawn_local(async move {
        let result = Rc::clone(&late).request("acme", "late".to_owned()).await;
        (result, late.begin.elapsed())
    });
    local.await;
    let (result, after) = refused.await.unwrap();
    assert_eq!(result, Err(QueueRefusal::TooLong(Duration::from_millis(400))));
    assert_eq!(after, Duration::ZERO);
    assert_eq!(line.order(), ["0", "1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_frees_its_place_first_or_last() {
    let line = Line::ten_a_second(Duration::from_secs(100), 4);
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for n in 0..5 {
        tasks.push(local.spawn_local(Rc::clone(&line).request("acme", format!("{n}"))));
    }
    let again = Rc::clone(&line);
    local
        .run_until(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(again.queue.len(), 4);
            // 1 has the turn and sleeps for its token, 3 stands in line.
            tasks[1].abort();
            tasks[3].abort();
            tokio::task::yield_now().await;
            assert_eq!(again.queue.len(), 2);
            again.request("acme", "new".to_owned()).await.unwrap();
        })
        .await;
    let expected = [("0", 0), ("2", 100), ("4", 200), ("new", 300)];
    let expected: Vec<_> = expected.iter().map(|(n, at)| ((*n).to_owned(), *at)).collect();
    assert_eq!(*line.passed.borrow(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_can_never_pass_does_not_wait() {
    let line = Line::ten_a_second(Duration::from_secs(1), 4);
    let id = line.limiter.identity("everybody");
    let attempt = |_| line.limiter.check(&line.rule, id, 2).map_err(Refusal::retry_after);
    let request = Waiting { lane: id, cost: 2 };
    let result = line.queue.pass(line.limiter.clock(), request, |_| None, attempt).await;
    assert_eq!(result, Err(QueueRefusal::Refused));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_it_may_even_if_nobody_knew() {
    let line = Line::ten_a_second(Duration::from_millis(250), 100);
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let line = Rc::clone(&line);
        tasks.push(local.spawn_local(async move {
            let id = line.limiter.identity("everybody");
            let check = |as_of| line.limiter.check_at(&line.rule, id, 1, as_of);
            let attempt = |as_of| check(as_of).map_err(Refusal::retry_after);
            let request = Waiting { lane: id, cost: 1 };
            line.queue
                .pass(line.limiter.clock(), request, |_| None, attempt)
                .await
                .map(|()| line.begin.elapsed())
        }));
    }
    local.await;
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    assert_eq!(results[..3], [0, 100, 200].map(|ms| Ok(Duration::from_millis(ms))));
    assert!(results[3..].iter().all(|r| matches!(r, Err(QueueRefusal::TooLong(_)))));
}

#[tokio::test(start_paused = true)]
async fn whoever_may_wait_for_ever_does() {
    let line = Line::ten_a_second(Duration::MAX, 10);
    for name in ["first", "second"] {
        Rc::clone(&line).request("acme", name.to_owned()).await.unwrap();
    }
    assert_eq!(line.order(), ["first", "second"]);
}

/// Costs that add up to more than there are numbers are a long wait, not a fault.
#[tokio::test(start_paused = true)]
async fn costs_of_any_size_may_wait_in_one_lane() {
    let queue = Queue::new(Duration::from_secs(1), 10);
    let limiter = Limiter::with_clock(PausedClock(Instant::now()), 10);
    let lane = limiter.identity("acme");
    let local = LocalSet::new();
    local
        .run_until(async {
            let queue = Rc::new(queue);
            for _ in 0..2 {
                let (queue, clock) = (Rc::clone(&queue), *limiter.clock());
                tokio::task::spawn_local(async move {
                    let request = Waiting { lane, cost: u64::MAX };
                    let never = |_| Err::<(), _>(Some(Duration::from_millis(500)));
                    queue.pass(&clock, request, |_| None, never).await
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(queue.len(), 2);
            let request = Waiting { lane, cost: 1 };
            let behind = |ahead| (ahead == u64::MAX).then_some(Duration::from_secs(9));
            let refused = queue.pass(limiter.clock(), request, behind, |_| Ok(())).await;
            assert_eq!(refused, Err(QueueRefusal::TooLong(Duration::from_secs(9))));
        })
        .await;
}
