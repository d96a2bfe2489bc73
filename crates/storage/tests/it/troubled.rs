//! A store in Redis when Redis is in trouble: nothing is done twice, nothing that was acknowledged is lost, and what is wrong is
//! told in words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::Time;
use tollgate_redis::Settings;
use tollgate_storage::{
    Caller, Day, InRedis, NotSpent, OpenError, PageOf, QuotaBook, Store, StoreError, Unavailable,
    UsageQuery, UsageRecorder, Use,
};

use crate::homes::in_redis;
use crate::ports::Port;
use crate::quotas::{draw, period};
use crate::servers::{Brand, Server, on_both, run, until};
use crate::{NOW, issue, key};

fn count(recorder: &mut UsageRecorder, n: u64) {
    let caller = Caller {
        tenant: "acme",
        key: &format!("key-{}", n % 7),
        route: &format!("GET /{}", n % 3),
        plan: "pro",
    };
    recorder.count(caller, Use { refused: n.is_multiple_of(2), tokens: 2 }, NOW);
}

async fn requests(store: &Store) -> u64 {
    let rows = store.usage(UsageQuery::days(Day::of(NOW), Day::of(NOW))).await.unwrap().rows;
    rows.iter().map(|row| row.requests).sum()
}

fn nothing_is_done_twice_although_connections_break(brand: Brand) {
    let server = Arc::new(Server::start(brand));
    let is_over = Arc::new(AtomicBool::new(false));
    let killer = std::thread::spawn({
        let (server, is_over) = (Arc::clone(&server), Arc::clone(&is_over));
        move || {
            let mut connection = server.connection();
            let mut killed = 0i64;
            while !is_over.load(Relaxed) {
                killed += redis::cmd("CLIENT")
                    .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
                    .query::<i64>(&mut connection)
                    .unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            killed
        }
    });
    run(async {
        let store = loop {
            if let Ok(store) = in_redis(&server).open() {
                break store;
            }
        };
        let (mut issued, mut counted) = (0, 0);
        let mut recorder = UsageRecorder::new();
        for n in 0..150 {
            // One that was certainly not made may be tried again; one that is in doubt is seen through, and there afterwards.
            let mut was_in_doubt = false;
            loop {
                match store.commit(issue(&key("acme", n).1)).await {
                    Ok(_) => break issued += 1,
                    Err(StoreError::Unavailable(Unavailable::Failed(_))) => (),
                    // On a starved machine somebody may be told that it is in doubt.
                    Err(StoreError::Unavailable(Unavailable::InDoubt)) => was_in_doubt = true,
                    Err(StoreError::Exists { .. }) if was_in_doubt => break issued += 1,
                    Err(why) => panic!("{why}"),
                }
            }
            for _ in 0..10 {
                count(&mut recorder, n);
                counted += 1;
            }
            // What was not taken is counted again.
            let _ = recorder.flush(&store).await;
        }
        is_over.store(true, Relaxed);
        let killed = killer.join().unwrap();
        assert!(killed > 20, "the connections did break: {killed}");
        while recorder.flush(&store).await.is_err() {}
        // The last kill may have left a connection of which only the next question finds out that it is broken.
        let page = loop {
            if let Ok(page) = store.keys(None, PageOf { after: None, limit: 1000 }).await {
                break page;
            }
        };
        assert_eq!((page.rows.len(), issued), (150, 150));
        assert_eq!(requests(&store).await, counted);
    });
}

/// A partition: an attempt is given up, and its bytes go on being sent again by the system; healed, another connection brings the
/// call and those that follow it; then the old bytes arrive. They counted the usage twice.
fn a_call_that_arrives_after_later_ones_does_nothing(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let store = in_redis(&server).open().unwrap();
        let mut recorder = UsageRecorder::new();
        let mut calls = Vec::new();
        for n in 0..4 {
            server.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
            count(&mut recorder, n);
            recorder.flush(&store).await.unwrap();
            server.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
            // The bytes of the call, as a wire would bring them once more.
            type Row = (i64, i64, i64, Vec<String>, String, String);
            let rows: Vec<Row> = server.ask(&["SLOWLOG", "GET", "-1"]);
            server.ask::<String>(&["SLOWLOG", "RESET"]);
            let mut words = rows.into_iter().map(|row| row.3);
            calls.extend(
                words.find(|words| words[0] == "EVALSHA" && words.contains(&format!("key-{n}"))),
            );
        }
        assert_eq!(calls.len(), 4);
        assert_eq!(requests(&store).await, 4);
        for late in calls {
            let words: Vec<&str> = late.iter().map(String::as_str).collect();
            server.ask::<String>(&words);
            assert_eq!(requests(&store).await, 4, "{late:?}");
        }
        count(&mut recorder, 5);
        recorder.flush(&store).await.unwrap();
        assert_eq!(requests(&store).await, 5, "and what is new counts");
    });
}

