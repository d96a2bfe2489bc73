//! Nodes that decide by themselves exceed the limit by no more than the others admit in 2τ + d, and never twice.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{FakeClock, Limit, Limiter, Rate, Rule, SystemClock, Time};
use tollgate_redis::driven::{Account, Driven, Told};
use tollgate_redis::{Figures, Hybrid, Settings, Strict};

use crate::servers::{Brand, Server, on_both, run, until};

/// Milliseconds of simulated time.
const TAU: u64 = 100;
const TRIP: u64 = 6;
const LENGTH: u64 = 6000;
const BEGIN: u64 = 1_767_225_600_000;

const RATE: u64 = 400;
const CAPACITY: u64 = 300;

/// When nodes talk, relative to one another, and when they are asked.
#[derive(Clone, Copy, Debug)]
enum Phases {
    /// All talk at the same moment and are asked all the time.
    Together,
    /// They talk one after another and are asked all the time.
    Spread,
    /// Each is asked for a burst just after it has spoken, so that it is known as late as can be.
    JustMissed,
    /// All rest until their buckets are full, then are asked for everything at once.
    Ambush,
    /// One is asked for half of the time. Each of the others is asked for a burst, for the first time or after a long rest.
    Newcomers,
    /// One uses most of the rate. Each of the others is asked for a burst again and again when it has just begun to rest.
    ShortRests,
}

const ALL_PHASES: [Phases; 6] = [
    Phases::Together,
    Phases::Spread,
    Phases::JustMissed,
    Phases::Ambush,
    Phases::Newcomers,
    Phases::ShortRests,
];

/// A node as `rounds.rs` has it: it tells every τ, not at all where nothing happens, and at once after that. Who asks for a counter
/// that is new or has rested waits for the answer.
struct Simulated {
    limiter: Limiter<FakeClock>,
    rule: Arc<Rule>,
    account: Account,
    /// When it speaks next, and when it last did.
    due: u64,
    spoke: u64,
    /// When it last heard something.
    heard: u64,
    told: Option<Told>,
    answer: Option<redis::Value>,
    /// Rounds in which nothing was consumed; whether anything was since it spoke, and before.
    idle: u32,
    has_consumed: bool,
    tells_something: bool,
    /// Whether it rested when it spoke.
    was_resting: bool,
    fresh_until: u64,
    /// Requests that wait for the answer.
    waiting: u64,
}

const RESTING: u32 = 4;

impl Simulated {
    fn new(clock: &FakeClock, limit: &Limit, due: u64) -> Simulated {
        let limiter = Limiter::with_clock(clock.clone(), 1000);
        let rule = limiter.define("user", limit.clone());
        let (account, idle) = (Account::default(), RESTING);
        let (spoke, heard, told, answer) = (0, 0, None, None);
        let (has_consumed, tells_something, was_resting) = (false, false, true);
        let (fresh_until, waiting) = (0, 0);
        Simulated {
            limiter,
            rule,
            account,
            due,
            spoke,
            heard,
            told,
            answer,
            idle,
            has_consumed,
            tells_something,
            was_resting,
            fresh_until,
            waiting,
        }
    }

    fn speak(&mut self, now: u64) -> bool {
        if self.told.is_none() && (now >= self.due || self.waiting > 0) {
            self.told = Some(self.account.told());
            self.spoke = now;
            self.tells_something = std::mem::take(&mut self.has_consumed);
            self.was_resting = self.idle >= RESTING;
        }
        now == self.spoke + TRIP / 2
    }

    /// Hears the answer; how many were admitted that waited for it.
    fn hear(&mut self, now: u64) -> u64 {
        if now != self.spoke + TRIP {
            return 0;
        }
        let (Some(told), Some(answer)) = (self.told.take(), self.answer.take()) else { return 0 };
        let news = self.account.settle(told, &answer).unwrap();
        let id = self.limiter.identity("alice");
        let silence = now - std::mem::replace(&mut self.heard, now);
        match self.was_resting || silence >= 2 * u64::from(RESTING) * TAU {
            true => news.catch_up(&self.limiter, &self.rule, id),
            false => news.apply(&self.limiter, &self.rule, id),
        }
        let is_used = self.has_consumed || self.tells_something;
        self.idle = if is_used { 0 } else { self.idle + 1 };
        let rests = self.idle >= RESTING;
        self.fresh_until = if rests { self.spoke + TAU } else { u64::MAX };
        self.due = if rests { u64::MAX } else { self.spoke + TAU };
        let waiting = std::mem::take(&mut self.waiting);
        self.ask(now, waiting)
    }

    /// Asks for so much; how much of it was admitted at once.
    fn ask(&mut self, now: u64, many: u64) -> u64 {
        if now > self.fresh_until {
            self.waiting += many;
            return 0;
        }
        let id = self.limiter.identity("alice");
        let passes = |_: &u64| self.limiter.check(&self.rule, id, 1).is_ok();
        let admitted = (0..many).take_while(passes).count() as u64;
        if admitted > 0 {
            self.account.consume(admitted);
            self.has_consumed = true;
            if std::mem::take(&mut self.idle) >= RESTING {
                self.due = now;
            }
        }
        admitted
    }
}

