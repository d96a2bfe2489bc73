//! Many clients that share nothing but a server, in simulated time: real limiter, real headers, made-up network.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollgate_core::{Limit, Rate, Scope, Standing, Time};
use tollgate_engine::{Clock, FakeClock, Limiter};
use tollgate_wire::read::{Said, read};
use tollgate_wire::{Line, Refused, Report};

use crate::pace::{Load, Outcome, Pace, START_STEP, Ticket};

/// What a server tells of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    Everything,
    /// How much of how many is left and when that is full again, but no window: as `OpenAI` does.
    NoWindow,
    OnlyRetryAfter,
    Nothing,
}

#[derive(Clone, Debug)]
struct Setup {
    clients: usize,
    /// All have one key, or each its own.
    is_shared: bool,
    limit: Limit,
    /// What a key may spend in a second.
    rate: u64,
    cost: u64,
    /// What clients say that it costs.
    said: u64,
    /// What the first client asks for costs one.
    is_uneven: bool,
    tells: Tells,
    /// Servers with counters of their own, each for the whole limit. A request comes to any of them.
    nodes: usize,
    is_paced: bool,
    /// There and back, at least and at most.
    latency_ms: (u64, u64),
    seconds: u64,
    /// From when to when the first client asks for nothing, in seconds. What passes before it is back is not counted.
    idle: Option<(u64, u64)>,
}

impl Setup {
    fn bucket(clients: usize, is_shared: bool, rate: u64, burst: u64) -> Setup {
        let limit = Limit::token_bucket(Rate::per_second(rate)).burst(burst).build().unwrap();
        Setup {
            clients,
            is_shared,
            limit,
            rate,
            cost: 1,
            said: 1,
            is_uneven: false,
            tells: Tells::Everything,
            nodes: 1,
            is_paced: true,
            latency_ms: (2, 20),
            seconds: 20,
            idle: None,
        }
    }

    /// What a client's requests cost, and what it says that they do.
    fn costs(&self, n: usize) -> (u64, u64) {
        if self.is_uneven && n == 0 { (1, 1) } else { (self.cost, self.said) }
    }

    fn keys(&self) -> u64 {
        if self.is_shared { 1 } else { self.clients as u64 }
    }
}

#[derive(Debug)]
struct Figures {
    /// Of what the keys may spend at their rate.
    used: f64,
    refused: f64,
    /// What the clients with the least and the most got, of an equal share.
    least: f64,
    most: f64,
    /// Clients that ever took the limit for one that counts requests.
    by_requests: usize,
}

enum Event {
    Arrives(usize),
    Wakes(usize),
    Reaches(usize, Option<Ticket>),
    Returns(usize, Option<Ticket>, Said, Outcome),
}

struct Client {
    pace: Pace,
    waiting: VecDeque<Time>,
    wakes_at: Option<Time>,
}

struct Simulation {
    setup: Setup,
    clock: FakeClock,
    limiters: Vec<Limiter<FakeClock>>,
    clients: Vec<Client>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: HashMap<u64, Event>,
    count: u64,
    random: u64,
    passed: Vec<u64>,
    by_requests: Vec<bool>,
    refused: u64,
    began: Time,
}

/// Three times what the limit lets pass is asked for.
const OFFERED: u64 = 3;

/// Requests that have waited so long are given up.
const PATIENCE: Duration = Duration::from_secs(5);

