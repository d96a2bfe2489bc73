//! `tollgate doctor` on real servers, in good and in bad states.

use std::process::{Command, Output};

use serde_json::Value;

use crate::groups::{Cluster, Watched};
use crate::ports::Port;
use crate::servers::{Brand, Server, on_both};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate")).arg("doctor").args(args).output().unwrap()
}

/// What it finds, and whether it ends well.
struct Found {
    findings: Vec<Value>,
    is_good: bool,
}

impl Found {
    fn at(url: &str, rest: &[&str]) -> Found {
        let output = doctor(&[&["--json", "--redis", url], rest].concat());
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
        let is_good = report["good"].as_bool().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(!is_good)), "{report:#}");
        Found { findings: report["findings"].as_array().unwrap().clone(), is_good }
    }

    fn of(&self, subject: &str) -> &Value {
        let found = self.findings.iter().find(|finding| finding["subject"] == subject);
        found.unwrap_or_else(|| panic!("nothing about {subject}: {:#?}", self.findings))
    }

    /// What is said of a subject is this bad, in these words.
    fn is(&self, subject: &str, level: &str, words: &[&str]) {
        let finding = self.of(subject);
        assert_eq!(finding["level"], level, "{finding:#}");
        let told = format!("{} {}", finding["found"], finding["advice"]);
        assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
    }

    /// Nothing but these is wrong.
    fn wrong(&self) -> Vec<&str> {
        let wrong = self.findings.iter().filter(|finding| finding["level"] == "wrong");
        wrong.map(|finding| finding["subject"].as_str().unwrap()).collect()
    }
}

fn a_server_that_is_well_is_called_good(brand: Brand) {
    let server = Server::start_with(
        brand,
        &["--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction"],
    );
    let found = Found::at(&server.url(), &[]);
    assert!(found.is_good, "{:#?}", found.findings);
    found.is("version", "good", &[if brand == Brand::Redis { "Redis 7" } else { "Valkey" }]);
    for subject in ["role", "rights", "eviction", "memory", "persistence", "clock"] {
        found.is(subject, "good", &[]);
    }
    assert!(found.of("latency")["found"].as_str().unwrap().contains("round trip"));
    assert!(server.ask::<Vec<String>>(&["KEYS", "*"]).is_empty(), "it leaves nothing behind");

    let output = doctor(&["--redis", &server.url()]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("  good     eviction") && told.contains("Good: it can keep"), "{told}");
}