impl Phases {
    /// How much a node is asked for in this millisecond.
    fn asks(self, (nth, nodes): (u64, u64), now: u64, spoke: u64) -> u64 {
        match self {
            Phases::Together | Phases::Spread => 3,
            Phases::JustMissed if now == spoke + 1 => CAPACITY,
            Phases::Ambush if now % 2000 == 1500 + nth => CAPACITY,
            Phases::Newcomers if nth == 0 => 3 * u64::from(now % 1000 < 500),
            Phases::Newcomers if now % 3000 == 1000 + 1500 * nth / nodes => CAPACITY,
            Phases::ShortRests if nth == 0 => u64::from(now.is_multiple_of(4)),
            Phases::ShortRests if now % 1150 == 1000 * nth / nodes => CAPACITY,
            Phases::JustMissed | Phases::Ambush | Phases::Newcomers | Phases::ShortRests => 0,
        }
    }
}

/// What was admitted: when, by whom.
fn simulate(server: &Server, limit: &Limit, nodes: u64, phases: Phases) -> Vec<(u64, usize)> {
    let mut connection = server.connection();
    let driven = Driven::default();
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    let figures = Figures::of(limit).unwrap();
    let key = format!("{:?}/{nodes}/{phases:?}", limit.kind());
    let clock = FakeClock::at(at(0));
    let offset = |nth| match phases {
        Phases::Together => 0,
        _ => nth * TAU / nodes,
    };
    let mut all: Vec<Simulated> =
        (0..nodes).map(|nth| Simulated::new(&clock, limit, offset(nth))).collect();
    let mut admitted = Vec::new();
    for now in 0..LENGTH {
        clock.set(at(now));
        for (nth, node) in all.iter_mut().enumerate() {
            if node.speak(now)
                && let Some(told) = node.told
            {
                let micros = (BEGIN + now) * 1000;
                let cmd = driven.sync(&key, &figures, (&nth.to_string(), told), micros);
                node.answer = Some(cmd.query(&mut connection).unwrap());
            }
            let passed = node.hear(now);
            admitted.extend((0..passed).map(|_| (now, nth)));
        }
        for (nth, node) in all.iter_mut().enumerate() {
            let asked = phases.asks((nth as u64, nodes), now, node.spoke);
            let passed = node.ask(now, asked);
            admitted.extend((0..passed).map(|_| (now, nth)));
        }
    }
    admitted
}

fn at(millis: u64) -> Time {
    Time::from_nanos((BEGIN + millis) * 1_000_000)
}

/// The most by which any interval exceeds the limit, in thousandths of a token; panics if it exceeds the bound.
fn largest_excess(admitted: &[(u64, usize)], nodes: u64) -> i64 {
    let scaled = |tokens: u64| 1000 * tokens as i64;
    let (mut best_start, mut largest) = (i64::MIN, 0);
    for (count, &(now, who)) in admitted.iter().enumerate() {
        // Of all intervals that end here, the one that exceeds the limit most.
        best_start = best_start.max((RATE * now) as i64 - scaled(count as u64));
        let excess = scaled(count as u64 + 1) + best_start - (RATE * now) as i64 - scaled(CAPACITY);
        let others = unknown_then(&admitted[..count], (now, who));
        assert!(
            excess <= scaled(others),
            "{excess} at {now} of {nodes}, but others admitted {others}"
        );
        largest = largest.max(excess);
    }
    largest
}

/// How much others admitted before somebody did who cannot have known of it.
fn unknown_then(before: &[(u64, usize)], (now, who): (u64, usize)) -> u64 {
    let unknown = before.iter().rev().take_while(|(then, _)| then + 2 * TAU + TRIP > now);
    unknown.filter(|(_, other)| *other != who).count() as u64
}

fn overshoot_is_within_its_bound(brand: Brand) {
    let server = Server::start(brand);
    let limit = Limit::token_bucket(Rate::per_second(RATE)).burst(CAPACITY).build().unwrap();
    let mut met = 0;
    for nodes in [2, 4, 8] {
        for phases in ALL_PHASES {
            let admitted = simulate(&server, &limit, nodes, phases);
            let excess = largest_excess(&admitted, nodes);
            met += i32::from(excess > 0);
            let of_others = admitted.iter().filter(|(_, who)| *who != 0).count() as u64;
            match phases {
                Phases::Newcomers => {
                    assert!(of_others > 0, "they are asked while something is left");
                }
                // A node that rested is not charged more than Redis was.
                Phases::ShortRests => {
                    let left = CAPACITY + (RATE - 250) * 5;
                    assert!(of_others >= left * 9 / 10, "{of_others} of {left}, {nodes}");
                }
                _ => {}
            }
            // In the long run the rate is exact: what was too much is paid off before more passes.
            if matches!(phases, Phases::Together | Phases::Spread) {
                let total = admitted.len() as u64;
                let exact = CAPACITY + RATE * LENGTH / 1000;
                assert!(total >= exact * 9 / 10, "{total} of {exact}: {nodes} {phases:?}");
                let late = admitted.iter().filter(|(now, _)| *now >= LENGTH / 3).count() as u64;
                let share = RATE * (LENGTH - LENGTH / 3) / 1000;
                assert!(late <= share * 11 / 10 + RATE * 3 * TAU / 1000, "{late} of {share}");
            }
        }
    }
    assert!(met >= 9, "the phases do provoke an overshoot: {met} of 18");
}