impl Simulation {
    fn new(setup: Setup) -> Simulation {
        let clock = FakeClock::default();
        let client = |n: usize| Client {
            pace: Pace::new(Duration::from_secs(60), n as u64 * 7_919 + 13),
            waiting: VecDeque::new(),
            wakes_at: None,
        };
        Simulation {
            limiters: (0..setup.nodes)
                .map(|_| Limiter::with_clock(clock.clone(), 10_000))
                .collect(),
            clients: (0..setup.clients).map(client).collect(),
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            count: 0,
            random: 0x2545_F491_4F6C_DD1D,
            passed: vec![0; setup.clients],
            by_requests: vec![false; setup.clients],
            refused: 0,
            began: clock.now(),
            clock,
            setup,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.insert(self.count, event);
        self.queue.push(Reverse((time, self.count)));
    }

    /// Between 0 and 1.
    fn draw(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn one_way(&mut self) -> Duration {
        let (least, most) = self.setup.latency_ms;
        let millis = least as f64 + (most - least) as f64 * self.draw();
        Duration::from_secs_f64(millis / 2_000.0)
    }

    fn every(&self) -> Duration {
        let Setup { clients, rate, cost, nodes, .. } = self.setup;
        let a_second = OFFERED * rate * self.setup.keys() * nodes as u64 / cost;
        Duration::from_secs_f64(clients as f64 / a_second as f64)
    }

    /// So many seconds after the beginning.
    fn second(&self, nth: u64) -> Time {
        self.began + Duration::from_secs(nth)
    }

    fn run(mut self) -> Figures {
        let start = self.began;
        let end = self.second(self.setup.seconds);
        for n in 0..self.setup.clients {
            let first = self.every().mul_f64(self.draw());
            self.at(start + first, Event::Arrives(n));
        }
        while let Some(Reverse((now, number))) = self.queue.pop()
            && now <= end
        {
            self.clock.advance(now - self.clock.now());
            if let Some(event) = self.events.remove(&number)
                && let Some(client) = self.happen(event, now)
            {
                self.send(client, now);
            }
        }
        self.figures()
    }

    /// What an event leads to, and which client may send now.
    fn happen(&mut self, event: Event, now: Time) -> Option<usize> {
        match event {
            Event::Arrives(n) => {
                if let Some((from, to)) = self.setup.idle.filter(|_| n == 0)
                    && (self.second(from)..self.second(to)).contains(&now)
                {
                    self.clients[n].waiting.clear();
                    self.at(self.second(to), Event::Arrives(n));
                    return None;
                }
                self.clients[n].waiting.push_back(now);
                let next = self.every().mul_f64(0.5 + self.draw());
                self.at(now + next, Event::Arrives(n));
                Some(n)
            }
            // An earlier one may have taken its place.
            Event::Wakes(n) if self.clients[n].wakes_at != Some(now) => None,
            Event::Wakes(n) => {
                self.clients[n].wakes_at = None;
                Some(n)
            }
            Event::Reaches(n, ticket) => {
                let (headers, outcome) = self.serve(n, now);
                let back = now + self.one_way();
                self.at(back, Event::Returns(n, ticket, read(&headers, back), outcome));
                None
            }
            Event::Returns(n, ticket, said, outcome) => {
                if let Some(ticket) = ticket {
                    self.clients[n].pace.heard(now, ticket, &said, outcome);
                    self.by_requests[n] |= self.clients[n].pace.counts_requests();
                }
                Some(n)
            }
        }
    }

    fn serve(&mut self, n: usize, now: Time) -> (HeaderMap, Outcome) {
        let node = match self.setup.nodes {
            1 => 0,
            nodes => (self.draw() * nodes as f64) as usize,
        };
        let limiter = &self.limiters[node];
        let rule = limiter.define("key", self.setup.limit.clone());
        let identity = limiter.identity(&if self.setup.is_shared { 0 } else { n });
        let (cost, _) = self.setup.costs(n);
        let decision = limiter.decide(&rule, identity, cost);
        let standing = decision.standing;
        let line = Line::of(&self.setup.limit, Scope::User, standing);
        let lines = [line.cost(cost).refusal(decision.refusal)];
        let is_counted = self.setup.idle.is_none_or(|(_, to)| now >= self.second(to));
        if decision.is_allowed() {
            self.passed[n] += if is_counted { cost } else { 0 };
            let mut headers = HeaderMap::new();
            match self.setup.tells {
                Tells::Everything => Report::admitted(&lines, now).write(&mut headers),
                Tells::NoWindow => headers = without_window(standing),
                Tells::OnlyRetryAfter | Tells::Nothing => {}
            }
            return (headers, Outcome::Passed);
        }
        self.refused += if is_counted { cost } else { 0 };
        let report = Report::refused(&lines, 0, now);
        let refused = Refused::by_limit(&report, "r");
        let headers = match self.setup.tells {
            Tells::Everything => refused.http().into_parts().0.headers,
            Tells::NoWindow => {
                let mut headers = refused.limit_headers(false).http().into_parts().0.headers;
                headers.extend(without_window(standing));
                headers
            }
            Tells::OnlyRetryAfter => refused.limit_headers(false).http().into_parts().0.headers,
            Tells::Nothing => HeaderMap::new(),
        };
        (headers, Outcome::Refused)
    }

    /// Sends what may be sent, and wakes up for the rest.
    fn send(&mut self, n: usize, now: Time) {
        let (_, said) = self.setup.costs(n);
        let too_old = |since: &Time| now - *since > PATIENCE;
        while self.clients[n].waiting.front().is_some_and(too_old) {
            self.clients[n].waiting.pop_front();
        }
        while !self.clients[n].waiting.is_empty() {
            let client = &mut self.clients[n];
            let mut wait = client.pace.wait(now, Load::default(), said);
            if client.pace.is_starting(now) {
                wait = wait.max(START_STEP);
            }
            if self.setup.is_paced && !wait.is_zero() {
                let wake = now + wait.max(Duration::from_micros(50));
                if client.wakes_at.is_none_or(|at| wake < at) {
                    client.wakes_at = Some(wake);
                    self.at(wake, Event::Wakes(n));
                }
                return;
            }
            client.waiting.pop_front();
            let ticket = self.setup.is_paced.then(|| client.pace.send(now, said));
            let there = now + self.one_way();
            self.at(there, Event::Reaches(n, ticket));
        }
    }

    fn figures(&self) -> Figures {
        let passed: u64 = self.passed.iter().sum();
        let equal = passed as f64 / self.passed.len() as f64;
        let seconds = self.setup.seconds - self.setup.idle.map_or(0, |(_, to)| to);
        let nodes = self.setup.nodes as u64;
        let may = self.setup.rate * seconds * self.setup.keys() * nodes;
        let (least, most) = (self.passed.iter().min(), self.passed.iter().max());
        let figures = Figures {
            used: passed as f64 / may as f64,
            refused: self.refused as f64 / (passed + self.refused) as f64,
            least: *least.unwrap_or(&0) as f64 / equal,
            most: *most.unwrap_or(&0) as f64 / equal,
            by_requests: self.by_requests.iter().filter(|ever| **ever).count(),
        };
        let Setup { clients, is_shared, rate, cost, said, tells, is_paced, latency_ms, .. } =
            self.setup;
        println!(
            "{clients} clients, {}, {rate}/s up to {}, cost {cost} said {said}, {:?}, {tells:?}, {latency_ms:?} ms, \
             paced {is_paced}: used {:.1} %, refused {:.2} %, each {:.2} to {:.2}, by requests {}",
            if is_shared { "one key" } else { "a key each" },
            self.setup.limit.capacity(),
            self.setup.limit.kind(),
            100.0 * figures.used,
            100.0 * figures.refused,
            figures.least,
            figures.most,
            figures.by_requests,
        );
        figures
    }
}

/// The figures of a limit of tokens in `OpenAI`'s dialect.
fn without_window(standing: Standing) -> HeaderMap {
    let Standing { limit, remaining, reset_after } = standing;
    let rows = [
        ("x-ratelimit-limit-tokens", limit.to_string()),
        ("x-ratelimit-remaining-tokens", remaining.to_string()),
        ("x-ratelimit-reset-tokens", format!("{}ms", reset_after.as_millis())),
    ];
    let row = |(name, value): (&'static str, String)| {
        (HeaderName::from_static(name), value.parse().expect("digits"))
    };
    rows.map(row).into_iter().collect()
}

mod units;

#[test]
fn clients_with_a_key_each_use_all_of_it_and_are_not_refused() {
    for (rate, burst) in [(1, 1), (2, 3), (10, 10), (100, 100), (30, 100), (100, 10), (100, 101)] {
        for latency_ms in [(0, 2), (2, 20)] {
            let setup = Setup { latency_ms, ..Setup::bucket(5, false, rate, burst) };
            let figures = Simulation::new(setup).run();
            // A bucket of one token that is refilled in a second overflows with every delay.
            assert!(figures.used >= if burst == 1 { 0.9 } else { 0.98 }, "{figures:?}");
            assert!(figures.refused <= 0.005, "{figures:?}");
        }
    }
}

#[test]
fn fifty_clients_that_share_a_key_use_all_of_it_and_are_hardly_refused() {
    for (rate, burst) in [(75, 75), (100, 100), (500, 500), (500, 50), (100, 1_000)] {
        for latency_ms in [(0, 2), (2, 20), (50, 100)] {
            let setup = Setup { latency_ms, ..Setup::bucket(50, true, rate, burst) };
            let figures = Simulation::new(setup).run();
            assert!(figures.used >= 0.95, "{figures:?}");
            assert!(figures.refused <= 0.02, "{figures:?}");
        }
    }
}

#[test]
fn those_who_share_a_key_get_about_the_same() {
    for (clients, rate) in [(2, 100), (5, 100), (10, 500), (50, 200)] {
        let figures = Simulation::new(Setup::bucket(clients, true, rate, rate)).run();
        assert!(figures.least > 0.7 && figures.most < 1.4, "{figures:?}");
    }
}

#[test]
fn who_was_idle_for_long_gets_as_much_as_the_others_when_it_is_back() {
    for clients in [2, 5, 10] {
        for away in [30, 600] {
            let setup = Setup {
                idle: Some((10, 10 + away)),
                seconds: 10 + away + 20,
                ..Setup::bucket(clients, true, 100, 100)
            };
            let figures = Simulation::new(setup).run();
            assert!(figures.used >= 0.95 && figures.refused <= 0.02, "{figures:?}");
            assert!(figures.least >= 0.9, "{figures:?}");
        }
    }
}

#[test]
fn without_pacing_most_is_refused() {
    for is_shared in [false, true] {
        let clients = if is_shared { 50 } else { 5 };
        let setup = Setup { is_paced: false, ..Setup::bucket(clients, is_shared, 100, 100) };
        assert!(Simulation::new(setup).run().refused > 0.6);
    }
}

/// What the cushion leaves of a bucket is left once; of a sliding window, in each. So little of a small one is used.
#[test]
fn windows_are_used_without_being_refused() {
    let rate = Rate::per_second(100);
    let rows = [
        (Limit::fixed_window(rate), 0.9),
        (Limit::sliding_window(rate), 0.75),
        (Limit::sliding_window_log(rate), 0.75),
    ];
    for (limit, used) in rows {
        let limit = limit.build().unwrap();
        let setup = Setup { limit, ..Setup::bucket(3, false, 100, 100) };
        let figures = Simulation::new(setup).run();
        assert!(figures.used >= used && figures.refused <= 0.02, "{figures:?}");
    }
    let rows = [
        (Limit::fixed_window(Rate::per_minute(600)), 0.95),
        (Limit::sliding_window(Rate::per_minute(600)), 0.75),
    ];
    for (limit, used) in rows {
        let limit = limit.build().unwrap();
        let setup = Setup { limit, seconds: 240, ..Setup::bucket(3, false, 10, 10) };
        let figures = Simulation::new(setup).run();
        assert!(figures.used >= used && figures.refused <= 0.02, "{figures:?}");
    }
}

#[test]
fn a_server_that_says_nothing_is_got_to_know_by_its_refusals() {
    for tells in [Tells::OnlyRetryAfter, Tells::Nothing] {
        let setup = Setup { tells, seconds: 60, ..Setup::bucket(3, false, 100, 100) };
        let figures = Simulation::new(setup).run();
        assert!(figures.used >= 0.7 && figures.refused <= 0.05, "{figures:?}");
    }
}
