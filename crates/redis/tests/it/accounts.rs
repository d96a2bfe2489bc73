//! Accounts of hybrid counters: what they tell counts once, also after they were forgotten and begun anew.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Limit, Period, Rate};
use tollgate_redis::Figures;
use tollgate_redis::driven::{Account, Driven, News, Told};

use crate::hybrid::node_telling_every;
use crate::servers::{Brand, Server, on_both, run, until};

/// In microseconds.
pub const NOW: u64 = 1_767_225_600_000_000;

/// Nodes that tell one counter of a thousand a day what they consumed, all at the same moment unless a test moves it.
pub struct Desk {
    pub now: u64,
    connection: redis::Connection,
    driven: Driven,
    figures: Figures,
}

impl Desk {
    fn at(server: &Server) -> Desk {
        Desk::of(server, &Limit::token_bucket(Rate::per_day(1000)).build().unwrap())
    }

    pub fn of(server: &Server, limit: &Limit) -> Desk {
        let mut connection = server.connection();
        let driven = Driven::default();
        for body in driven.bodies() {
            redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
        }
        Desk { now: NOW, connection, driven, figures: Figures::of(limit).unwrap() }
    }

    /// Tells what an account has to tell.
    pub fn sync(&mut self, node: &str, account: &mut Account) -> News {
        let told = account.told();
        let answer = self.lose_answer(node, account);
        account.settle(told, &answer).unwrap()
    }

    /// The same, and something is given back before the answer comes.
    fn sync_and_give_back(&mut self, node: &str, account: &mut Account, cost: u64) -> News {
        let told = account.told();
        let answer = self.lose_answer(node, account);
        account.give_back(cost);
        account.settle(told, &answer).unwrap()
    }

    /// The same, but the node does not hear the answer.
    fn lose_answer(&mut self, node: &str, account: &mut Account) -> redis::Value {
        let cmd = self.driven.sync("alice", &self.figures, (node, account.told()), self.now);
        cmd.query(&mut self.connection).unwrap()
    }

    fn reset(&mut self) {
        let cmd = self.driven.sync("alice", &self.figures, ("a", Told::reset()), self.now);
        cmd.exec(&mut self.connection).unwrap();
    }

    fn number(&mut self, field: &str) -> i64 {
        redis::cmd("HGET").arg("alice").arg(field).query(&mut self.connection).unwrap()
    }
}

/// What was admitted in the last moments of a window and is told in the next is counted there: against callers, once, and by all.
fn told_after_the_window(brand: Brand) {
    const DAY: u64 = 86_400_000_000;
    let server = Server::start(brand);
    let mut desk = Desk::of(&server, &Limit::fixed_window(Rate::per_day(1000)).build().unwrap());
    let (mut one, mut other) = (Account::default(), Account::default());
    desk.now = NOW + DAY - 1000;
    one.consume(300);
    assert_eq!(desk.sync("one", &mut one), News::Left(700));
    assert_eq!((desk.number("count"), desk.number("window_start")), (300, NOW as i64));
    other.consume(200);
    desk.now = NOW + DAY + 1000;
    assert_eq!(desk.sync("other", &mut other), News::Left(800), "the 300 are of the window before");
    assert_eq!((desk.number("count"), desk.number("window_start")), (200, (NOW + DAY) as i64));
    // Both have as much less of the new window, and all there was is in the sum.
    assert_eq!(desk.sync("one", &mut one), News::Others(200, 800));
    assert_eq!((desk.number("count"), desk.number("total")), (200, 500));
    assert_eq!(desk.sync("other", &mut other), News::Others(0, 800));
}

/// A limit was hybrid, and its nodes made a debt. Now it is leased: whoever asks for a slice must not let the debt expire.
fn a_debt_outlives_a_lease(brand: Brand) {
    let server = Server::start(brand);
    let mut desk = Desk::at(&server);
    // Three thousand too much, and a day brings a thousand.
    for node in ["a", "b", "c", "d"] {
        let mut account = Account::default();
        account.consume(1000);
        desk.sync(node, &mut account);
    }
    assert_eq!(desk.number("tokens"), -3000);
    let in_debt: u64 = server.ask(&["PTTL", "alice"]);
    let cmd = desk.driven.lease("alice", &desk.figures, [1, 10], (0, 0, -1), NOW);
    let answer: redis::Value = cmd.query(&mut desk.connection).unwrap();
    assert_eq!(desk.driven.granted(&answer).unwrap().0, 0, "nothing is granted of a debt");
    assert_eq!(desk.number("tokens"), -3000);
    let leased: u64 = server.ask(&["PTTL", "alice"]);
    let four_days = 4 * 86_400_000;
    assert!(in_debt > four_days - 60_000 && leased > four_days - 60_000, "{in_debt}, {leased}");
    // Paid off, it lives as long as any other.
    desk.now += 3 * 86_400_000_000;
    let cmd = desk.driven.lease("alice", &desk.figures, [1, 10], (0, 0, -1), desk.now);
    cmd.exec(&mut desk.connection).unwrap();
    let paid: u64 = server.ask(&["PTTL", "alice"]);
    assert!(paid < 2 * 86_400_000, "{paid}");
}

