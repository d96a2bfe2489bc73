//! Quotas that nodes share, leased and strict: which of the two they are by default is decided by this.
//!
//! The same callers decide the same requests in both ways, in turns, through the crate and without HTTP. What a decision costs is the
//! processors' time of this process and of the server, for either may be the one that is scarce; beside it, what a caller waits.

use std::time::{Duration, Instant};

use tollgate_engine::{Limit, Period};
use tollgate_redis::{Charge, Figures, Leases, Settings, Strict};

use super::{ROUNDS, runtime, server::Server};
use crate::measure::{cpu_nanos, median};
use crate::report::Report;

const CALLERS: usize = 64;
const CALLS: usize = 64_000;
/// As long as the gateway's slices live.
const LIFETIME: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
enum Way {
    Leased,
    Strict,
}

/// What a round has shown.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    /// Microseconds of processor time a decision, here and in the server.
    here_us: f64,
    server_us: f64,
    p99_us: f64,
}

/// One quota that everybody spends, and one for each of many that are spent now and then.
pub(super) fn run(report: &mut Report) {
    for keys in [1, 10_000] {
        let server = Server::start();
        let mut rounds = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let mut ways = [Way::Leased, Way::Strict];
            if round % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                rounds[way as usize].push(measured(way, &server, keys));
            }
        }
        let [leased, strict] = rounds;
        let of = |rounds: &[Round], figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        report.row(&[
            ("bench", "quotas".into()),
            ("quotas", keys.into()),
            ("leased_per_s", of(&leased, |round| round.per_second).into()),
            ("strict_per_s", of(&strict, |round| round.per_second).into()),
            ("leased_us", of(&leased, |round| round.here_us).into()),
            ("strict_us", of(&strict, |round| round.here_us).into()),
            ("leased_server_us", of(&leased, |round| round.server_us).into()),
            ("strict_server_us", of(&strict, |round| round.server_us).into()),
            ("leased_p99_us", of(&leased, |round| round.p99_us).into()),
            ("strict_p99_us", of(&strict, |round| round.p99_us).into()),
        ]);
    }
}

fn measured(way: Way, server: &Server, keys: usize) -> Round {
    let quota = Limit::quota(1 << 50, Period::Year, "UTC").expect("good figures");
    let quota = Figures::of(&quota).expect("in range");
    runtime().block_on(async {
        let settings =
            Settings::new(&server.url()).expect("a URL").timeout(Duration::from_secs(10));
        let strict = Strict::start(settings);
        strict.up().await;
        let leases = Leases::new(strict.clone(), LIFETIME, 2 * keys.max(1000));
        let (begin, here, there) = (Instant::now(), cpu_nanos("self"), server.cpu_nanos());
        let local = tokio::task::LocalSet::new();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (strict, leases, quota) = (strict.clone(), leases.clone(), quota.clone());
                local.spawn_local(async move {
                    let mut waits = Vec::with_capacity(CALLS / CALLERS);
                    for call in 0..CALLS / CALLERS {
                        let nth = (call * CALLERS + caller).wrapping_mul(7919) % keys;
                        // The other way's counter is not this one's.
                        let key = format!(
                            "tollgate:ratelimit:user:plan/{way}/{nth}:year",
                            way = way as u8
                        );
                        let asked = Instant::now();
                        let is_admitted = match way {
                            Way::Leased => {
                                let taken = leases.take(&key, &quota, 1).await;
                                taken.expect("answered").is_allowed()
                            }
                            Way::Strict => {
                                let answer = strict.take(&[Charge::new(&key, &quota)]).await;
                                answer.expect("answered").verdict().is_admitted()
                            }
                        };
                        assert!(is_admitted);
                        waits.push(asked.elapsed().as_secs_f64() * 1e6);
                    }
                    waits
                })
            })
            .collect();
        local.await;
        let mut waits = Vec::new();
        for caller in callers {
            waits.extend(caller.await.expect("ran"));
        }
        let (took, calls) = (begin.elapsed().as_secs_f64(), waits.len() as f64);
        let micros = |before: u64, after: u64| (after - before) as f64 / 1000.0 / calls;
        // A node that stops returns its slices: that is part of what they cost.
        leases.close().await;
        waits.sort_unstable_by(f64::total_cmp);
        Round {
            per_second: calls / took,
            here_us: micros(here, cpu_nanos("self")),
            server_us: micros(there, server.cpu_nanos()),
            p99_us: waits[waits.len() * 99 / 100],
        }
    })
}