fn a_killed_server_forgets_nothing_that_it_acknowledged(brand: Brand) {
    // Its file is written, and on the disk, before it answers; by default a busy disk lets it answer first.
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start_with(brand, &always);
    run(async {
        let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_millis(200));
        let store = InRedis::at(settings, "tollgate").open().unwrap();
        let book = QuotaBook::new(store.clone(), 100);
        let account = book.account("acme").unwrap();
        let (mut acknowledged, mut spent) = (Vec::new(), 0);
        for round in 0..4u64 {
            let (is_over, in_round) = (AtomicBool::new(false), AtomicU64::new(0));
            let work = async {
                for n in 0.. {
                    let (_, stored) = key("acme", round * 100_000 + n);
                    match store.commit(issue(&stored)).await {
                        Ok(_) => {
                            in_round.fetch_add(1, Relaxed);
                            acknowledged.push(stored);
                        }
                        Err(_) if is_over.load(Relaxed) => break,
                        Err(_) => (),
                    }
                    if account.spend(draw(1, 2000)).await.is_ok() {
                        spent += 1;
                    }
                }
            };
            let kill = async {
                // Under way, at another moment of it in each round, and whatever this machine has got done by then.
                let enough = 20 + 7 * round;
                let under_way = async {
                    while in_round.load(Relaxed) < enough {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_secs(30), under_way).await;
                server.kill();
                is_over.store(true, Relaxed);
            };
            tokio::join!(work, kill);
            assert!(server.try_start());
            until("it is back", || server.ask::<String>(&["PING"]) == "PONG").await;
            while store.revision().await.is_err() {}
        }
        for stored in &acknowledged {
            let mut found = store.key(stored.id.clone()).await;
            while matches!(found, Err(StoreError::Unavailable(_))) {
                found = store.key(stored.id.clone()).await;
            }
            assert_eq!(found.as_ref(), Ok(stored));
        }
        assert!(acknowledged.len() > 10, "{}", acknowledged.len());
        let mut taken = store.quota_taken("acme", period(1).begins).await;
        while matches!(taken, Err(StoreError::Unavailable(_))) {
            taken = store.quota_taken("acme", period(1).begins).await;
        }
        let taken = taken.unwrap();
        assert!(taken >= spent && taken <= 2000, "{spent} spent of {taken} taken");
    });
}

fn a_dead_server_costs_a_request_its_timeout_and_then_nothing(brand: Brand) {
    let mut server = Server::start(brand);
    run(async {
        let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_millis(50));
        let store = InRedis::at(settings, "tollgate").open().unwrap();
        let book = QuotaBook::new(store.clone(), 100);
        let account = book.account("acme").unwrap();
        while account.spend(draw(1, 10)).await.is_err() {}
        server.kill();
        for _ in 0..50 {
            let begin = tokio::time::Instant::now();
            let refused = account.spend(draw(5, 10)).await.unwrap_err();
            assert!(matches!(refused, NotSpent::Unavailable(Unavailable::Failed(_))), "{refused}");
            assert!(begin.elapsed() < Duration::from_millis(1500));
        }
        assert!(store.commit(issue(&key("acme", 1).1)).await.is_err());
        // Closing does not wait for a dead one for ever.
        let closing = tokio::time::timeout(Duration::from_secs(30), store.close());
        closing.await.unwrap().unwrap();
    });
}

/// A server that says nothing: one request finds that out, and none waits for what is given back before it.
fn a_silent_server_is_waited_for_once(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_millis(300));
        let store = InRedis::at(settings, "tollgate").open().unwrap();
        let book = QuotaBook::new(store.clone(), 100);
        let spend = async |name: &str| book.account(name).unwrap().spend(draw(1, 1000)).await;
        for name in ["given-back", "other"] {
            while spend(name).await.is_err() {}
        }
        let other = book.account("other").unwrap();
        server.ask::<String>(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        // What is reserved of the one that nobody holds is given back, and nobody answers that.
        book.settle_idle();
        assert_eq!(book.len(), 1);
        let begin = tokio::time::Instant::now();
        for _ in 0..20 {
            let refused = other.spend(draw(900, 1000)).await.unwrap_err();
            assert!(matches!(refused, NotSpent::Unavailable(_)), "{refused}");
        }
        // Twenty one after another would take three times as long, and the refund alone two seconds.
        assert!(begin.elapsed() < Duration::from_millis(1900), "{:?}", begin.elapsed());
        server.ask::<String>(&["CLIENT", "UNPAUSE"]);
        while other.spend(draw(1, 1000)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Whoever waited is told that nobody knows; the call is seen through all the same.
fn what_is_not_answered_is_in_doubt_and_seen_through(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_millis(200));
        let store = InRedis::at(settings, "tollgate").open().unwrap();
        server.ask::<String>(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        let (_, stored) = key("acme", 1);
        let in_doubt = StoreError::Unavailable(Unavailable::InDoubt);
        assert_eq!(store.commit(issue(&stored)).await, Err(in_doubt));
        server.ask::<String>(&["CLIENT", "UNPAUSE"]);
        let again = loop {
            match store.commit(issue(&stored)).await {
                Err(StoreError::Unavailable(_)) => (),
                other => break other,
            }
        };
        assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
        assert_eq!(store.key(stored.id.clone()).await.as_ref(), Ok(&stored));
    });
}