/// A node forgets counters that rest, and its name stays the same.
fn begun_anew(brand: Brand) {
    let server = Server::start(brand);
    let mut desk = Desk::at(&server);
    let mut first = Account::default();
    first.consume(400);
    assert_eq!(desk.sync("a", &mut first), News::Left(600));
    let mut second = Account::default();
    second.consume(300);
    desk.lose_answer("a", &mut second);
    second.consume(100);
    assert_eq!(desk.sync("a", &mut second), News::Left(200));
    assert_eq!((desk.number("total"), desk.number("tokens")), (800, 200));
    // Others learn of both, and this node of the others.
    let mut other = Account::default();
    other.consume(50);
    assert_eq!(desk.sync("b", &mut other), News::Left(150));
    assert_eq!(desk.sync("a", &mut second), News::Others(50, 150));
    // However often it comes back, there is one field of it.
    for _ in 0..10 {
        let mut next = Account::default();
        next.consume(1);
        desk.sync("a", &mut next);
    }
    assert_eq!(desk.number("total"), 860);
    let fields: Vec<String> = server.ask(&["HKEYS", "alice"]);
    assert_eq!(fields.iter().filter(|field| field.starts_with("node:")).count(), 2, "{fields:?}");
}

fn forgotten_by_its_node(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(1000).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (one, of_one, rule) =
            node_telling_every(Duration::from_millis(2), &server, &limit).await;
        let id = of_one.identity("alice");
        for round in 1..=3 {
            of_one.check(&rule, id, 100).unwrap();
            assert!(one.consumed("alice", (&rule, id), &figures, 100));
            until("it is told", || {
                server.ask::<Option<i64>>(&["HGET", "alice", "total"]) == Some(100 * round)
            })
            .await;
            until("it is forgotten", || one.in_use() == 0).await;
        }
        assert_eq!(server.ask::<i64>(&["HGET", "alice", "tokens"]), 700);
        assert_eq!(of_one.peek(&rule, id).remaining, 700);
    });
}

/// Whoever comes back in debt owes what it owed.
fn debt_is_owed_once(brand: Brand) {
    const DAY: Duration = Duration::from_secs(86_400);
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let often = Duration::from_millis(2);
        let (one, of_one, rule) = node_telling_every(often, &server, &limit).await;
        let id = of_one.identity("alice");
        of_one.absorb(&rule, id, 200);
        one.consumed("alice", (&rule, id), &figures, 200);
        for _ in 0..3 {
            until("it is forgotten", || one.in_use() == 0).await;
            let owed = of_one.peek(&rule, id).reset_after;
            assert!(owed > 199 * DAY && owed <= 200 * DAY, "{owed:?}");
            one.consumed("alice", (&rule, id), &figures, 0);
        }
        assert_eq!(server.ask::<i64>(&["HGET", "alice", "total"]), 200);
    });
}

/// Whoever knew the counter before learns of it, and whoever knew none.
fn made_new(brand: Brand) {
    let server = Server::start(brand);
    let limits = [
        Limit::token_bucket(Rate::per_day(1000)).build(),
        Limit::gcra(Rate::per_day(1000)).build(),
        Limit::fixed_window(Rate::per_day(1000)).build(),
        Limit::sliding_window(Rate::per_day(1000)).build(),
        Limit::sliding_window_log(Rate::per_day(1000)).build(),
        Limit::quota(1000, Period::Month, "UTC"),
    ];
    for limit in limits {
        let limit = limit.unwrap();
        server.ask::<()>(&["FLUSHALL"]);
        let mut desk = Desk::of(&server, &limit);
        let capacity = limit.capacity() as i64;
        let (mut one, mut two) = (Account::default(), Account::default());
        one.consume(1000);
        desk.sync("a", &mut one);
        assert_eq!(desk.sync("b", &mut two), News::Left(capacity - 1000), "{limit:?}");
        desk.reset();
        assert!(server.ask::<i64>(&["PTTL", "alice"]) > 0);
        two.consume(5);
        assert_eq!(desk.sync("b", &mut two), News::Anew(capacity - 5), "{limit:?}");
        assert_eq!(desk.sync("a", &mut one), News::Anew(capacity - 5), "{limit:?}");
        assert_eq!(desk.sync("c", &mut Account::default()), News::Anew(capacity - 5));
        // That was once.
        one.consume(2);
        assert_eq!(desk.sync("a", &mut one), News::Others(0, capacity - 7));
        assert_eq!(desk.sync("b", &mut two), News::Others(2, capacity - 7));
        assert_eq!(desk.number("total"), 7);
    }
}

