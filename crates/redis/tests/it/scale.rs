//! A thousand nodes on one counter, in simulated time: the nodes' own accounts and slices, and the real scripts on a real
//! server, which is told what time it is. It shows what docs/distribution.md promises of 1,000 nodes, and prints what that costs:
//! `cargo nextest run -p tollgate-redis scale --no-capture`.

#![allow(clippy::print_stdout, reason = "its figures are for docs/distribution.md")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;
use tollgate_engine::{FakeClock, Limit, Limiter, Rate, Rule, Time};
use tollgate_redis::driven::{Account, Driven, Held, Told};
use tollgate_redis::{Charge, Figures};

use crate::servers::{Brand, Server, on_both};

const NODES: usize = 1000;
const RATE: u64 = 20_000;
const CAPACITY: u64 = 20_000;
/// Milliseconds of simulated time.
const LENGTH: u64 = 4000;
const TAU: u64 = 100;
/// A round trip: it takes half of it until the script runs.
const TRIP: u64 = 4;
const BEGIN: u64 = 1_767_225_600_000;

/// What happened in a run.
#[derive(Debug, Default)]
struct Seen {
    /// When, and by whom, in order.
    admitted: Vec<(u64, usize)>,
    asked: u64,
    scripts: u64,
}

impl Seen {
    fn tell(&self, what: &str) {
        let seconds = LENGTH as f64 / 1000.0;
        println!(
            "{what}: {NODES} nodes were asked {:.0}/s and admitted {:.0}/s of {RATE}/s and {CAPACITY} at once, \
             with {:.0} scripts/s",
            self.asked as f64 / seconds,
            self.admitted.len() as f64 / seconds,
            self.scripts as f64 / seconds
        );
    }

    /// The most by which any interval exceeds the limit, and what others had admitted in the last `unknown` milliseconds
    /// before its end, where that excess is largest beyond it. In thousandths of a token.
    fn largest_excess(&self, unknown: u64) -> (i64, i64) {
        let scaled = |tokens: u64| 1000 * tokens as i64;
        let (mut best_start, mut largest, mut beyond) = (i64::MIN, i64::MIN, i64::MIN);
        let mut lately = VecDeque::new();
        let mut own = vec![0u64; NODES];
        for (count, &(now, who)) in self.admitted.iter().enumerate() {
            while lately.front().is_some_and(|(then, _)| then + unknown <= now) {
                let (_, other): (u64, usize) = lately.pop_front().unwrap();
                own[other] -= 1;
            }
            let others = lately.len() as u64 - own[who];
            best_start = best_start.max((RATE * now) as i64 - scaled(count as u64));
            let excess =
                scaled(count as u64 + 1) + best_start - (RATE * now) as i64 - scaled(CAPACITY);
            largest = largest.max(excess);
            beyond = beyond.max(excess - scaled(others));
            lately.push_back((now, who));
            own[who] += 1;
        }
        (largest, beyond)
    }
}

/// How requests come.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// Drawn so that all nodes together are asked so often a second.
    Even(u64),
    /// All nodes rest, and then are asked for twice the capacity in one millisecond.
    Ambush,
}

struct Demand {
    state: u64,
    traffic: Traffic,
}

impl Demand {
    /// Requests that come to a node in this millisecond.
    fn come(&mut self, now: u64) -> u64 {
        match self.traffic {
            Traffic::Ambush => u64::from(now % 1900 == 1500) * 2 * CAPACITY / NODES as u64,
            Traffic::Even(rate) => {
                self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u64::from((self.state >> 33) % (1000 * NODES as u64) < rate)
            }
        }
    }
}

fn limit() -> Limit {
    Limit::token_bucket(Rate::per_second(RATE)).burst(CAPACITY).build().unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_nanos((BEGIN + millis) * 1_000_000)
}

fn loaded(server: &Server) -> (Driven, redis::Connection) {
    let (driven, mut connection) = (Driven::default(), server.connection());
    for body in driven.bodies() {
        redis::cmd("SCRIPT").arg("LOAD").arg(body).exec(&mut connection).unwrap();
    }
    (driven, connection)
}

