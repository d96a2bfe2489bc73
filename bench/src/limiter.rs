//! The engine's counters against governor and limitador.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tollgate_engine::{
    Chain, Charge, Clock, FakeClock, Limit, Limiter, Period, Rate, Rule, SystemClock, Time,
};

use crate::allocations;
use crate::measure::{alternate, median, nanos_per_call, resident_bytes, scatter};
use crate::report::Report;

pub fn run(report: &mut Report, wanted: &[String]) {
    if wanted.first().is_some_and(|side| memory_of(side)) {
        return;
    }
    let cases: [(&str, fn(&mut Report)); 8] = [
        ("check", check),
        ("fill", fill),
        ("chain", chain),
        ("hot", hot),
        ("limitador", limitador_check),
        ("memory", memory),
        ("flood", flood),
        ("drift", drift),
    ];
    for (name, case) in cases {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            case(report);
        }
    }
}

const ROUNDS: usize = 11;
const CALLS: u64 = 1_000_000;
const MILLION: u64 = 1_000_000;

/// Generous enough that nobody is refused: both sides do the work of an admitted request.
fn generous() -> Limit {
    Limit::token_bucket(Rate::per_second(1000)).burst(1_000_000_000).build().expect("good figures")
}

fn ours(max_keys: u64) -> (Limiter, std::sync::Arc<Rule>) {
    let limiter = Limiter::with_clock(SystemClock::new(), max_keys as usize);
    let rule = limiter.define("bench", generous());
    (limiter, rule)
}

fn peer<K: std::hash::Hash + Eq + Clone>() -> DefaultKeyedRateLimiter<K> {
    let quota = Quota::per_second(NonZeroU32::new(1000).expect("not zero"));
    RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(1_000_000_000).expect("not zero")))
}

fn check(report: &mut Report) {
    for threads in [1, 2] {
        for keys in [1, 1000, MILLION] {
            let (limiter, rule) = ours(2 * MILLION);
            let governor = peer::<u64>();
            let one = |t, n| {
                let key = scatter(t, n, keys);
                black_box(limiter.check(&rule, limiter.identity(&key), 1)).expect("generous");
            };
            let two = |t, n| {
                black_box(governor.check_key(&scatter(t, n, keys))).expect("generous");
            };
            compare(report, "check_u64", threads, keys, one, two);

            let (limiter, rule) = ours(2 * MILLION);
            let governor = peer::<String>();
            let one = |t, n| {
                with_name(scatter(t, n, keys), |key| {
                    black_box(limiter.check(&rule, limiter.identity(key), 1)).expect("generous");
                });
            };
            let two = |t, n| {
                with_name(scatter(t, n, keys), |key| {
                    black_box(governor.check_key(key)).expect("generous");
                });
            };
            compare(report, "check_string", threads, keys, one, two);
        }
    }
}