fn a_full_server_refuses_by_name_and_recovers(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let store = in_redis(&server).open().unwrap();
        let mut recorder = UsageRecorder::new();
        count(&mut recorder, 1);
        recorder.flush(&store).await.unwrap();
        server.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
        let full = StoreError::Unavailable(Unavailable::Full);
        assert_eq!(store.commit(issue(&key("acme", 1).1)).await, Err(full.clone()));
        count(&mut recorder, 1);
        assert_eq!(recorder.flush(&store).await, Err(full));
        let book = QuotaBook::new(store.clone(), 100);
        let account = book.account("acme").unwrap();
        let refused = account.spend(draw(1, 10)).await.unwrap_err();
        assert_eq!(refused, NotSpent::Unavailable(Unavailable::Full));
        // What is there can be read, by a node that starts as well.
        assert_eq!(requests(&in_redis(&server).open().unwrap()).await, 1);
        server.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
        recorder.flush(&store).await.unwrap();
        assert_eq!(requests(&store).await, 2);
        store.commit(issue(&key("acme", 1).1)).await.unwrap();
        account.spend(draw(1, 10)).await.unwrap();
    });
}

fn what_cannot_be_used_is_told_when_it_is_opened(brand: Brand) {
    let why = |place: InRedis| match place.open() {
        Err(why @ OpenError::Unreachable { .. }) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let free = Port::take();
    let nobody = Settings::new(&format!("redis://{}", free.address())).unwrap();
    let told = why(InRedis::at(nobody, "tollgate"));
    assert!(told.contains("redis.url") && told.contains("tollgate doctor"), "{told}");

    let server = Server::start(brand);
    let rules = ["ACL", "SETUSER", "weak", "on", ">secret", "~tollgate:*", "+@all", "-zadd"];
    server.ask::<String>(&rules);
    let url = format!("redis://weak:secret@127.0.0.1:{}", server.port());
    let told = why(InRedis::at(Settings::new(&url).unwrap(), "tollgate"));
    assert!(told.contains("ZADD is not possible"), "{told}");

    let port = server.port().to_string();
    let replica = Server::start_with(brand, &["--replicaof", "127.0.0.1", &port]);
    let told = why(in_redis(&replica));
    assert!(told.to_lowercase().contains("readonly"), "{told}");

    in_redis(&server).open().unwrap();
    server.ask::<i64>(&["HSET", "tollgate:{tollgate:store}:meta", "schema", "9"]);
    let newer = in_redis(&server).open().unwrap_err();
    assert!(matches!(newer, OpenError::NewerSchema { found: 9, known: 1, .. }), "{newer}");
}

fn what_is_old_is_deleted_and_nothing_else_has_an_end(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let store = in_redis(&server).open().unwrap();
        store.commit(issue(&key("acme", 1).1)).await.unwrap();
        let book = QuotaBook::new(store.clone(), 10);
        // A period of the real present lives to a week beyond its end.
        let now: u64 = server.ask::<Vec<u64>>(&["TIME"])[0];
        let period = tollgate_storage::QuotaPeriod {
            begins: Time::from_secs(now - 10),
            ends: Time::from_secs(now + 1000),
        };
        let draw = tollgate_storage::Draw { amount: 1, limit: 10, period };
        book.account("acme").unwrap().spend(draw).await.unwrap();
        let lives: i64 = server.ask(&["TTL", &format!("tollgate:quota:acme:{}", now - 10)]);
        let week = 7 * 86_400 + 1000;
        assert!((week - 60..=week).contains(&lives), "{lives}");
        let names: Vec<String> = server.ask(&["KEYS", "tollgate:{tollgate:store}:*"]);
        for name in names.iter().filter(|name| !name.contains(":writer:")) {
            assert_eq!(server.ask::<i64>(&["TTL", name]), -1, "{name}");
        }
    });
}

on_both! {
    once => nothing_is_done_twice_although_connections_break;
    late => a_call_that_arrives_after_later_ones_does_nothing;
    killed => a_killed_server_forgets_nothing_that_it_acknowledged;
    dead => a_dead_server_costs_a_request_its_timeout_and_then_nothing;
    silent => a_silent_server_is_waited_for_once;
    in_doubt => what_is_not_answered_is_in_doubt_and_seen_through;
    full => a_full_server_refuses_by_name_and_recovers;
    unusable => what_cannot_be_used_is_told_when_it_is_opened;
    ends => what_is_old_is_deleted_and_nothing_else_has_an_end;
}