fn a_windows_overshoot_is_within_its_bound(brand: Brand) {
    const WINDOW: u64 = 1000;
    let server = Server::start(brand);
    let limit = Limit::fixed_window(Rate::per_second(CAPACITY)).build().unwrap();
    for nodes in [2, 4, 8] {
        for phases in ALL_PHASES {
            let admitted = simulate(&server, &limit, nodes, phases);
            let mut in_window = (0, 0);
            for (count, &(now, who)) in admitted.iter().enumerate() {
                let window = (BEGIN + now) / WINDOW;
                let before = if window == in_window.0 { in_window.1 } else { 0 };
                in_window = (window, before + 1);
                let others = unknown_then(&admitted[..count], (now, who));
                let most = CAPACITY + others;
                assert!(before < most, "{before} of {most} at {now}: {nodes} {phases:?}");
            }
        }
    }
}

type Node = (Hybrid<SystemClock>, Arc<Limiter>, Arc<Rule>);

async fn node(server: &Server, limit: &Limit) -> Node {
    node_telling_every(Duration::from_millis(20), server, limit).await
}

pub async fn node_telling_every(interval: Duration, server: &Server, limit: &Limit) -> Node {
    let strict =
        Strict::start(Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(5)));
    strict.up().await;
    let limiter = Arc::new(Limiter::new());
    let rule = limiter.define("user", limit.clone());
    let hybrid = Hybrid::start(strict, Arc::clone(&limiter), (interval, 1000));
    (hybrid, limiter, rule)
}

/// Also where connections break again and again: what is told twice counts once.
fn nodes_learn_of_one_another_exactly(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(10_000).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (one, of_one, rule_one) = node(&server, &limit).await;
        let (two, of_two, rule_two) = node(&server, &limit).await;
        let (id_one, id_two) = (of_one.identity("alice"), of_two.identity("alice"));
        for round in 0..40 {
            for _ in 0..10 {
                of_one.check(&rule_one, id_one, 2).unwrap();
                one.consumed("alice", (&rule_one, id_one), &figures, 2);
                of_two.check(&rule_two, id_two, 3).unwrap();
                two.consumed("alice", (&rule_two, id_two), &figures, 3);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if round % 4 == 0 {
                let _: redis::Value =
                    server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
        }
        let left = 10_000 - 40 * 10 * 5;
        // They are in use meanwhile: what rests learns nothing until it is asked for.
        until("both know all", || {
            one.consumed("alice", (&rule_one, id_one), &figures, 0);
            two.consumed("alice", (&rule_two, id_two), &figures, 0);
            of_one.peek(&rule_one, id_one).remaining == left
                && of_two.peek(&rule_two, id_two).remaining == left
        })
        .await;
        let tokens: i64 = server.ask(&["HGET", "alice", "tokens"]);
        assert_eq!(tokens, left as i64);
        assert!(server.ask::<i64>(&["PTTL", "alice"]) > 0);
        // A newcomer's first charge tells it all that is unpaid.
        let (three, of_three, rule_three) = node(&server, &limit).await;
        let id_three = of_three.identity("alice");
        of_three.check(&rule_three, id_three, 1).unwrap();
        three.consumed("alice", (&rule_three, id_three), &figures, 1);
        until("the newcomer knows", || of_three.peek(&rule_three, id_three).remaining == left - 1)
            .await;
        assert_eq!(three.in_use(), 1);
        one.close().await;
    });
}

fn debt_is_carried(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let (one, of_one, rule_one) = node(&server, &limit).await;
        let (two, of_two, rule_two) = node(&server, &limit).await;
        // Both spend everything before either knows.
        for (hybrid, limiter, rule) in [(&one, &of_one, &rule_one), (&two, &of_two, &rule_two)] {
            let id = limiter.identity("alice");
            limiter.check(rule, id, 100).unwrap();
            hybrid.consumed("alice", (rule, id), &figures, 100);
        }
        until("the debt is known", || {
            server.ask::<Option<i64>>(&["HGET", "alice", "tokens"]) == Some(-100)
        })
        .await;
        let left: i64 = server.ask(&["PTTL", "alice"]);
        assert!(left > 199 * 86_400_000, "a debt of a hundred days lives so long: {left}");
    });
}

on_both! {
    overshoot => overshoot_is_within_its_bound;
    windows => a_windows_overshoot_is_within_its_bound;
    exactly => nodes_learn_of_one_another_exactly;
    debt => debt_is_carried;
}
