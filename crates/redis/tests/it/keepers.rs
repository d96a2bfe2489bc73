//! Counters of a gate through slow servers, cut wires and outages that come again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_policy::shapes::{Consistency, Fallback};

use crate::gated::{Counts, KEY, Node, TERMS, Terms, is_admitted, tokens};
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, calls, on_both, run, until};

/// A server that answers later than callers wait is not let in again while it is slow, and however often it comes and
/// goes, nobody is granted anything twice.
fn a_slow_server_grants_no_share_twice(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let terms = Terms { timeout: Duration::from_millis(300), ..TERMS };
        let node = Node::start(&proxy.url(), terms).await;
        let mut admitted = node.drain(1).await;
        proxy.delay(Duration::from_millis(350));
        while node.shared.state().is_up {
            admitted += node.drain(1).await;
        }
        // Long enough to connect and load all scripts several times.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(8) {
            admitted += node.drain(1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(admitted >= 90, "the share is granted: {admitted}");
        assert!(admitted <= 100, "{admitted} of 100");
        proxy.delay(Duration::ZERO);
        node.up().await;
        until("it is told", || tokens(&server).is_some_and(|left| left <= 0)).await;
        admitted += node.drain(20).await;
        // A second outage of the same counter.
        proxy.cut();
        while node.shared.state().is_up {
            admitted += node.drain(1).await;
        }
        admitted += node.drain(50).await;
        assert!(admitted <= 100, "{admitted} of 100 after a second outage");
    });
}

/// Outages that follow one another without a word from Redis in between go on with the same share.
fn many_short_outages_are_one(brand: Brand) {
    for consistency in [Consistency::Strict, Consistency::Lease] {
        // A server of its own: the node before may say once more that it lives.
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let node = Node::start(&proxy.url(), Terms { consistency, ..TERMS }).await;
            let mut admitted = 0;
            for _ in 0..3 {
                proxy.cut();
                node.down().await;
                admitted += node.drain(150).await;
                proxy.mend();
                node.up().await;
            }
            assert_eq!(admitted, 100, "{consistency:?}");
        });
    }
}

/// Redis is there, but takes nothing: what is admitted meanwhile is told when it does.
fn what_redis_refused_to_take_is_told_later(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let node = Node::start(&server.url(), TERMS).await;
        server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(node.drain(30).await, 30);
        until("it was tried", || {
            let stats: String = server.ask(&["INFO", "errorstats"]);
            let line = stats.lines().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
            line.is_some_and(|count| count.trim().parse::<u64>().unwrap() > 32)
        })
        .await;
        assert_eq!(node.drain(10).await, 10);
        server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        until("it is told", || tokens(&server) == Some(60)).await;
        assert_eq!(node.drain(100).await, 60);
    });
}

/// The second outage begins before all of the first was told: of some of it the answer is lost, some was never sent. All that
/// either has admitted is charged, and nothing twice.
fn what_could_not_be_told_in_time_is_told_later(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let node = Node::start(&proxy.url(), TERMS).await;
        let names: Vec<String> = (0..400).map(|nth| format!("many{nth}")).collect();
        let admit = async |cost| {
            for (nth, name) in names.iter().enumerate() {
                let counter = node.counter_of(name, (nth as u128) << 64 | 7);
                assert!(is_admitted(node.ask_for(&counter, cost).await));
            }
        };
        let how_many_have = |tokens| {
            let mut connection = server.connection();
            let mut pipeline = redis::pipe();
            for name in &names {
                pipeline.hget(format!("tollgate:ratelimit:{name}"), "tokens");
            }
            let left: Vec<Option<i64>> = pipeline.query(&mut connection).unwrap();
            left.iter().filter(|left| **left == Some(tokens)).count()
        };
        proxy.cut();
        node.down().await;
        admit(3).await;
        proxy.delay(Duration::from_millis(100));
        proxy.mend();
        node.up().await;
        until("some of it has arrived", || how_many_have(97) > 0).await;
        proxy.cut();
        node.down().await;
        admit(2).await;
        proxy.delay(Duration::ZERO);
        proxy.mend();
        until("all is told", || how_many_have(95) == names.len()).await;
        // Also with the last word that there is.
        assert_eq!(node.shared.close().await, 0);
        assert_eq!(how_many_have(95), names.len(), "once");
    });
}