/// The name of the nth user, in memory that is at hand, as a request has just brought it.
fn with_name(n: u64, work: impl FnOnce(&String)) {
    static FEW: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..1000).map(|n| format!("user-{n:012}")).collect());
    if let Some(name) = FEW.get(n as usize) {
        return work(name);
    }
    thread_local! {
        static NAME: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    NAME.with_borrow_mut(|bytes| {
        bytes.clear();
        bytes.extend_from_slice(b"user-000000000000");
        let mut left = n;
        for digit in bytes[5..].iter_mut().rev().take(7) {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        let name = String::from_utf8(std::mem::take(bytes)).expect("digits");
        work(&name);
        *bytes = name.into_bytes();
    });
}

fn fill(report: &mut Report) {
    for threads in [1, 2] {
        filling(report, threads);
    }
}

/// Every call is a new key's first, from an empty store to a million keys.
fn filling(report: &mut Report, threads: usize) {
    let calls = MILLION / threads as u64;
    let nth = |t: usize, n: u64| t as u64 * calls + n;
    let pair = alternate(
        ROUNDS,
        || {
            let (limiter, rule) = ours(2 * MILLION);
            nanos_per_call(threads, calls, |t, n| {
                black_box(limiter.check(&rule, limiter.identity(&nth(t, n)), 1)).expect("generous");
            })
        },
        || {
            let governor = peer::<u64>();
            nanos_per_call(threads, calls, |t, n| {
                black_box(governor.check_key(&nth(t, n))).expect("generous");
            })
        },
    );
    row(report, "fill_u64", threads, MILLION, "governor", &pair);
    let pair = alternate(
        ROUNDS,
        || {
            let (limiter, rule) = ours(2 * MILLION);
            nanos_per_call(threads, calls, |t, n| {
                with_name(nth(t, n), |key| {
                    black_box(limiter.check(&rule, limiter.identity(key), 1)).expect("generous");
                });
            })
        },
        || {
            let governor = peer::<String>();
            nanos_per_call(threads, calls, |t, n| {
                with_name(nth(t, n), |key| {
                    black_box(governor.check_key(key)).expect("generous");
                });
            })
        },
    );
    row(report, "fill_string", threads, MILLION, "governor", &pair);
}

fn compare(
    report: &mut Report,
    bench: &str,
    threads: usize,
    keys: u64,
    ours: impl Fn(usize, u64) + Sync,
    peer: impl Fn(usize, u64) + Sync,
) {
    // Once through, so that every key is there.
    let warm = |work: &(dyn Fn(usize, u64) + Sync)| {
        nanos_per_call(threads, (4 * keys).min(4 * MILLION), work);
    };
    warm(&ours);
    warm(&peer);
    let pair = alternate(
        ROUNDS,
        || nanos_per_call(threads, CALLS, &ours),
        || nanos_per_call(threads, CALLS, &peer),
    );
    row(report, bench, threads, keys, "governor", &pair);
}

fn row(
    report: &mut Report,
    bench: &str,
    threads: usize,
    keys: u64,
    peer: &str,
    pair: &crate::measure::Pair,
) {
    report.row(&[
        ("bench", bench.into()),
        ("threads", threads.into()),
        ("keys", keys.into()),
        ("ours_ns", pair.ours.into()),
        ("peer", peer.into()),
        ("peer_ns", pair.peer.into()),
        ("ratio", pair.ratio.into()),
    ]);
}

/// Client, tenant, partner, system and a monthly quota, all hot.
fn chain(report: &mut Report) {
    let limiter = Limiter::new();
    let bucket = |name| limiter.define(name, generous());
    let rules = [bucket("client"), bucket("tenant"), bucket("partner"), bucket("system")];
    let quota = Limit::quota(1 << 50, Period::Month, "UTC").expect("good figures");
    let quota = limiter.define("quota", quota);
    let ids = ["alice", "acme", "part", "system"].map(|name| limiter.identity(name));
    let take = |tightest: bool| {
        let mut chain = Chain::new();
        for (rule, id) in rules.iter().zip(ids) {
            chain.push(Charge::new(rule, id));
        }
        chain.push(Charge::new(&quota, ids[0]));
        assert!(black_box(limiter.take(&mut chain)).is_admitted());
        if tightest {
            black_box(chain.tightest());
        }
    };
    for (bench, tightest) in [("chain5", false), ("chain5_tightest", true)] {
        take(tightest);
        let ((), allocated) = allocations::count(|| (0..1000).for_each(|_| take(tightest)));
        let allocated = allocated as f64 / 1000.0;
        let rounds = (0..ROUNDS).map(|_| nanos_per_call(1, CALLS, |_, _| take(tightest)));
        report.row(&[
            ("bench", bench.into()),
            ("ours_ns", median(rounds).into()),
            ("allocations", allocated.into()),
        ]);
    }
}

/// One counter that every thread wants: how many decisions a second all make together.
fn hot(report: &mut Report) {
    let (limiter, rule) = ours(1000);
    let governor = peer::<u64>();
    let id = limiter.identity(&1u64);
    let ours = |_, _| {
        black_box(limiter.check(&rule, id, 1)).expect("generous");
    };
    let peer = |_, _| {
        black_box(governor.check_key(&1)).expect("generous");
    };
    for threads in [1, 2, 4, 8] {
        let calls = 2 * CALLS / threads as u64;
        let per_second = |nanos: f64| threads as f64 / nanos * 1000.0;
        // One thread is measured beside every number of threads: that is the comparison.
        let mut single = Vec::new();
        let mut together = Vec::new();
        let mut governors = Vec::new();
        for _ in 0..ROUNDS {
            single.push(1000.0 / nanos_per_call(1, CALLS, ours));
            together.push(per_second(nanos_per_call(threads, calls, ours)));
            governors.push(per_second(nanos_per_call(threads, calls, peer)));
        }
        let ratios = together.iter().zip(&single).map(|(together, single)| together / single);
        report.row(&[
            ("bench", "hot".into()),
            ("threads", threads.into()),
            ("ours_million_per_s", median(together.iter().copied()).into()),
            ("one_thread_million_per_s", median(single.iter().copied()).into()),
            ("to_one_thread", median(ratios).into()),
            ("peer", "governor".into()),
            ("peer_million_per_s", median(governors.into_iter()).into()),
        ]);
    }
}

fn limitador_check(report: &mut Report) {
    use limitador::limit::{Context, Limit as PeerLimit};
    let peer = limitador::RateLimiter::new(1_000_000);
    let conditions: Vec<limitador::limit::Predicate> = Vec::new();
    let variable = "user".to_owned().try_into().expect("a variable");
    peer.add_limit(PeerLimit::new("bench", 1 << 60, 1, conditions, vec![variable]));
    let namespace = "bench".into();
    let (limiter, rule) = ours(MILLION);
    let users: Vec<String> = (0..1000).map(|n| format!("user-{n:012}")).collect();
    let one = |t, n| {
        let key = &users[scatter(t, n, 1000) as usize];
        black_box(limiter.check(&rule, limiter.identity(key), 1)).expect("generous");
    };
    let two = |t, n| {
        let user = users[scatter(t, n, 1000) as usize].clone();
        let context = Context::from(std::collections::HashMap::from([("user".to_owned(), user)]));
        let checked = peer.check_rate_limited_and_update(&namespace, &context, 1);
        assert!(!black_box(checked).expect("in memory").limited);
    };
    let pair = alternate(
        ROUNDS,
        || nanos_per_call(1, CALLS / 10, one),
        || nanos_per_call(1, CALLS / 10, two),
    );
    row(report, "check_string", 1, 1000, "limitador", &pair);
}

/// Resident memory of five million counters, each side in a process of its own.
fn memory(report: &mut Report) {
    let of = |side: &str| {
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program).args(["limiter", side]).output();
        let text = String::from_utf8(output.expect("ran").stdout).expect("a number");
        text.trim().parse::<f64>().expect("a number")
    };
    report.row(&[
        ("bench", "memory".into()),
        ("keys", MEMORY_KEYS.into()),
        ("bytes_per_key", of("memory-ours").into()),
        ("peer", "governor".into()),
        ("peer_u64_bytes_per_key", of("memory-governor-u64").into()),
        ("peer_string_bytes_per_key", of("memory-governor-string").into()),
    ]);
}

