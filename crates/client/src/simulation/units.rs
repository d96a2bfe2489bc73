//! What requests are said to cost, and limits that are charged that, or something else.

use super::*;

/// The client counts requests, the server tokens; ten of them look like ten sharers.
#[test]
fn a_cost_that_nobody_told_is_found_out() {
    let setup = Setup { cost: 10, ..Setup::bucket(5, false, 200, 200) };
    let figures = Simulation::new(setup).run();
    assert!(figures.used >= 0.95 && figures.refused <= 0.02, "{figures:?}");
}

/// A quota counts requests. Many are on their way at once, also of others.
#[test]
fn a_window_that_counts_requests_is_used_whatever_they_are_said_to_cost() {
    for (clients, is_shared, said) in [(3, false, 20), (3, false, 1_000), (5, true, 20)] {
        let limit = Limit::fixed_window(Rate::per_minute(600)).build().unwrap();
        let setup =
            Setup { limit, said, seconds: 240, ..Setup::bucket(clients, is_shared, 10, 10) };
        let figures = Simulation::new(setup).run();
        assert!(figures.used >= 0.9 && figures.refused <= 0.02, "{figures:?}");
    }
}

/// Windows and buckets that count costs, which are told.
#[test]
fn a_cost_that_is_told_is_used_and_not_refused() {
    let limits = [
        Limit::fixed_window(Rate::per_minute(6_000)),
        Limit::token_bucket(Rate::per_second(100)).burst(100),
    ];
    for limit in limits {
        for (clients, is_shared) in [(3, false), (5, true)] {
            let limit = limit.build().unwrap();
            let setup =
                Setup { limit, cost: 10, said: 10, ..Setup::bucket(clients, is_shared, 100, 100) };
            let setup = Setup { seconds: 240, ..setup };
            let figures = Simulation::new(setup).run();
            assert!(figures.used >= 0.85 && figures.refused <= 0.02, "{figures:?}");
        }
    }
}

/// What a limit counts that is charged `cost`, where `said` is said.
fn by_costs(setup: Setup, cost: u64, said: u64) -> [Setup; 2] {
    let setup = Setup { cost, said, seconds: 240, ..setup };
    [
        Setup { clients: 1, is_shared: false, ..setup.clone() },
        Setup { clients: 5, is_shared: true, latency_ms: (200, 1_000), ..setup },
    ]
}

/// Tokens a second that come back all the time. Without a window that looks like one that ends when all is back.
#[test]
fn a_bucket_without_a_window_is_not_taken_for_one_that_counts_requests() {
    for burst in [9_000, 90_000] {
        for said in [100, 120] {
            let setup = Setup::bucket(1, false, 1_500, burst);
            for setup in by_costs(Setup { tells: Tells::NoWindow, ..setup }, 100, said) {
                let figures = Simulation::new(setup).run();
                assert_eq!(figures.by_requests, 0, "{figures:?}");
            }
        }
    }
}

/// As of a model: what it answers is known afterwards.
#[test]
fn a_cost_that_is_said_to_be_more_than_is_charged_is_still_a_cost() {
    let limit = Limit::fixed_window(Rate::per_minute(6_000)).build().unwrap();
    for (cost, said) in [(10, 12), (10, 100), (100, 101)] {
        for setup in by_costs(
            Setup { limit: limit.clone(), ..Setup::bucket(1, false, 100, 100) },
            cost,
            said,
        ) {
            let figures = Simulation::new(setup).run();
            assert_eq!(figures.by_requests, 0, "{figures:?}");
            assert!(figures.used >= 0.7 && figures.refused <= 0.005, "{figures:?}");
        }
    }
}

/// What they tell in turns is not one series, and may well go down by one.
#[test]
fn nodes_that_count_each_by_itself_are_not_taken_for_one_that_counts_requests() {
    let limit = Limit::fixed_window(Rate::per_minute(6_000)).build().unwrap();
    for nodes in [2, 3] {
        let setup = Setup { limit: limit.clone(), nodes, ..Setup::bucket(1, false, 100, 100) };
        let setup = Setup { tells: Tells::NoWindow, is_uneven: true, ..setup };
        for setup in by_costs(setup, 7, 7) {
            let setup = Setup { clients: 5, is_shared: true, ..setup };
            let figures = Simulation::new(setup).run();
            assert_eq!(figures.by_requests, 0, "{figures:?}");
            assert!(figures.used >= 0.7 && figures.refused <= 0.05, "{figures:?}");
        }
    }
}
