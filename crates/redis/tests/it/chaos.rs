//! A server that is killed in the middle of slices, statements and beats leaves no key without an expiry.
//!
//! What strict charges leave is tested beside them, in `counters.rs`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis::{Cmd, RedisResult, Value};
use tollgate_engine::{Clock, Limit, Period, Rate, SystemClock};
use tollgate_redis::Figures;
use tollgate_redis::driven::{Account, Driven, Told};

use crate::servers::{Brand, Server, on_both};

/// As many calls as each kind of load has made before the server is killed.
const CALLS: u64 = 1500;

/// Counters of each limit, few enough to be written again and again and many enough to be made anew all the time.
const NAMES: u64 = 61;

fn kinds() -> Vec<Figures> {
    let limits = [
        Limit::token_bucket(Rate::per_minute(50)).burst(200).build(),
        Limit::gcra(Rate::per_minute(7)).burst(3).build(),
        Limit::fixed_window(Rate::per_second(20)).build(),
        Limit::sliding_window(Rate::per_second(20)).build(),
        Limit::quota(10_000, Period::Day, "UTC"),
    ];
    limits.into_iter().map(|limit| Figures::of(&limit.unwrap()).unwrap()).collect()
}

/// In microseconds.
fn now() -> u64 {
    static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
    CLOCK.now().as_nanos() / 1000
}

/// One kind of load: what to send as the nth call.
type Load = fn(&Driven, &[Figures], u64) -> Cmd;

fn leases(driven: &Driven, kinds: &[Figures], nth: u64) -> Cmd {
    let figures = &kinds[nth as usize % kinds.len()];
    let key = format!("lease/{}/{}", nth % kinds.len() as u64, nth / 7 % NAMES);
    driven.lease(&key, figures, [1, 1 + nth % 9], (0, 0, -1), now())
}

fn statements(driven: &Driven, kinds: &[Figures], nth: u64) -> Cmd {
    let figures = &kinds[nth as usize % kinds.len()];
    let key = format!("sync/{}/{}", nth % kinds.len() as u64, nth / 7 % NAMES);
    let mut account = Account::default();
    // Often more than there is: a debt.
    account.consume(1 + nth % 150);
    let told = if nth.is_multiple_of(11) { Told::reset() } else { account.told() };
    driven.sync(&key, figures, (&format!("node-{}", nth % 5), told), now())
}

/// Sets are emptied and begun again all the time.
fn beats(driven: &Driven, _: &[Figures], nth: u64) -> Cmd {
    let script = driven.bodies().last().unwrap();
    let what = if nth.is_multiple_of(3) { "leave" } else { "beat" };
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(script).arg(1).arg(format!("tollgate:nodes/{}", nth / 2 % NAMES));
    cmd.arg("a-node").arg(60_000_000).arg(what).arg(now());
    cmd
}

fn no_key_is_left_without_expiry(brand: Brand) {
    let mut server = Server::start_with(brand, &["--appendonly", "yes"]);
    let kinds = kinds();
    for round in 0..4 {
        let driven = Driven::default();
        for body in driven.bodies() {
            server.ask::<String>(&["SCRIPT", "LOAD", body]);
        }
        let loads: [(Load, AtomicU64); 3] =
            [leases as Load, statements, beats].map(|load| (load, AtomicU64::new(0)));
        let connections = [(); 6].map(|()| server.connection());
        std::thread::scope(|scope| {
            for (which, mut connection) in connections.into_iter().enumerate() {
                let (load, made) = &loads[which % loads.len()];
                let (driven, kinds) = (&driven, &kinds);
                scope.spawn(move || {
                    for nth in (which as u64 * 1000 + round)..u64::MAX {
                        let sent: RedisResult<Value> =
                            load(driven, kinds, nth).query(&mut connection);
                        match sent {
                            Ok(_) => made.fetch_add(1, Relaxed),
                            // It is dead; what it refuses while it lives is a fault of the test.
                            Err(why) if why.is_io_error() => return,
                            Err(why) => panic!("{why}"),
                        };
                    }
                });
            }
            while loads.iter().any(|(_, made)| made.load(Relaxed) < CALLS) {
                std::thread::yield_now();
            }
            server.kill();
        });
        assert!(server.try_start());
        assert_all_expire(&server);
    }
}

/// As an operator would look: `SCAN`, and `PTTL` of each.
fn assert_all_expire(server: &Server) {
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("SCAN")
        .cursor_arg(0)
        .clone()
        .iter(&mut connection)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for kind in
        ["lease/0/", "lease/1/", "lease/4/", "sync/0/", "sync/1/", "sync/4/", "tollgate:nodes/"]
    {
        assert!(keys.iter().any(|key| key.starts_with(kind)), "{kind} of {} keys", keys.len());
    }
    for key in keys {
        // -2 is a key that has expired meanwhile; -1 one that never will.
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert_ne!(left, -1, "{key} never expires");
    }
}

on_both! {
    all_expire => no_key_is_left_without_expiry;
}