fn a_server_that_evicts_is_wrong_and_told_why(brand: Brand) {
    let server =
        Server::start_with(brand, &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let found = Found::at(&server.url(), &[]);
    assert_eq!(found.wrong(), ["eviction"]);
    found.is("eviction", "wrong", &["allkeys-lru", "CONFIG SET maxmemory-policy noeviction"]);
    server.ask::<String>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(Found::at(&server.url(), &[]).is_good);
    // Nearly full.
    let info: String = server.ask(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let most = (used.trim().parse::<u64>().unwrap() + 1000).to_string();
    server.ask::<String>(&["CONFIG", "SET", "maxmemory", &most]);
    Found::at(&server.url(), &[]).is("memory", "wrong", &["raise `maxmemory`"]);
}

fn a_user_without_rights_is_told_which(brand: Brand) {
    let server = Server::start(brand);
    let set = |rules: &[&str]| {
        server.ask::<String>(
            &[&["ACL", "SETUSER", "weak", "reset", "on", ">secret"], rules].concat(),
        );
        Found::at(&format!("redis://weak:secret@127.0.0.1:{}", server.port()), &[])
    };
    let found = set(&["~tollgate:*", "&tollgate:*", "+@all", "-hset", "-zadd"]);
    assert_eq!(found.wrong(), ["rights"]);
    found.is("rights", "wrong", &["HSET, ZADD", "ACL SETUSER"]);
    set(&["~tollgate:*", "&tollgate:*", "+@all", "-evalsha", "-eval"]).is(
        "rights",
        "wrong",
        &["EVALSHA"],
    );
    set(&["~other:*", "&*", "+@all"]).is("rights", "wrong", &["EVALSHA", "key"]);
    let found = set(&["~tollgate:*", "resetchannels", "+@all"]);
    assert!(found.is_good);
    found.is("rights", "warning", &["PUBLISH", "SUBSCRIBE", "within a second"]);
    // What it advises is enough.
    let advised = ["~tollgate:*", "&tollgate:*", "+@read", "+@write", "+@scripting", "+@pubsub"];
    let rest = ["+@connection", "+time", "+info", "+role", "+cluster|slots"];
    set(&[&advised[..], &rest].concat()).is("rights", "good", &[]);
    // Also of commands that only a script calls, each of which is tried.
    for command in ["hrandfield", "zremrangebyscore", "pexpire", "xdel", "spop"] {
        let found = set(&["~tollgate:*", "&tollgate:*", "+@all", &format!("-{command}")]);
        found.is("rights", "wrong", &[&command.to_uppercase()]);
    }
    // And without the right password nothing.
    let found = Found::at(&format!("redis://weak:wrong@127.0.0.1:{}", server.port()), &[]);
    found.is("connection", "wrong", &["user and password"]);
    assert!(!format!("{:?}", found.findings).contains("wrong@"), "no secret is told");
}

fn a_replica_is_told_from_its_primary(brand: Brand) {
    let watched = Watched::start(brand, "mymaster");
    let found = Found::at(&watched.replica.url(), &[]);
    let port = watched.primary.port().to_string();
    assert_eq!(found.wrong(), ["role"]);
    found.is("role", "wrong", &["a replica of 127.0.0.1", &port, "mode: sentinel"]);
    // By the sentinel it is found, and without that word it is told.
    let by_sentinel = Found::at(&watched.url(), &["--mode", "sentinel"]);
    assert!(by_sentinel.is_good, "{:#?}", by_sentinel.findings);
    by_sentinel.is("role", "good", &["1 replicas"]);
    Found::at(&watched.url(), &[]).is("mode", "wrong", &["mode: sentinel"]);
}

fn a_cluster_without_all_its_slots_is_wrong(brand: Brand) {
    let cluster = Cluster::start(brand);
    let url = cluster.url();
    let found = Found::at(&url, &["--mode", "cluster"]);
    assert!(found.is_good, "{:#?}", found.findings);
    found.is("cluster", "good", &["all 16384 slots", "3 primaries"]);
    Found::at(&url, &[]).is("cluster", "wrong", &["mode: cluster"]);
    // Nobody finds the slots who may not ask for them.
    for server in cluster.servers() {
        let rules = ["weak", "on", ">secret", "~*", "&*", "+@all", "-cluster|slots", "-asking"];
        server.ask::<String>(&[&["ACL", "SETUSER"], &rules[..]].concat());
    }
    let weak = url.replace("redis://", "redis://weak:secret@");
    Found::at(&weak, &["--mode", "cluster"]).is("rights", "wrong", &["CLUSTER SLOTS", "ASKING"]);
    for server in cluster.servers() {
        server.ask::<String>(&["CLUSTER", "DELSLOTSRANGE", "100", "199"]);
    }
    let found = Found::at(&url, &["--mode", "cluster"]);
    assert!(found.wrong().contains(&"cluster"), "{:#?}", found.findings);
    found.is("cluster", "wrong", &["16284 of 16384", "--cluster fix"]);
    let alone = Server::start(brand);
    Found::at(&alone.url(), &["--mode", "cluster"]).is("cluster", "wrong", &["mode: single"]);
}

/// Rights are each server's own. They were tried only on the primary that has the slot of one name.
fn rights_are_tried_on_every_primary(brand: Brand) {
    let cluster = Cluster::start(brand);
    let url = cluster.url().replace("redis://", "redis://weak:secret@");
    let advised = ["~tollgate:*", "&tollgate:*", "+@read", "+@write", "+@scripting", "+@pubsub"];
    let rest = ["+@connection", "+time", "+info", "+role", "+cluster|slots", "+cluster|info"];
    let set = |server: &Server, more: &[&str]| {
        let user = ["ACL", "SETUSER", "weak", "reset", "on", ">secret"];
        server.ask::<String>(&[&user, &advised[..], &rest, more].concat());
    };
    cluster.servers().iter().for_each(|server| set(server, &[]));
    let found = Found::at(&url, &["--mode", "cluster"]);
    let good = |subject: &str| {
        let is_good = |one: &&Value| one["subject"] == subject && one["level"] == "good";
        found.findings.iter().filter(is_good).count()
    };
    assert_eq!((found.is_good, good("rights")), (true, 3), "{:#?}", found.findings);
    for server in cluster.servers() {
        set(server, &["-hset"]);
        let found = Found::at(&url, &["--mode", "cluster"]);
        let wrong: Vec<&Value> =
            found.findings.iter().filter(|finding| finding["level"] == "wrong").collect();
        assert_eq!(wrong.len(), 1, "{:#?}", found.findings);
        let told = wrong[0].to_string();
        assert!(told.contains("HSET") && told.contains(&server.port().to_string()), "{told}");
        set(server, &[]);
        assert!(server.ask::<Vec<String>>(&["KEYS", "*"]).is_empty(), "it leaves nothing behind");
    }
    // A cluster that does not tell of its slots is one all the same.
    cluster.servers().iter().for_each(|server| set(server, &["-cluster|info"]));
    let found = Found::at(&url, &["--mode", "cluster"]);
    assert!(found.is_good, "{:#?}", found.findings);
    found.is("cluster", "warning", &["CLUSTER INFO", "+cluster|info"]);
}

fn what_it_is_for_decides_what_is_wrong(brand: Brand) {
    let server = Server::start(brand);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.yaml");
    let upstream = "upstreams: { api: { url: \"http://127.0.0.1:1\" } }\n\
                    routes: [ { path: \"/*\", upstream: api } ]\n";
    let write = |rest: &str| {
        let redis = format!("redis: {{ url: \"{}\" }}\n", server.url());
        std::fs::write(&file, format!("{upstream}{redis}{rest}")).unwrap();
        let output = doctor(&["--json", "--config", file.to_str().unwrap()]);
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (code, report) = write("storage: { redis: true }\n");
    assert_eq!(code, Some(1));
    assert!(report.to_string().contains("a restart forgets keys"), "{report:#}");
    let (code, _) = write("rate_limit_sync: { enabled: true }\n");
    assert_eq!(code, Some(0));
    let (code, report) = write("");
    assert_eq!(code, Some(0));
    assert!(report.to_string().contains("uses no Redis"), "{report:#}");
}

#[test]
fn a_dead_server_is_told_with_what_to_do() {
    let nobody = Port::take();
    let url = format!("redis://somebody:secret@{}", nobody.address());
    let found = Found::at(&url, &[]);
    assert_eq!(found.wrong(), ["connection"]);
    found.is("connection", "wrong", &["start it, or correct `redis.url`"]);
    let output = doctor(&["--redis", &url]);
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!told.contains("secret") && told.contains("1 thing is wrong"), "{told}");
    assert_eq!(doctor(&["--redis", "http://x"]).status.code(), Some(2));
    assert_eq!(doctor(&["--mode", "none"]).status.code(), Some(2));
}

on_both! {
    good => a_server_that_is_well_is_called_good;
    evicts => a_server_that_evicts_is_wrong_and_told_why;
    rights => a_user_without_rights_is_told_which;
    replica => a_replica_is_told_from_its_primary;
    cluster => a_cluster_without_all_its_slots_is_wrong;
    everywhere => rights_are_tried_on_every_primary;
    purpose => what_it_is_for_decides_what_is_wrong;
}
