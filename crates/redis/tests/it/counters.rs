//! Strict counters on a real server's clock: what is stored, how long, and what changes it.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::{Counter, Time};
use tollgate_engine::{Limit, Period, Rate, Refusal, Verdict};
use tollgate_redis::driven::Driven;
use tollgate_redis::{Charge, Figures, Settings, Strict};

use crate::servers::{Brand, Server, on_both, run};

fn figures(limit: Result<Limit, tollgate_engine::LimitError>) -> Figures {
    Figures::of(&limit.unwrap()).unwrap()
}

/// A bucket that time does not refill while a test runs.
fn bucket(capacity: u64) -> Figures {
    figures(Limit::token_bucket(Rate::per_day(1)).burst(capacity).build())
}

fn all_kinds() -> Vec<Figures> {
    vec![
        figures(Limit::token_bucket(Rate::per_minute(70)).burst(9).build()),
        figures(Limit::leaky_bucket(Rate::per_second(2)).burst(5).paced().build()),
        figures(Limit::gcra(Rate::per_day(50)).burst(12).build()),
        figures(Limit::fixed_window(Rate::per_second(7)).build()),
        figures(Limit::sliding_window(Rate::per_hour(8)).build()),
        figures(Limit::sliding_window_log(Rate::per_minute(6)).build()),
        figures(Limit::quota(40, Period::Week, "Europe/Vienna")),
    ]
}

async fn strict(server: &Server) -> Strict {
    let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(10));
    let strict = Strict::start(settings);
    strict.up().await;
    strict
}

fn concurrent_callers_get_exactly_the_limit(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        let limit = bucket(2500);
        let callers = (0..64).map(|_| {
            let (strict, limit) = (strict.clone(), limit.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..80 {
                    let answer = strict.take(&[Charge::new("one", &limit)]).await.unwrap();
                    admitted += usize::from(answer.verdict().is_admitted());
                }
                admitted
            })
        });
        let callers: Vec<_> = callers.collect();
        let mut admitted = 0;
        for caller in callers {
            admitted += caller.await.unwrap();
        }
        assert_eq!(admitted, 2500);
    });
}

fn state_is_legible(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        let large =
            figures(Limit::token_bucket(Rate::per_second(1_000_000_000)).burst(1 << 53).build());
        let window = figures(Limit::fixed_window(Rate::per_day(100)).build());
        let charges = [Charge::new("bucket", &large), Charge::new("window", &window).cost(3)];
        let answer = strict.take(&charges).await.unwrap();
        let at = (answer.decided_at().as_nanos() / 1000).to_string();
        let bucket: HashMap<String, String> = server.ask(&["HGETALL", "bucket"]);
        assert_eq!(bucket["tokens"], ((1u64 << 53) - 1).to_string());
        assert_eq!(bucket["last_refill"], at);
        let window: HashMap<String, String> = server.ask(&["HGETALL", "window"]);
        assert_eq!(window["count"], "3");
        let start: u64 = window["window_start"].parse().unwrap();
        assert_eq!(start, at.parse::<u64>().unwrap() / 86_400_000_000 * 86_400_000_000);
    });
}

/// When a key expires, its counter equals a new one: the core says so of the moment it does.
fn keys_expire_when_they_equal_new_ones(brand: Brand) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    for figures in all_kinds() {
        let limit = figures.limit();
        let (mut counter, key) = (Counter::new(limit.clone()), limit.kind().name());
        let mut now = 1_767_225_600_000_000u64;
        let span = u64::try_from(
            counter.take(limit.capacity(), time(now)).standing.reset_after.as_micros(),
        );
        let mut counter = Counter::new(limit.clone());
        let span = span.unwrap();
        for nth in 0..60 {
            // Again and again within the span in which the expiry is not set anew, and past it.
            now += [0, 1, span / 7, span / 3, 3_000_000, span][nth % 6];
            let charges = [Charge::new(key, &figures)];
            redis::cmd("SCRIPT").arg("EXISTS").arg("x").exec(&mut connection).unwrap();
            let _: redis::Value = driven.take(&charges, now).query(&mut connection).unwrap();
            counter.take(1, time(now));
            let left: i64 = redis::cmd("PTTL").arg(key).query(&mut connection).unwrap();
            assert!(left > 0, "{key} has no expiry");
            let expiry = time(now) + Duration::from_millis(left.unsigned_abs());
            let renewed = Counter::new(limit.clone()).standing(expiry);
            assert_eq!(
                counter.standing(expiry),
                renewed,
                "{key} at {now}, {left} ms before it expires"
            );
        }
    }
}

