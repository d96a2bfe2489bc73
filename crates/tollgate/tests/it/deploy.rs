//! What is shipped for those who run it.

use std::path::PathBuf;
use std::process::Command;

use crate::keys::{KEY, digest};
use crate::support::{Tollgate, Upstream, curl, get};

fn deploy(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn promtool(args: &[&str]) -> String {
    let output = Command::new("promtool").args(args).current_dir(deploy("")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    told.into_owned()
}

#[test]
fn the_alerts_are_right_and_fire_when_they_should() {
    promtool(&["check", "rules", "prometheus-rules.yaml"]);
    promtool(&["test", "rules", "prometheus-rules.test.yaml"]);
}

/// Every series that the rules ask of a gateway is one that a gateway tells. Redis need not be there: its figures are told.
#[test]
fn the_rules_ask_for_metrics_that_exist() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ enterprise: {{ rate_limit: {{ sustained: {{ rate: 1, window: day }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: enterprise }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
rate_limit_sync: {{ enabled: true }}
redis: {{ url: \"redis://127.0.0.1:1\" }}
",
        upstream.address,
        digest()
    ));
    get(&gateway.url("/x"), KEY);
    get(&gateway.url("/x"), KEY);
    let told = curl(&[&gateway.admin_url("/metrics")]).body;
    let rules = std::fs::read_to_string(deploy("prometheus-rules.yaml")).unwrap();
    // Without what is said of them.
    let lines = rules.lines().filter(|line| !line.trim_start().starts_with(['#', 's', 'd']));
    let names = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let is_series = |name: &&str| name.starts_with("tollgate_") || name.starts_with("rate_limit_");
    let asked: Vec<&str> = names.filter(is_series).collect();
    assert!(asked.len() >= 9, "{asked:?}");
    for name in asked {
        assert!(told.contains(name), "{name} is asked for and not told:\n{told}");
    }
}

/// Without a bucket for everything Prometheus makes no quantile of a histogram. Redis need not be there: its figures are told.
#[test]
fn every_histogram_counts_everything_in_its_last_bucket() {
    let text = "rate_limit_sync: { enabled: true }\nredis: { url: \"redis://127.0.0.1:1\" }\n";
    let gateway = Tollgate::with(text);
    get(&gateway.url("/x"), KEY);
    let told = curl(&[&gateway.admin_url("/metrics")]).body;
    let value_of = |series: &str| told.lines().find_map(|line| line.strip_prefix(series));
    let types =
        told.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram"));
    let names: Vec<&str> = types.collect();
    assert!(names.len() >= 2 && names.contains(&"tollgate_redis_seconds"), "{names:?}");
    for name in names {
        let last = value_of(&format!("{name}_bucket{{le=\"+Inf\"}} "));
        assert_eq!(last, value_of(&format!("{name}_count ")), "{name}");
        assert!(last.is_some(), "{name} in {told}");
    }
}

#[test]
fn the_unit_stops_the_gateway_later_than_it_stops_by_itself() {
    let unit = std::fs::read_to_string(deploy("tollgate.service")).unwrap();
    let seconds = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    let server = tollgate_policy::shapes::Server::default();
    let own = server.drain_delay_ms + server.drain_timeout_ms;
    assert!(seconds.parse::<u64>().unwrap() * 1000 > own);
}
