//! Every file that we give to people is good, by the schema, the loader and the compiler alike.

use std::path::{Path, PathBuf};

use tollgate_policy::compile::Policy;
use tollgate_policy::{Question, load, schema};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn examples() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn example(name: &str) -> Policy {
    let text = std::fs::read(folder().join(name)).unwrap();
    Policy::of(name, &text).unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

#[test]
fn every_example_is_good_without_a_warning() {
    let judge = jsonschema::draft202012::new(&schema()).unwrap();
    let all = examples();
    assert!(all.len() >= 5, "{all:?}");
    for (name, text) in all {
        let loaded = load(&name, text.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(judge.is_valid(&serde_json::to_value(loaded.document.root()).unwrap()), "{name}");
        let policy = example(&name);
        assert!(policy.warnings().is_empty(), "{name}: {}", policy.warnings());
        let modeline = "# yaml-language-server: $schema=tollgate.schema.json\n";
        assert!(text.starts_with(modeline), "{name}: editors find no schema");
    }
}

#[test]
fn the_schema_that_editors_find_is_the_one_we_print() {
    let path = folder().join("tollgate.schema.json");
    let printed = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("TOLLGATE_WRITE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == printed, "run this test with TOLLGATE_WRITE=1 to write the schema anew");
}

fn chain(name: &str, tenant: &str, route: Option<&str>) -> Vec<(String, u64, u64, u64)> {
    let question = Question { tenant, route, ..Question::default() };
    let explained = example(name).explain(&question).unwrap();
    let link = |link: tollgate_policy::Link| (link.source, link.rate, link.capacity, link.cost);
    explained.chain.into_iter().map(link).collect()
}

/// Record 001's tiers and costs.
#[test]
fn tiers_are_as_the_record_has_them() {
    for (tenant, plan, rate, capacity) in [
        ("hobbyist", "plan:free", 10, 100),
        ("acme", "plan:pro", 100, 1000),
        ("globex", "plan:enterprise", 1000, 10_000),
    ] {
        for (route, cost) in [
            ("POST /v1/completions", 5),
            ("POST /v1/chat/completions", 5),
            ("POST /v1/jobs", 3),
            ("GET /v1/models", 1),
        ] {
            let first = chain("tiers.yaml", tenant, Some(route)).swap_remove(0);
            assert_eq!(first, (plan.to_owned(), rate, capacity, cost), "{tenant} {route}");
        }
        assert_eq!(chain("tiers.yaml", tenant, Some("GET /health")), []);
    }
}

/// Record 000's first example.
#[test]
fn the_hierarchy_folds_to_1000_a_minute_with_a_burst_of_100() {
    let question = Question { tenant: "customer-1", ..Question::default() };
    let effective = example("hierarchy.yaml").explain(&question).unwrap().effective.unwrap();
    assert_eq!((effective.sustained.rate, &*effective.sustained.window), (1000, "minute"));
    assert_eq!(effective.burst.capacity, 100);
}

/// Record 002: both layers are charged.
#[test]
fn a_monthly_plan_charges_a_bucket_and_a_balance() {
    assert_eq!(
        chain("monthly.yaml", "vienna-bakery", None),
        [("plan:starter".to_owned(), 5, 20, 1), ("plan:starter".to_owned(), 10_000, 10_000, 1)]
    );
}

/// Record 004's tiers 2 and 3.
#[test]
fn three_tiers_are_as_the_record_has_them() {
    assert_eq!(
        chain("three-tier.yaml", "organization-a", None),
        [("default:client".to_owned(), 50, 100, 1), ("default:tenant".to_owned(), 500, 1000, 1)]
    );
}