/// Runs the calls of one millisecond.
fn run(connection: &mut redis::Connection, calls: Vec<Cmd>) -> Vec<Value> {
    if calls.is_empty() {
        return Vec::new();
    }
    let mut pipeline = Pipeline::with_capacity(calls.len());
    for call in calls {
        pipeline.add_command(call);
    }
    pipeline.query(connection).unwrap()
}

struct Node {
    limiter: Limiter<FakeClock>,
    rule: Arc<Rule>,
    account: Account,
    due: u64,
    told: Option<(Told, Option<Value>)>,
}

/// A thousand nodes that decide by themselves, each with its own phase, every τ or a quarter of it. None rests.
fn hybrid(server: &Server, traffic: Traffic) -> Seen {
    let (driven, mut connection) = loaded(server);
    let (figures, key) = (Figures::of(&limit()).unwrap(), format!("hybrid-{traffic:?}"));
    let (clock, mut seen) = (FakeClock::at(at(0)), Seen::default());
    let mut demand = Demand { state: 7, traffic };
    let mut nodes: Vec<Node> = (0..NODES as u64)
        .map(|nth| {
            let limiter = Limiter::with_clock(clock.clone(), 64);
            let rule = limiter.define("user", limit());
            Node { limiter, rule, account: Account::default(), due: nth % TAU, told: None }
        })
        .collect();
    for now in 0..LENGTH {
        clock.set(at(now));
        let (mut calls, mut callers) = (Vec::new(), Vec::new());
        for (nth, node) in nodes.iter_mut().enumerate() {
            if node.due == now {
                node.told = Some((node.account.told(), None));
            }
            if let Some((told, None)) = node.told
                && now == node.due + TRIP / 2
            {
                let micros = (BEGIN + now) * 1000;
                calls.push(driven.sync(&key, &figures, (&nth.to_string(), told), micros));
                callers.push(nth);
            }
        }
        seen.scripts += calls.len() as u64;
        for (nth, answer) in callers.into_iter().zip(run(&mut connection, calls)) {
            if let Some((_, waiting)) = &mut nodes[nth].told {
                *waiting = Some(answer);
            }
        }
        for (nth, node) in nodes.iter_mut().enumerate() {
            let id = node.limiter.identity("alice");
            if now == node.due + TRIP
                && let Some((told, Some(answer))) = node.told.take()
            {
                let news = node.account.settle(told, &answer).unwrap();
                news.apply(&node.limiter, &node.rule, id);
                let is_near = node.limiter.peek(&node.rule, id).remaining < CAPACITY / 4;
                node.due += if is_near { TAU / 4 } else { TAU };
            }
            for _ in 0..demand.come(now) {
                seen.asked += 1;
                if node.limiter.check(&node.rule, id, 1).is_ok() {
                    node.account.consume(1);
                    seen.admitted.push((now, nth));
                }
            }
        }
    }
    seen
}

/// A thousand nodes that spend slices, of which every tenth is killed halfway and another takes its place.
fn leased(server: &Server, traffic: Traffic) -> Seen {
    const LIFETIME: Duration = Duration::from_secs(1);
    let (driven, mut connection) = loaded(server);
    let (figures, key) = (Figures::of(&limit()).unwrap(), format!("lease-{traffic:?}"));
    let (begin, mut seen) = (Instant::now(), Seen::default());
    let mut demand = Demand { state: 11, traffic };
    let mut nodes = vec![Held::new(LIFETIME, begin); NODES];
    for millis in 0..LENGTH {
        let (now, micros) = (begin + Duration::from_millis(millis), (BEGIN + millis) * 1000);
        if millis == LENGTH / 2 {
            nodes.iter_mut().step_by(10).for_each(|node| *node = Held::new(LIFETIME, now));
        }
        let (mut calls, mut callers) = (Vec::new(), Vec::new());
        for (nth, node) in nodes.iter_mut().enumerate() {
            let come = demand.come(millis);
            seen.asked += come;
            let spent = (0..come).take_while(|_| node.spend(1, now)).count() as u64;
            seen.admitted.extend((0..spent).map(|_| (millis, nth)));
            // Who finds nothing waits for the answer; who finds little has it asked for.
            if spent < come || node.is_low(now) {
                let cost = come - spent;
                calls.push(node.ask(&driven, (&key, &figures), cost, (now, micros)));
                callers.push((nth, cost));
            }
        }
        seen.scripts += calls.len() as u64;
        for ((nth, cost), answer) in callers.into_iter().zip(run(&mut connection, calls)) {
            nodes[nth].granted(&answer).unwrap();
            let spent = (0..cost).take_while(|_| nodes[nth].spend(1, now)).count();
            seen.admitted.extend((0..spent).map(|_| (millis, nth)));
        }
    }
    seen
}