/// Also one that has forgotten the counter, and refuses by what it knew.
fn reset_on_one_node(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let often = Duration::from_millis(2);
        let (one, of_one, rule_one) = node_telling_every(often, &server, &limit).await;
        let (two, of_two, rule_two) = node_telling_every(often, &server, &limit).await;
        let (id_one, id_two) = (of_one.identity("alice"), of_two.identity("alice"));
        for is_forgotten in [false, true] {
            of_one.check(&rule_one, id_one, 100).unwrap();
            one.consumed("alice", (&rule_one, id_one), &figures, 100);
            // It is held meanwhile, as by requests.
            until("it is known", || {
                two.consumed("alice", (&rule_two, id_two), &figures, 0);
                of_two.peek(&rule_two, id_two).remaining == 0
            })
            .await;
            if is_forgotten {
                until("it is forgotten", || two.in_use() == 0).await;
            }
            of_one.reset(&rule_one, id_one);
            one.reset("alice", &figures).await.unwrap();
            until("all are new", || {
                two.consumed("alice", (&rule_two, id_two), &figures, 0);
                of_one.peek(&rule_one, id_one).remaining == 100
                    && of_two.peek(&rule_two, id_two).remaining == 100
            })
            .await;
        }
    });
}

/// What was told stays told, and what follows is told in full.
fn given_back(brand: Brand) {
    let server = Server::start(brand);
    let mut desk = Desk::at(&server);
    let mut account = Account::default();
    account.consume(1);
    assert_eq!(desk.sync_and_give_back("a", &mut account, 1), News::Left(999));
    account.consume(2);
    assert_eq!(desk.sync_and_give_back("a", &mut account, 2), News::Others(0, 997));
    account.consume(4);
    account.give_back(3);
    assert_eq!(desk.sync("a", &mut account), News::Others(0, 996));
    assert_eq!(desk.number("total"), 4);
    // An answer was lost, but the call has run.
    account.consume(40);
    desk.lose_answer("a", &mut account);
    account.give_back(30);
    account.consume(100);
    assert_eq!(desk.sync("a", &mut account), News::Others(0, 856));
    assert_eq!((desk.number("total"), desk.number("tokens")), (144, 856));
    // Another has not: nothing is counted that was given back.
    account.consume(40);
    account.told();
    account.give_back(30);
    assert_eq!(desk.sync("a", &mut account), News::Others(0, 846));
    assert_eq!(desk.number("total"), 154);
    account.consume(40);
    account.told();
    account.give_back(40);
    assert_eq!(desk.sync("a", &mut account), News::Others(0, 846));
    account.consume(6);
    assert_eq!(desk.sync("a", &mut account), News::Others(0, 840));
    assert_eq!((desk.number("total"), desk.number("tokens")), (160, 840));
}

/// Each start of a node has a name of its own, and a counter in steady use never expires.
fn names_of_long_ago(brand: Brand) {
    const DAY: u64 = 86_400_000_000;
    let server = Server::start(brand);
    let mut desk = Desk::at(&server);
    let (mut late, mut steady) = (Account::default(), Account::default());
    late.consume(7);
    assert_eq!(desk.sync("late", &mut late), News::Left(993));
    for day in 0..300 {
        desk.now = NOW + day * DAY;
        let mut started = Account::default();
        started.consume(1);
        desk.sync(&format!("{day}"), &mut started);
        steady.consume(1);
        desk.sync("steady", &mut steady);
    }
    let fields: Vec<String> = server.ask(&["HKEYS", "alice"]);
    assert!(fields.len() < 40, "{} fields", fields.len());
    assert!(fields.contains(&"node:steady".to_owned()) && fields.contains(&"node:299".to_owned()));
    // One that comes back is counted from where it was, and hears of the others.
    late.consume(5);
    assert_eq!(desk.sync("late", &mut late), News::Others(600, 993));
    assert_eq!(desk.sync("late", &mut late), News::Others(0, 993));
    assert_eq!(desk.number("total"), 612);
}

on_both! {
    window_edge => told_after_the_window;
    leased_debt => a_debt_outlives_a_lease;
    names => names_of_long_ago;
    reset => made_new;
    reset_elsewhere => reset_on_one_node;
    debt_once => debt_is_owed_once;
    give_back => given_back;
    anew => begun_anew;
    forgotten => forgotten_by_its_node;
}
