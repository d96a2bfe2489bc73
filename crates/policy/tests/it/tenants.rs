//! The tree of tenants: inheritance, enforcement and budgets, as record 000 has them.

use std::cmp::Ordering;

use proptest::prelude::*;
use tollgate_core::{Rate, Window};
use tollgate_policy::compile::{Figures, Made, Policy, Tenants};
use tollgate_policy::shapes::Tenant;

fn compile(text: &str) -> Result<Policy, Vec<String>> {
    Policy::of("t.yaml", text.as_bytes()).map_err(|faults| {
        let records = faults.diagnostics.records();
        records.map(|r| format!("{}:{}: {}", r.line, r.column, r.message)).collect()
    })
}

fn policy(text: &str) -> Policy {
    compile(text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn figures(tenants: &Tenants, id: &str) -> Option<(String, u64)> {
    let Figures { rate, capacity, .. } = tenants.get(id).expect("declared").effective()?;
    Some((rate.to_string(), capacity))
}

fn limit(sharing: &str, rate: u64, window: &str, capacity: u64) -> String {
    format!(
        "{{ sharing: {sharing}, sustained: {{ rate: {rate}, window: {window} }}, burst: {{ capacity: {capacity} }} }}"
    )
}

/// parent's sharing, what the child says, what is in force for the child, whether the parent is charged too
#[test]
fn every_row_of_the_inheritance_table() {
    let rows = [
        ("private", None, None, false),
        ("private", Some((200, 10)), Some(("200/minute", 10)), false),
        ("private", Some((50, 500)), Some(("50/minute", 500)), false),
        ("inherit", None, Some(("100/minute", 20)), false),
        ("inherit", Some((200, 10)), Some(("100/minute", 10)), false),
        ("inherit", Some((50, 500)), Some(("50/minute", 20)), false),
        ("enforce", None, Some(("100/minute", 20)), true),
        ("enforce", Some((200, 10)), Some(("100/minute", 10)), true),
        ("enforce", Some((50, 500)), Some(("50/minute", 20)), true),
    ];
    for (sharing, own, expected, charged) in rows {
        let parent = limit(sharing, 100, "minute", 20);
        let own = own.map_or(String::new(), |(rate, capacity)| {
            format!(", rate_limit: {}", limit("private", rate, "minute", capacity))
        });
        let text = format!(
            "tenants:\n  - {{ id: child, parent: part{own} }}\n  - {{ id: part, rate_limit: {parent} }}\n"
        );
        let policy = policy(&text);
        let expected = expected.map(|(rate, capacity)| (rate.to_owned(), capacity));
        assert_eq!(figures(policy.tenants(), "child"), expected, "{text}");
        assert_eq!(
            !policy.tenants().get("child").expect("declared").charged().is_empty(),
            charged,
            "{text}"
        );
    }
}

/// Record 000, example 1: the lowest of three, rate and burst each for itself.
#[test]
fn system_partner_and_tenant_fold_to_the_lowest() {
    let policy = policy(
        "
tenants:
  - id: tenant
    parent: partner
    rate_limit: { sustained: { rate: 1000, window: minute }, burst: { capacity: 100 } }
  - id: partner
    rate_limit:
      sharing: enforce
      sustained: { rate: 5000, window: minute }
      burst: { capacity: 500 }
      budget: { mode: allocated, total: 5000, overcommit_ratio: 1.2 }
  - id: system
    rate_limit:
      sharing: enforce
      sustained: { rate: 10000, window: minute }
      burst: { capacity: 1000 }
      budget: { mode: allocated, total: 10000 }
",
    );
    assert_eq!(figures(policy.tenants(), "tenant"), Some(("1000/minute".to_owned(), 100)));
    assert_eq!(figures(policy.tenants(), "partner"), Some(("5000/minute".to_owned(), 500)));
    let tenant = policy.tenants().get("tenant").expect("declared");
    let names = |numbers: &[u32]| -> Vec<&str> {
        numbers.iter().map(|number| policy.tenants().all()[*number as usize].id()).collect()
    };
    assert_eq!(names(tenant.charged()), ["partner", "system"]);
    assert_eq!(names(tenant.pools()), ["partner", "system"]);
}

#[test]
fn inherit_stops_at_a_private_limit_and_enforce_does_not() {
    let file = |sharing: &str| {
        policy(&format!(
            "
tenants:
  - {{ id: top, rate_limit: {} }}
  - {{ id: middle, parent: top, rate_limit: {} }}
  - {{ id: silent, parent: middle }}
  - {{ id: low, parent: silent }}
",
            limit(sharing, 10, "second", 5),
            limit("private", 100, "second", 100)
        ))
    };
    let inherit = file("inherit");
    assert_eq!(figures(inherit.tenants(), "middle"), Some(("10/second".to_owned(), 5)));
    assert_eq!(figures(inherit.tenants(), "silent"), None);
    assert_eq!(figures(inherit.tenants(), "low"), None);
    let enforce = file("enforce");
    assert_eq!(figures(enforce.tenants(), "low"), Some(("10/second".to_owned(), 5)));
    assert_eq!(enforce.tenants().get("low").expect("declared").charged().len(), 1);
}

#[test]
fn rates_of_different_windows_compare_exactly_and_a_tie_keeps_the_nearer() {
    let rows = [
        ((100, "second"), (5000, "minute"), "5000/minute"),
        ((83, "second"), (5000, "minute"), "83/second"),
        ((1, "second"), (60, "minute"), "60/minute"),
        ((60, "minute"), (1, "second"), "1/second"),
        ((86_401, "day"), (1, "second"), "1/second"),
        ((86_399, "day"), (1, "second"), "86399/day"),
    ];
    for ((above, above_window), (own, own_window), expected) in rows {
        let policy = policy(&format!(
            "tenants:\n  - {{ id: part, rate_limit: {} }}\n  - {{ id: child, parent: part, rate_limit: {} }}\n",
            limit("inherit", above, above_window, 7),
            limit("private", own, own_window, 7),
        ));
        assert_eq!(figures(policy.tenants(), "child"), Some((expected.to_owned(), 7)));
    }
}

fn three_children(ratio: f64, third: &str) -> String {
    format!(
        "
tenants:
  - id: part
    rate_limit:
      sustained: {{ rate: 5000, window: minute }}
      budget: {{ mode: allocated, total: 5000, overcommit_ratio: {ratio} }}
  - {{ id: a, parent: part, rate_limit: {{ sustained: {{ rate: 2000, window: minute }} }} }}
  - {{ id: b, parent: part, rate_limit: {{ sustained: {{ rate: 1000, window: minute }} }} }}
  - {{ id: silent, parent: part }}
  - {{ id: c, parent: part, rate_limit: {{ sustained: {third} }} }}
"
    )
}

/// Record 000: 2000 + 1000 + 3000 = 6000 of 5000.
#[test]
fn a_child_that_asks_for_too_much_is_refused_with_all_figures() {
    let text = three_children(1.0, "{ rate: 3000, window: minute }");
    let expected = "10:61: tenant `c` asks for 3000 a minute of `part`'s budget, but only 2000 is available: \
                    5000 × 1 = 5000 in all, 3000 allocated already";
    assert_eq!(compile(&text).unwrap_err(), [expected]);
    let faults = Policy::of("t.yaml", text.as_bytes()).expect_err("too much");
    let [budget] = &faults.budgets[..] else { panic!("one budget") };
    assert_eq!((budget.parent.as_str(), budget.child.as_str()), ("part", "c"));
    assert_eq!((budget.total, budget.overcommit_ratio), (Rate::per_minute(5000), 1.0));
    assert_eq!((budget.allocated, budget.asked, budget.available), (3000.0, 3000.0, 2000.0));
}

#[test]
fn overcommitted_children_are_allowed_with_a_warning() {
    let policy = policy(&three_children(1.5, "{ rate: 3000, window: minute }"));
    let warnings: Vec<_> = policy.warnings().records().map(|r| r.message.to_owned()).collect();
    let expected =
        "the tenants below `part` have 6000 a minute of a total of 5000: they will contend for it";
    assert_eq!(warnings, [expected]);
    assert_eq!(policy.tenants().get("a").expect("declared").pools().len(), 1);
}

#[test]
fn children_count_in_the_parents_window() {
    // 33 a second is 1980 a minute, 34 is 2040; 120,000 an hour is 2000 a minute.
    for (third, fits) in [
        ("{ rate: 33 }", true),
        ("{ rate: 34 }", false),
        ("{ rate: 120000, window: hour }", true),
        ("{ rate: 120001, window: hour }", false),
        ("{ rate: 2880000, window: day }", true),
        ("{ rate: 2880001, window: day }", false),
    ] {
        assert_eq!(compile(&three_children(1.0, third)).is_ok(), fits, "{third}");
    }
}

/// Record 000, example 2: no sum, but one pool for all three.
#[test]
fn a_shared_pool_has_no_sum_and_is_charged_by_all() {
    let policy = policy(
        "
tenants:
  - id: part
    rate_limit: { sharing: inherit, sustained: { rate: 5000, window: minute }, budget: { mode: shared, total: 5000 } }
  - { id: a, parent: part, rate_limit: { sustained: { rate: 4000, window: minute } } }
  - { id: b, parent: part, rate_limit: { sustained: { rate: 4000, window: minute } } }
  - { id: c, parent: part }
",
    );
    for id in ["a", "b", "c", "part"] {
        assert_eq!(policy.tenants().get(id).expect("declared").pools().len(), 1, "{id}");
    }
    assert_eq!(figures(policy.tenants(), "c"), Some(("5000/minute".to_owned(), 5000)));
}

#[test]
fn a_total_above_the_rate_is_a_warning() {
    let policy = policy(
        "tenants:\n  - { id: part, rate_limit: { sustained: { rate: 10 }, budget: { mode: shared, total: 20 } } }\n",
    );
    let warning = policy.warnings().records().next().map(|r| r.message.to_owned());
    assert!(warning.is_some_and(|text| text.starts_with("`total` is 20/second, above")));
}

#[test]
fn trees_that_are_none_are_told_all_at_once() {
    let faults = compile(
        "
tenants:
  - { id: system, parent: acme }
  - { id: acme, parent: sytem }
  - { id: acme }
  - { id: x, parent: z }
  - { id: y, parent: x }
  - { id: z, parent: y }
  - { id: below, parent: x }
",
    )
    .unwrap_err();
    assert_eq!(
        faults,
        [
            "3:27: `system` is the root and has no parent",
            "4:25: there is no tenant `sytem`, did you mean `system`?",
            "5:11: tenant `acme` is declared twice, first in line 4",
            "6:22: tenant `x` is, through its parents, above itself",
            "7:22: tenant `y` is, through its parents, above itself",
            "8:22: tenant `z` is, through its parents, above itself",
        ]
    );
}

/// Each is looked at once: to walk round the circle from each of them anew would take hours.
#[test]
fn a_circle_above_very_many_is_told_of_those_in_it() {
    let file = "tenants:\n  - { id: p, parent: c1 }\n  - { id: c1, parent: p }\n";
    let loaded = tollgate_policy::load("t.yaml", file.as_bytes()).unwrap();
    let below = |n: usize| Tenant {
        id: format!("b{n}").parse().unwrap(),
        ..loaded.value.tenants[1].clone()
    };
    let tenants = (0..200_000).map(below).collect();
    let faults = Policy::compile(loaded.clone(), Made { tenants, ..Made::default() }).unwrap_err();
    let told: Vec<String> = faults
        .diagnostics
        .records()
        .map(|r| format!("{}:{}: {}", r.line, r.column, r.message))
        .collect();
    assert_eq!(
        told,
        [
            "2:22: tenant `p` is, through its parents, above itself",
            "3:23: tenant `c1` is, through its parents, above itself",
        ]
    );
}

/// What is meant is looked for among all of them, so once.
#[test]
fn a_parent_that_is_gone_from_above_very_many_is_told_of_each() {
    let file = "tenants:\n  - { id: part }\n  - { id: b, parent: prat }\n";
    let loaded = tollgate_policy::load("t.yaml", file.as_bytes()).unwrap();
    let below = |n: usize| Tenant {
        id: format!("b{n}").parse().unwrap(),
        ..loaded.value.tenants[1].clone()
    };
    let tenants = (0..100_000).map(below).collect();
    let faults = Policy::compile(loaded.clone(), Made { tenants, ..Made::default() }).unwrap_err();
    assert_eq!(faults.diagnostics.len(), 100_001);
    let told = |r: tollgate_policy::Record<'_>| {
        r.message.ends_with("no tenant `prat`, did you mean `part`?")
    };
    assert!(faults.diagnostics.records().all(told));
}

#[test]
fn sixteen_below_system_are_good_and_seventeen_are_not() {
    let chain = |depth: usize| {
        let mut text = "tenants:\n  - { id: t1 }\n".to_owned();
        for n in 2..=depth {
            text.push_str(&format!("  - {{ id: t{n}, parent: t{} }}\n", n - 1));
        }
        compile(&text)
    };
    assert!(chain(16).is_ok());
    assert_eq!(chain(18).unwrap_err(), ["18:5: tenant `t17` is more than 16 below `system`"]);
}

/// A node of a random tree: its parent among those before it, and perhaps a limit.
type Node = (usize, Option<(usize, u64, usize, u64)>);

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let limit = proptest::option::of((0usize..3, 1u64..5000, 0usize..4, 1u64..50));
    proptest::collection::vec((any::<usize>(), limit), 1..25)
}