/// What a node owes of a leased counter it pays although nobody asks for that counter again.
fn a_debt_is_paid_before_a_slice_is_returned(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let terms = Terms { consistency: Consistency::Lease, ..TERMS };
        let node = Node::start(&proxy.url(), terms).await;
        // All ten at once: nothing is asked for ahead, so no grant is lost with the connection.
        assert!(is_admitted(node.ask_for(&node.counter(), 10).await));
        proxy.cut();
        node.down().await;
        let admitted = 10 + node.drain(60).await;
        assert!(admitted > 50, "{admitted}");
        proxy.mend();
        node.up().await;
        assert_eq!(node.shared.close().await, 0);
        assert_eq!(tokens(&server), Some(100 - admitted as i64));
    });
}

/// Of a counter that is used up, one asks for all who wait.
fn a_refusal_is_everybodys_who_waits(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let terms = Terms { consistency: Consistency::Lease, ..TERMS };
        let node = Arc::new(Node::start(&proxy.url(), terms).await);
        assert_eq!(node.drain(200).await, 100);
        proxy.delay(Duration::from_millis(100));
        let before = calls(&server);
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let node = Arc::clone(&node);
                tokio::spawn(async move { node.is_admitted().await })
            })
            .collect();
        for caller in callers {
            assert!(!caller.await.unwrap());
        }
        let asked = calls(&server) - before;
        assert!(asked < 32, "{asked} calls for 64 refusals");
    });
}

/// However many wait for one another, each waits no longer than `timeout_ms`.
fn nobody_waits_longer_than_the_timeout(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let timeout = Duration::from_secs(1);
        let terms = Terms { consistency: Consistency::Lease, timeout, ..TERMS };
        let node = Arc::new(Node::start(&proxy.url(), terms).await);
        assert_eq!(node.drain(200).await, 100);
        proxy.delay(Duration::from_millis(400));
        let begin = Instant::now();
        // Each asks for less than the one before it, so that no answer is another one's too.
        let callers: Vec<_> = (1..=64)
            .rev()
            .map(|cost| {
                let node = Arc::clone(&node);
                tokio::spawn(async move { node.ask_for(&node.counter(), cost).await })
            })
            .collect();
        for caller in callers {
            assert!(!is_admitted(caller.await.unwrap()));
        }
        // One after another it would be 64 · 400 ms.
        assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    });
}

/// A caller who hangs up while Redis decides is not charged.
fn whoever_hangs_up_is_not_charged(brand: Brand) {
    for consistency in [Consistency::Strict, Consistency::Lease] {
        // A server of its own: the node before may say once more that it lives.
        let server = Server::start(brand);
        let proxy = Proxy::to(server.port());
        run(async {
            let node = Node::start(&proxy.url(), Terms { consistency, ..TERMS }).await;
            let node = Arc::new(node);
            proxy.delay(Duration::from_millis(500));
            let caller = {
                let node = Arc::clone(&node);
                tokio::spawn(async move { node.ask_for(&node.counter(), 40).await })
            };
            until("Redis has charged it", || tokens(&server) == Some(60)).await;
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            proxy.delay(Duration::ZERO);
            // A part of the last token may be missing, which time has paid off when it is next looked at.
            let held = || server.ask::<Option<i64>>(&["HGET", KEY, "leased"]).unwrap_or(0);
            until("it is given back, or the node's", || tokens(&server).unwrap() + held() >= 99)
                .await;
            assert_eq!(node.drain(150).await, 100, "{consistency:?}");
        });
    }
}

/// More counters than a node may hold are counted all the same.
fn counters_that_cannot_be_held_are_counted(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let consistency = Consistency::Lease;
        let node = Node::start(&server.url(), Terms { consistency, max_keys: 1, ..TERMS }).await;
        let held = node.counter_of("another", 0);
        assert!(is_admitted(node.ask_for(&held, 1).await));
        assert_eq!(node.drain(150).await, 100);
        until("what was leased is returned", || {
            server.ask::<Option<u64>>(&["HGET", KEY, "leased"]) == Some(0)
        })
        .await;
    });
}