const TRAFFIC: [(&str, Traffic); 3] = [
    ("below the limit", Traffic::Even(RATE * 8 / 10)),
    ("twice the limit", Traffic::Even(2 * RATE)),
    ("all at once", Traffic::Ambush),
];

fn a_thousand_nodes_stay_within_the_hybrid_bound(brand: Brand) {
    let server = Server::start(brand);
    let mut excess = 0;
    for (what, traffic) in TRAFFIC {
        let seen = hybrid(&server, traffic);
        seen.tell(what);
        let (largest, beyond) = seen.largest_excess(2 * TAU + TRIP);
        assert!(beyond <= 0, "{what}: {beyond} thousandths beyond the bound");
        println!("  the largest excess was {} tokens", largest.max(0) / 1000);
        excess = excess.max(largest);
        let exact = CAPACITY + RATE * LENGTH / 1000;
        let (asked, admitted) = (seen.asked, seen.admitted.len() as u64);
        let is_even = matches!(traffic, Traffic::Even(_));
        assert!(!is_even || admitted >= asked.min(exact) * 9 / 10, "{what}: {admitted} of {asked}");
        // One script a node and interval, four near the limit; d is added to each interval.
        assert!(seen.scripts <= NODES as u64 * LENGTH / (TAU / 4), "{}", seen.scripts);
    }
    assert!(excess > 1_000_000, "the bound is needed: {excess} thousandths");
}

fn a_thousand_nodes_never_exceed_a_leased_limit(brand: Brand) {
    let server = Server::start(brand);
    for (what, traffic) in TRAFFIC {
        let seen = leased(&server, traffic);
        seen.tell(what);
        let (largest, _) = seen.largest_excess(0);
        assert!(largest <= 0, "{what}: over-admission of {largest} thousandths");
        // Nobody is refused for long below the limit, although a tenth of the nodes were killed with their slices.
        let (asked, admitted) = (seen.asked, seen.admitted.len() as u64);
        let due = match traffic {
            Traffic::Even(_) => asked.min(RATE * LENGTH / 1000),
            Traffic::Ambush => 2 * CAPACITY,
        };
        assert!(admitted * 10 >= due * 7, "{what}: {admitted} of {due}");
    }
}

/// What 10 million active counters take: measured on twenty thousand of them.
fn a_counter_takes_a_few_hundred_bytes(brand: Brand) {
    const COUNTERS: u64 = 20_000;
    let server = Server::start(brand);
    let (driven, mut connection) = loaded(&server);
    let memory = || {
        let info: String = server.ask(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let limit = Limit::token_bucket(Rate::per_second(100)).burst(1000).build().unwrap();
    let figures = Figures::of(&limit).unwrap();
    let before = memory();
    for part in 0..COUNTERS / 1000 {
        let name = |nth| {
            let user = part * 1000 + nth;
            format!("tollgate:ratelimit:user:plan:pro/acme/{user:06}:second")
        };
        let keys: Vec<String> = (0..1000).map(name).collect();
        let calls =
            keys.iter().map(|key| driven.take(&[Charge::new(key, &figures)], (BEGIN + 1) * 1000));
        run(&mut connection, calls.collect());
    }
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), COUNTERS);
    let each = (memory() - before) / COUNTERS;
    println!("{brand:?}: {each} bytes a counter; 10 million are {:.1} GB", each as f64 / 100.0);
    assert!(each < 450, "{each}");
}

on_both! {
    hybrid_bound => a_thousand_nodes_stay_within_the_hybrid_bound;
    lease_bound => a_thousand_nodes_never_exceed_a_leased_limit;
    memory => a_counter_takes_a_few_hundred_bytes;
}