const SHARINGS: [&str; 3] = ["private", "inherit", "enforce"];
const WINDOWS: [&str; 4] = ["second", "minute", "hour", "day"];
const SECS: [u64; 4] = [1, 60, 3600, 86_400];

proptest! {
    /// Each node's figures by walking up its line and collecting whatever reaches it, in whichever order the file
    /// lists them.
    #[test]
    fn figures_are_the_lowest_of_whatever_reaches_a_tenant(nodes in nodes(), reversed: bool) {
        let parent = |n: usize| (n > 0).then(|| nodes[n].0 % n);
        let depth = |n: usize| std::iter::successors(Some(n), |at| parent(*at)).count();
        prop_assume!((0..nodes.len()).all(|n| depth(n) <= 16));
        let mut lines: Vec<String> = nodes.iter().enumerate().map(|(n, (_, own))| {
            let above = parent(n).map_or(String::new(), |p| format!(", parent: t{p}"));
            let own = own.map_or(String::new(), |(sharing, rate, window, capacity)| {
                format!(", rate_limit: {}", limit(SHARINGS[sharing], rate, WINDOWS[window], capacity))
            });
            format!("  - {{ id: t{n}{above}{own} }}\n")
        }).collect();
        if reversed {
            lines.reverse();
        }
        let policy = policy(&format!("tenants:\n{}", lines.concat()));
        // Whoever reaches a tenant: its own limit, all that reaches the nearest above it that has a limit and
        // shares it, and all that reaches those above it that enforce theirs.
        let mut reaching: Vec<Vec<(u64, usize, u64)>> = Vec::new();
        for n in 0..nodes.len() {
            let above: Vec<usize> = std::iter::successors(parent(n), |at| parent(*at)).collect();
            let nearest = above.iter().copied().find(|at| nodes[*at].1.is_some());
            let sharing = |at: usize| nodes[at].1.map_or(0, |own| own.0);
            let mut all: Vec<_> = nodes[n].1.iter().map(|own| (own.1, own.2, own.3)).collect();
            all.extend(nearest.filter(|at| sharing(*at) > 0).iter().flat_map(|at| reaching[*at].clone()));
            all.extend(above.iter().filter(|at| sharing(**at) == 2).flat_map(|at| reaching[*at].clone()));
            reaching.push(all);
        }
        for (n, reaching) in reaching.iter().enumerate() {
            let rate = |limit: &(u64, usize, u64)| Rate::new(limit.0, Window::ALL[limit.1]);
            let slowest = reaching.iter().map(rate).min_by(|a, b| a.compare(*b));
            let found = policy.tenants().get(&format!("t{n}")).expect("declared").effective();
            prop_assert_eq!(found.is_some(), slowest.is_some());
            if let (Some(found), Some(slowest)) = (found, slowest) {
                prop_assert_eq!(found.rate.compare(slowest), Ordering::Equal, "t{} of {:?}", n, nodes);
                prop_assert_eq!(Some(found.capacity), reaching.iter().map(|limit| limit.2).min());
            }
        }
    }

    /// Whatever sequence of changes was accepted one by one, the file as a whole is one that a fresh load accepts;
    /// and a change is refused exactly when the sum is above what the parent gives.
    #[test]
    fn accepted_changes_never_leave_a_tree_that_a_load_would_refuse(
        changes in proptest::collection::vec((0usize..5, 0u64..2000, 0usize..4), 1..40),
        total in 1u64..4000, ratio in 100u32..=200
    ) {
        let mut children: Vec<Option<(u64, usize)>> = vec![None; 5];
        let text = |children: &[Option<(u64, usize)>]| {
            let mut text = format!(
                "tenants:\n  - {{ id: part, rate_limit: {{ sustained: {{ rate: 4000, window: minute }}, budget: \
                 {{ mode: allocated, total: {total}, overcommit_ratio: {}.{:02} }} }} }}\n",
                ratio / 100, ratio % 100
            );
            for (n, child) in children.iter().enumerate() {
                let own = child.map_or(String::new(), |(rate, window)| {
                    format!(", rate_limit: {}", limit("private", rate, WINDOWS[window], 1))
                });
                text.push_str(&format!("  - {{ id: c{n}, parent: part{own} }}\n"));
            }
            text
        };
        for (child, rate, window) in changes {
            let mut changed = children.clone();
            changed[child] = (rate > 0).then_some((rate, window));
            let a_day = |rate: u64, window: usize| u128::from(rate) * u128::from(86_400 / SECS[window]);
            let sum: u128 = changed.iter().flatten().map(|(rate, window)| a_day(*rate, *window)).sum();
            let fits = sum * 100 <= a_day(total, 1) * u128::from(ratio);
            prop_assert_eq!(compile(&text(&changed)).is_ok(), fits);
            if fits {
                children = changed;
            }
        }
        prop_assert!(compile(&text(&children)).is_ok());
    }
}