/// As many slices as there may be are returned, whatever waits for Redis at once.
fn every_slice_is_returned(brand: Brand) {
    let server = Server::start(brand);
    // On one thread, as the gateway has it: nothing is sent before all that is handed in at once waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A day's slices do not end before all are taken, however long that takes.
        let (counts, consistency) = (Counts::Window, Consistency::Lease);
        let terms = Terms { counts, consistency, ..TERMS };
        let node = Arc::new(Node::start(&server.url(), terms).await);
        let all = 17_000u128;
        let takers: Vec<_> = (0..64)
            .map(|part| {
                let node = Arc::clone(&node);
                tokio::spawn(async move {
                    for nth in (part..all).step_by(64) {
                        let counter = node.counter_of(&format!("n{nth}"), nth << 64);
                        assert!(is_admitted(node.ask_for(&counter, 1).await));
                    }
                })
            })
            .collect();
        for taker in takers {
            taker.await.unwrap();
        }
        assert_eq!(node.shared.close().await, 0);
        let counted =
            "local sum = 0 for _, key in ipairs(redis.call('KEYS', 'tollgate:ratelimit:*')) do
            sum = sum + redis.call('HGET', key, 'count') end return sum";
        assert_eq!(server.ask::<u128>(&["EVAL", counted, "0"]), all, "one of each is spent");
    });
}

/// With `fail_closed` nobody is admitted whom the limit does not allow, also by a node that is cut off.
fn a_partition_admits_nothing_more(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let fallback = Fallback::FailClosed;
        let terms = Terms { consistency: Consistency::Lease, fallback, capacity: 400, ..TERMS };
        let cut_off = Node::start(&proxy.url(), terms).await;
        let other = Node::start(&server.url(), terms).await;
        let mut admitted = cut_off.drain(100).await + other.drain(50).await;
        assert_eq!(admitted, 150);
        proxy.cut();
        cut_off.down().await;
        // It spends what it holds and no more, while the other one takes all that is left.
        admitted += cut_off.drain(400).await;
        assert!(cut_off.shared.state().fallbacks > 0);
        admitted += other.drain(500).await;
        assert!(admitted <= 400, "{admitted} while it was cut off");
        proxy.mend();
        cut_off.up().await;
        admitted += cut_off.drain(200).await;
        admitted += other.drain(200).await;
        assert!((380..=400).contains(&admitted), "{admitted} of 400");
    });
}

/// With `local_only` each node that is cut off has its share besides, and what it holds; the one that is not has the limit.
fn cut_off_nodes_have_a_share_each(brand: Brand) {
    let server = Server::start(brand);
    let proxies = [Proxy::to(server.port()), Proxy::to(server.port())];
    run(async {
        let terms = Terms { consistency: Consistency::Lease, capacity: 300, ..TERMS };
        let cut_off = [
            Node::start(&proxies[0].url(), terms).await,
            Node::start(&proxies[1].url(), terms).await,
        ];
        let other = Node::start(&server.url(), terms).await;
        until("they know of one another", || {
            cut_off.iter().chain([&other]).all(|node| node.shared.state().nodes == 3)
        })
        .await;
        let mut admitted = cut_off[0].drain(1).await + cut_off[1].drain(1).await;
        for (proxy, node) in proxies.iter().zip(&cut_off) {
            proxy.cut();
            node.down().await;
        }
        let leased = || {
            let held = |field| server.ask::<Option<u64>>(&["HGET", KEY, field]).unwrap_or(0);
            held("leased") + held("leased_before")
        };
        let held = leased();
        let mut beside = 0;
        for node in &cut_off {
            let alone = node.drain(300).await;
            assert!(alone >= 90, "its share is granted: {alone}");
            beside += alone;
        }
        assert!(beside <= 200 + held, "{beside} with slices of {held}, a share each of 100");
        admitted += beside + other.drain(400).await;
        assert!(admitted <= 300 + 200, "{admitted}: the limit, and a share each");
        // It is a debt: when they are back, nobody is granted what comes before that is paid.
        proxies.iter().for_each(Proxy::mend);
        for node in &cut_off {
            node.up().await;
            assert_eq!(node.drain(100).await, 0);
        }
        assert_eq!(other.drain(100).await, 0);
    });
}