const MEMORY_KEYS: u64 = 5_000_000;

/// One side of [`memory`]; prints its figure.
pub fn memory_of(side: &str) -> bool {
    let before = resident_bytes();
    let print = || println!("{}", (resident_bytes() - before) as f64 / MEMORY_KEYS as f64);
    match side {
        "memory-ours" => {
            let (limiter, rule) = ours(6_000_000);
            for n in 0..MEMORY_KEYS {
                limiter.check(&rule, limiter.identity(&n), 1).expect("generous");
            }
            print();
        }
        "memory-governor-u64" => {
            let governor = peer::<u64>();
            for n in 0..MEMORY_KEYS {
                governor.check_key(&n).expect("generous");
            }
            print();
        }
        "memory-governor-string" => {
            let governor = peer::<String>();
            for n in 0..MEMORY_KEYS {
                with_name(n, |key| governor.check_key(key).expect("generous"));
            }
            print();
        }
        _ => return false,
    }
    true
}

/// Ten million newcomers against a store of a million, beside one who was there before: once where
/// counters are soon full again and evicted, once where nothing can be evicted.
fn flood(report: &mut Report) {
    let slow = Limit::token_bucket(Rate::per_day(1)).burst(1_000_000_000).build();
    for (bench, limit) in [("flood", generous()), ("flood_full", slow.expect("good figures"))] {
        let limiter = Limiter::with_clock(SystemClock::new(), MILLION as usize);
        let rule = limiter.define("bench", limit);
        let old = limiter.identity("here before");
        let resident = || {
            nanos_per_call(1, CALLS / 10, |_, _| {
                black_box(limiter.check(&rule, old, 1)).expect("generous");
            })
        };
        resident();
        let alone = median((0..ROUNDS).map(|_| resident()));
        let mut most = 0;
        let flooding = AtomicBool::new(true);
        let (beside, newcomer) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let newcomers = nanos_per_call(1, 10 * MILLION, |_, n| {
                    black_box(limiter.check(&rule, limiter.identity(&n), 1)).expect("generous");
                });
                flooding.store(false, Relaxed);
                newcomers
            });
            let mut measured = Vec::new();
            while flooding.load(Relaxed) {
                measured.push(resident());
                most = most.max(limiter.stats().held);
            }
            (median(measured.into_iter()), flood.join().expect("no panic"))
        });
        report.row(&[
            ("bench", bench.into()),
            ("keys", (10 * MILLION).into()),
            ("cap", MILLION.into()),
            ("most_held", most.into()),
            ("evicted", limiter.stats().evicted.into()),
            ("overflowed", limiter.stats().overflowed.into()),
            ("newcomer_ns", newcomer.into()),
            ("tracked_alone_ns", alone.into()),
            ("tracked_beside_flood_ns", beside.into()),
        ]);
    }
}

/// A billion decisions at an awkward rate, against what arithmetic says.
fn drift(report: &mut Report) {
    let rate = Rate::per_minute(7_000_003);
    let clock = FakeClock::default();
    let limiter = Limiter::with_clock(&clock, 1000);
    let rule = limiter.define("bench", Limit::gcra(rate).burst(11).build().expect("good figures"));
    let (id, begin) = (limiter.identity("one"), clock.now());
    let (mut admitted, mut step) = (0u128, 1u64);
    for _ in 0..1_000_000_000u64 {
        match limiter.check(&rule, id, 1) {
            Ok(()) => admitted += 1,
            Err(_) => {
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let now = clock.now().as_nanos() + (step >> 50);
                clock.set(Time::from_nanos(now));
            }
        }
    }
    let span = u128::from(clock.now().as_nanos() - begin.as_nanos());
    let earned = 11 + span * u128::from(rate.tokens()) / u128::from(rate.window().nanos());
    let remaining = u128::from(limiter.peek(&rule, id).remaining);
    report.row(&[
        ("bench", "drift".into()),
        ("decisions", 1_000_000_000u64.into()),
        ("admitted_and_remaining", ((admitted + remaining) as f64).into()),
        ("earned", (earned as f64).into()),
        ("drift", ((admitted + remaining) as f64 - earned as f64).into()),
    ]);
}