fn time(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn no_key_is_ever_without_expiry(brand: Brand) {
    let mut server = Server::start_with(brand, &["--appendonly", "yes", "--appendfsync", "always"]);
    run(async {
        let kinds = all_kinds();
        for _ in 0..3 {
            let strict = strict(&server).await;
            let load = (0..16).map(|caller| {
                let (strict, kinds) = (strict.clone(), kinds.clone());
                tokio::spawn(async move {
                    for nth in 0..100_000 {
                        let names: Vec<String> = (0..kinds.len())
                            .map(|kind| format!("{caller}/{kind}/{}", nth % 97))
                            .collect();
                        let charges: Vec<Charge<'_>> = names
                            .iter()
                            .zip(&kinds)
                            .map(|(key, kind)| {
                                Charge::new(key, kind).strategy(tollgate_engine::Strategy::Degrade)
                            })
                            .collect();
                        let Ok(answer) = strict.take(&charges).await else { return };
                        if nth % 3 == 0 {
                            let _ = strict.give_back(&charges, &answer).await;
                        }
                    }
                })
            });
            let load: Vec<_> = load.collect();
            // Killed in the middle of writing, and started from what it had written.
            while server.ask::<usize>(&["DBSIZE"]) < 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_all_expire(&server);
            server.kill();
            for caller in load {
                caller.await.unwrap();
            }
            assert!(server.try_start());
            assert!(server.ask::<usize>(&["DBSIZE"]) > 100);
            assert_all_expire(&server);
        }
    });
}

fn assert_all_expire(server: &Server) {
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    let mut pipe = redis::pipe();
    keys.iter().for_each(|key| {
        pipe.cmd("PTTL").arg(key);
    });
    let left: Vec<i64> = pipe.query(&mut connection).unwrap();
    // -2 is a key that has expired meanwhile; -1 one that never will.
    let for_ever = keys.iter().zip(left).filter(|(_, left)| *left == -1).map(|(key, _)| key);
    assert_eq!(for_ever.collect::<Vec<_>>(), Vec::<&String>::new());
}

fn a_forgotten_script_is_loaded_and_runs_once(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        let limit = bucket(10);
        for left in (0..10).rev() {
            server.ask::<String>(&["SCRIPT", "FLUSH"]);
            let charge = [Charge::new("one", &limit)];
            let answer = strict.take(&charge).await.unwrap();
            assert_eq!(answer.decisions().next().unwrap().standing.remaining, left);
        }
        assert_eq!(strict.times_opened(), 0);
    });
}

fn peeked_given_back_and_reset(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        for figures in all_kinds() {
            let (key, capacity) = (figures.limit().kind().name(), figures.limit().capacity());
            let paced = key == "leaky_bucket";
            let peek = async || strict.peek(key, &figures, 1).await.unwrap();
            assert_eq!(peek().await.standing.remaining, capacity);
            assert_eq!(server.ask::<usize>(&["EXISTS", key]), 0, "{key}: peeking consumes nothing");
            let charges = [Charge::new(key, &figures).cost(capacity)];
            let answer = strict.take(&charges).await.unwrap();
            assert_eq!(answer.verdict(), Verdict::Admitted);
            assert!(!peek().await.is_allowed(), "{key}");
            strict.give_back(&charges, &answer).await.unwrap();
            // Windows may have turned; nothing else may have come but what was given back.
            let remaining = peek().await.standing.remaining;
            assert!(remaining == capacity || paced, "{key}: {remaining}");
            strict.take(&charges).await.unwrap();
            strict.reset(key).await.unwrap();
            assert_eq!(peek().await.standing.remaining, capacity, "{key}");
        }
        let never = strict.take(&[Charge::new("x", &bucket(5)).cost(u64::MAX)]).await.unwrap();
        assert_eq!(never.verdict(), Verdict::Refused { by: 0, refusal: Refusal::Never });
    });
}