/// A leased quota, under the largest of its plans.
const QUOTA: Terms =
    Terms { consistency: Consistency::Lease, counts: Counts::Quota, capacity: 1000, ..TERMS };

/// A tenant's quota is one, under whichever of its plans it is asked for: so a node that is cut off has one share of it.
fn a_quota_of_two_plans_has_one_share(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let one = Node::start(&proxy.url(), QUOTA).await;
        let other = one.reloaded(Terms { capacity: 900, ..QUOTA });
        for plan in [&one, &other] {
            assert!(is_admitted(plan.ask_for(&plan.counter(), 250).await));
        }
        proxy.cut();
        one.down().await;
        let of_one = one.drain(1000).await;
        assert!(of_one >= 400, "{of_one}");
        let admitted = 500 + of_one + other.drain(1000).await;
        assert!(admitted <= 1000, "{admitted} of 1000");
    });
}

/// A plan that has nothing left says nothing of how much another one has, and owes nothing that was admitted under that.
fn a_used_up_plan_grants_and_owes_nothing(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let large = Node::start(&proxy.url(), QUOTA).await;
        let small = large.reloaded(Terms { capacity: 100, ..QUOTA });
        assert!(is_admitted(large.ask_for(&large.counter(), 900).await));
        assert_eq!(small.drain(1).await, 0);
        proxy.cut();
        large.down().await;
        assert_eq!(small.drain(3).await, 0);
        let admitted = 900 + large.drain(500).await;
        assert!((950..=1000).contains(&admitted), "{admitted} of 1000");
        proxy.mend();
        large.up().await;
        until("it is told", || server.ask::<Option<u64>>(&["HGET", KEY, "count"]) == Some(1000))
            .await;
        assert_eq!(large.drain(200).await + admitted, 1000);
        assert_eq!(large.shared.close().await, 0);
    });
}

/// Each node of a hybrid counter knows what all of them have left. In an outage they share that, and not the limit anew.
fn hybrid_nodes_share_what_is_left(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, ..TERMS };
        let nodes =
            [Node::start(&proxy.url(), terms).await, Node::start(&proxy.url(), terms).await];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        for node in &nodes {
            node.hears_of("one", 1).await;
        }
        assert_eq!((nodes[0].drain(59).await, nodes[1].drain(1).await), (59, 1));
        until("all know it", || nodes.iter().all(|node| node.left() == 40)).await;
        let mut admitted = 0;
        for _ in 0..3 {
            proxy.cut();
            for node in &nodes {
                node.down().await;
                admitted += node.drain(100).await;
            }
            proxy.mend();
            for node in &nodes {
                node.up().await;
            }
        }
        assert_eq!(admitted, 40);
    });
}

/// What is less than there are nodes is still everybody's where nothing of it was used.
fn a_new_hybrid_counter_has_its_share(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let terms = Terms { consistency: Consistency::Hybrid, capacity: 1, ..TERMS };
        let nodes =
            [Node::start(&proxy.url(), terms).await, Node::start(&proxy.url(), terms).await];
        until("they know of one another", || {
            nodes.iter().all(|node| node.shared.state().nodes == 2)
        })
        .await;
        proxy.cut();
        for node in &nodes {
            node.down().await;
            assert_eq!(node.drain(5).await, 1);
        }
    });
}

on_both! {
    cut_off_shares => cut_off_nodes_have_a_share_each;
    hybrid_new => a_new_hybrid_counter_has_its_share;
    hybrid_share => hybrid_nodes_share_what_is_left;
    slow => a_slow_server_grants_no_share_twice;
    used_up_plan => a_used_up_plan_grants_and_owes_nothing;
    two_plans => a_quota_of_two_plans_has_one_share;
    short_outages => many_short_outages_are_one;
    refusing => what_redis_refused_to_take_is_told_later;
    told_late => what_could_not_be_told_in_time_is_told_later;
    debt => a_debt_is_paid_before_a_slice_is_returned;
    one_refusal => a_refusal_is_everybodys_who_waits;
    one_wait => nobody_waits_longer_than_the_timeout;
    hung_up => whoever_hangs_up_is_not_charged;
    too_many => counters_that_cannot_be_held_are_counted;
    all_returned => every_slice_is_returned;
    partition => a_partition_admits_nothing_more;
}