fn new_figures_keep_what_is_left(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        let take = async |figures: &Figures, cost| {
            let answer = strict.take(&[Charge::new("one", figures).cost(cost)]).await.unwrap();
            answer.decisions().next().unwrap().standing.remaining
        };
        assert_eq!(take(&bucket(100), 30).await, 70);
        assert_eq!(take(&bucket(1000), 1).await, 69, "not filled to a higher capacity");
        assert_eq!(take(&bucket(50), 1).await, 49, "clamped to a lower one");
        let faster = figures(Limit::token_bucket(Rate::per_day(7)).burst(500).build());
        assert_eq!(take(&faster, 1).await, 48, "kept at another rate");
        let other = figures(Limit::gcra(Rate::per_day(7)).burst(500).build());
        assert_eq!(take(&other, 1).await, 499, "another algorithm starts anew");
        let window = |limit| figures(Limit::fixed_window(Rate::per_day(limit)).build());
        assert_eq!(take(&window(100), 30).await, 70);
        assert_eq!(take(&window(200), 1).await, 169, "what was counted stays counted");
        assert_eq!(take(&window(20), 1).await, 0);
        let fields: HashMap<String, String> = server.ask(&["HGETALL", "one"]);
        assert!(!fields.contains_key("tokens"), "nothing is left of the bucket: {fields:?}");
    });
}

fn a_server_in_another_period_asks_to_look_again(brand: Brand) {
    let server = Server::start(brand);
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    let quota = figures(Limit::quota(10, Period::Day, "UTC"));
    let charges = [Charge::new("quota", &quota)];
    let (day, noon) = (86_400_000_000u64, 1_767_225_600_000_000 + 43_200_000_000);
    let mut take = |now: u64, told: u64| {
        let value = driven.take_told(&charges, now, told).query(&mut connection).unwrap();
        let answer = driven.answer(&value, &charges)?;
        Some(answer.decisions().next().unwrap().standing.remaining)
    };
    assert_eq!(take(noon, noon + day), None, "the server is a day behind");
    assert_eq!(take(noon, noon - 2 * day), None, "the server is two days ahead");
    assert_eq!(take(noon, noon - day), Some(9), "in the next period already");
    assert_eq!(take(noon, noon), Some(8));
    assert_eq!(take(noon + day, noon), Some(9));
    assert_eq!(take(noon, noon), Some(8), "time that goes back stays in the later period");
}

fn a_foreign_key_is_an_error_and_no_outage(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = strict(&server).await;
        server.ask::<String>(&["SET", "taken", "1"]);
        let limit = bucket(10);
        let chain = [Charge::new("mine", &limit), Charge::new("taken", &limit)];
        let refused = strict.take(&chain).await.unwrap_err();
        assert!(refused.to_string().contains("WRONGTYPE"), "{refused}");
        assert!(!refused.may_have_run() && strict.is_up());
        assert_eq!(server.ask::<usize>(&["EXISTS", "mine"]), 0, "nothing was charged");
    });
}

on_both! {
    exactly_the_limit => concurrent_callers_get_exactly_the_limit;
    legible => state_is_legible;
    expiry_equals_new => keys_expire_when_they_equal_new_ones;
    all_expire => no_key_is_ever_without_expiry;
    forgotten_script => a_forgotten_script_is_loaded_and_runs_once;
    peek_give_back_reset => peeked_given_back_and_reset;
    new_figures => new_figures_keep_what_is_left;
    look_again => a_server_in_another_period_asks_to_look_again;
    foreign_key => a_foreign_key_is_an_error_and_no_outage;
}
