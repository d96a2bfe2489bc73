//! What facts mean for what Tollgate promises, and what to do about it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tollgate_policy::shapes::{self, RedisMode};

use super::facts::{Facts, Server};

/// The oldest version that has what scripts use.
const OLDEST: u32 = 7;
/// Slots of a cluster.
const SLOTS: &str = "16384";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Good,
    /// Worth knowing.
    Note,
    /// Better otherwise, and no promise breaks.
    Warning,
    /// A promise breaks.
    Wrong,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Wrong => "WRONG",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) subject: &'static str,
    /// Which server, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

/// What the server is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// Nodes count in it.
    pub(super) counts: bool,
    /// Keys, tenants, plans and usage are in it.
    pub(super) keeps: bool,
    /// The longest that a request waits.
    pub(super) timeout: Duration,
}

impl Purpose {
    /// Nobody said: it may be for counters.
    pub(super) fn unknown(timeout: Duration) -> Purpose {
        Purpose { counts: true, keeps: false, timeout }
    }
}

/// Everything that is to be said, worst of each server in the order of asking.
pub(super) fn judge(facts: &Facts, redis: &shapes::Redis, purpose: Purpose) -> Vec<Finding> {
    if let Some(why) = &facts.unreachable {
        return vec![unreachable(why)];
    }
    let mut findings = Vec::new();
    let is_one = facts.servers.len() == 1;
    for server in &facts.servers {
        let judging = Judging { server, purpose, findings: &mut findings, is_one };
        judging.all(redis);
    }
    cluster(facts, redis.mode, &mut findings);
    findings
}

fn finding(level: Level, subject: &'static str, found: String) -> Finding {
    Finding { level, subject, server: None, found, advice: None }
}

fn unreachable(why: &str) -> Finding {
    let upper = why.to_uppercase();
    let is_login = ["NOAUTH", "WRONGPASS", "AUTHENTICATION", "USERNAME-PASSWORD"]
        .iter()
        .any(|word| upper.contains(word));
    let advice = if is_login {
        "write user and password into the URL: redis://user:password@host:port"
    } else {
        "start it, or correct `redis.url` and what is between: names, ports, firewalls, TLS"
    };
    let advice = Some(advice.to_owned());
    Finding { advice, ..finding(Level::Wrong, "connection", why.to_owned()) }
}

fn cluster(facts: &Facts, mode: RedisMode, findings: &mut Vec<Finding>) {
    let mut push = |level, found: String, advice: &str| {
        let advice = (!advice.is_empty()).then(|| advice.to_owned());
        findings.push(Finding { advice, ..finding(level, "cluster", found) });
    };
    match (&facts.cluster, mode) {
        (None, RedisMode::Cluster) => {
            push(Level::Wrong, "this server is no cluster".to_owned(), "write `mode: single`");
        }
        (Some(_), RedisMode::Single) => {
            let found = "this server is one of a cluster".to_owned();
            push(Level::Wrong, found, "write `mode: cluster`");
        }
        _ => {}
    }
    let Some(info) = &facts.cluster else { return };
    let ok = text(info, "cluster_slots_ok");
    if info.is_empty() {
        let found = "CLUSTER INFO is not answered: whether all slots are served is not known";
        push(
            Level::Warning,
            found.to_owned(),
            "allow it to the user: `ACL SETUSER … +cluster|info`",
        );
    } else if ok == SLOTS && text(info, "cluster_state") == "ok" {
        let servers = facts.servers.len();
        push(Level::Good, format!("all {SLOTS} slots are served, by {servers} primaries"), "");
    } else {
        let found =
            format!("{ok} of {SLOTS} slots are served, state {}", text(info, "cluster_state"));
        let advice = "counters in the other slots cannot be counted: bring their servers back, or give the slots to \
                      others with `redis-cli --cluster fix`";
        push(Level::Wrong, found, advice);
    }
    for (name, why) in &facts.silent {
        let advice = "its slots cannot be counted in: start it, or let a replica take its place";
        push(Level::Wrong, format!("{name} does not answer: {why}"), advice);
    }
}

fn text<'a>(fields: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

struct Judging<'a> {
    server: &'a Server,
    purpose: Purpose,
    findings: &'a mut Vec<Finding>,
    is_one: bool,
}

impl Judging<'_> {
    fn all(mut self, redis: &shapes::Redis) {
        self.version(redis.mode);
        self.role();
        self.encryption(redis.url.as_str());
        self.rights();
        self.memory();
        self.persistence();
        self.latency();
        self.clock();
    }

    fn say(&mut self, level: Level, subject: &'static str, found: impl Into<String>) {
        let server = (!self.is_one).then(|| self.server.name.clone());
        self.findings.push(Finding { server, ..finding(level, subject, found.into()) });
    }

    fn advise(&mut self, advice: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.advice = Some(advice.into());
        }
    }

    fn info(&self, name: &str) -> &str {
        text(&self.server.info, name)
    }

    fn number(&self, name: &str) -> u64 {
        self.info(name).parse().unwrap_or(0)
    }

    fn version(&mut self, mode: RedisMode) {
        let valkey = self.info("valkey_version");
        let (brand, version) = match valkey {
            "" => ("Redis", self.info("redis_version").to_owned()),
            version => ("Valkey", version.to_owned()),
        };
        if version.is_empty() {
            return self.say(Level::Warning, "version", "it does not say what it is");
        }
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major >= OLDEST) {
            self.say(Level::Good, "version", format!("{brand} {version}"));
        } else {
            self.say(Level::Wrong, "version", format!("{brand} {version}"));
            self.advise(format!("use version {OLDEST} or later, of Redis or Valkey"));
        }
        let is_sentinel = [self.info("redis_mode"), self.info("server_mode")].contains(&"sentinel");
        if is_sentinel && mode != RedisMode::Sentinel {
            self.say(Level::Wrong, "mode", "this is a sentinel");
            self.advise("write `mode: sentinel`");
        }
    }

    fn role(&mut self) {
        match self.info("role") {
            "slave" | "replica" => {
                let primary = format!("{}:{}", self.info("master_host"), self.info("master_port"));
                let found = format!("a replica of {primary}: it can only be read");
                self.say(Level::Wrong, "role", found);
                self.advise(format!(
                    "name the primary, {primary}, or a sentinel with `mode: sentinel`"
                ));
            }
            "master" => {
                let replicas = self.number("connected_slaves");
                self.say(Level::Good, "role", format!("a primary with {replicas} replicas"));
                if replicas > 0 && text(&self.server.config, "min-replicas-to-write") == "0" {
                    self.say(
                        Level::Note,
                        "replication",
                        "a failover loses what the replica has not received yet",
                    );
                    self.advise(
                        "strict counters may then grant one more capacity, and a key may have to be issued again; \
                         `min-replicas-to-write 1` makes that less likely",
                    );
                }
            }
            _ => {}
        }
        if self.info("loading") == "1" {
            self.say(Level::Wrong, "role", "it is still loading its data");
            self.advise("wait until it has");
        }
    }

    fn encryption(&mut self, url: &str) {
        let server = url.rsplit_once('@').map_or(url, |(_, server)| server);
        let server = server.trim_start_matches("redis://");
        let is_here = ["127.", "localhost", "[::1]"].iter().any(|here| server.starts_with(here));
        if url.starts_with("rediss://") {
            self.say(Level::Good, "encryption", "TLS");
        } else if !is_here {
            self.say(Level::Warning, "encryption", "none, and the server is elsewhere");
            self.advise("write `rediss://` if the network between is not your own");
        }
    }

    fn rights(&mut self) {
        if matches!(self.info("role"), "slave" | "replica") {
            return;
        }
        let is_right = |(_, why): &&(String, String)| {
            let why = why.to_uppercase();
            !why.contains("OOM") && !why.contains("MISCONF") && !why.contains("READONLY")
        };
        let refused: Vec<&(String, String)> = self.server.refused.iter().filter(is_right).collect();
        if refused.is_empty() {
            if self.server.was_probed {
                self.say(Level::Good, "rights", "everything that Tollgate does may be done");
            }
            return;
        }
        let is_told = |what: &str| ["PUBLISH", "SUBSCRIBE", "INFO"].contains(&what);
        let mut names: Vec<&str> = refused.iter().map(|(what, _)| what.as_str()).collect();
        names.dedup();
        let level =
            if names.iter().all(|name| is_told(name)) { Level::Warning } else { Level::Wrong };
        let (why, list) = (refused[0].1.clone(), names.join(", "));
        self.say(level, "rights", format!("not allowed: {list} ({why})"));
        self.advise(match level {
            Level::Warning => {
                "without messages nodes learn of keys within a second instead of at once: `ACL SETUSER … \
                 &tollgate:* +publish +subscribe +info`"
            }
            _ => {
                "give the user what counters and storage need: `ACL SETUSER … ~tollgate:* &tollgate:* \
                 +@read +@write +@scripting +@pubsub +@connection +time +info +role +cluster|slots +cluster|info`"
            }
        });
    }

    fn memory(&mut self) {
        let (used, most) = (self.number("used_memory"), self.number("maxmemory"));
        let policy = self.info("maxmemory_policy").to_owned();
        if most > 0 && policy != "noeviction" {
            let found =
                format!("maxmemory-policy is {policy}: a full server deletes counters and keys");
            self.say(Level::Wrong, "eviction", found);
            self.advise(
                "a deleted counter grants its capacity again, a deleted key is gone: `CONFIG SET maxmemory-policy \
                 noeviction`, and in its file",
            );
        } else if most > 0 {
            self.say(
                Level::Good,
                "eviction",
                "noeviction: what does not fit is refused, nothing is deleted",
            );
        } else {
            self.say(
                Level::Note,
                "eviction",
                "no maxmemory: the system ends the server when memory does",
            );
            self.advise(
                "set `maxmemory` below what the machine has, with `maxmemory-policy noeviction`",
            );
        }
        if most == 0 {
            return;
        }
        let percent = used.saturating_mul(100) / most;
        let found = format!("{percent} % of {} MB used", most >> 20);
        match percent {
            0..80 => self.say(Level::Good, "memory", found),
            80..95 => {
                self.say(Level::Warning, "memory", found);
                self.advise(
                    "raise `maxmemory`: a full server refuses new counters, keys and usage",
                );
            }
            _ => {
                self.say(
                    Level::Wrong,
                    "memory",
                    format!("{found}: a full server counts nothing new"),
                );
                self.advise("raise `maxmemory`, or add primaries to the cluster");
            }
        }
    }

    fn persistence(&mut self) {
        let keeps = self.purpose.keeps;
        if self.info("aof_enabled") == "1" {
            let fsync = text(&self.server.config, "appendfsync").to_owned();
            let (level, found) = match fsync.as_str() {
                "always" => (Level::Good, "append-only file, synced before every answer"),
                "no" => (
                    Level::Warning,
                    "append-only file, synced when the system likes: a power failure loses that",
                ),
                _ => (
                    Level::Good,
                    "append-only file, synced every second: a power failure loses one",
                ),
            };
            self.say(level, "persistence", found);
            if keeps && fsync != "always" {
                self.advise("`appendfsync always` makes a key durable before it is shown; it costs a sync a write");
            }
        } else if keeps {
            self.say(Level::Wrong, "persistence", "no append-only file: a restart forgets keys, plans and usage since the last snapshot");
            self.advise("`CONFIG SET appendonly yes`, and in its file");
        } else {
            self.say(Level::Note, "persistence", "no append-only file: after a restart each counter may grant its capacity once more");
            self.advise("`storage: { redis: true }` needs `appendonly yes`; counters alone do not");
        }
        let stops = text(&self.server.config, "stop-writes-on-bgsave-error") != "no";
        if self.info("rdb_last_bgsave_status") == "err" {
            let level = if stops { Level::Wrong } else { Level::Warning };
            self.say(level, "persistence", "the last snapshot failed");
            self.advise("look into its log: the disk is full or may not be written; until then it refuses writes");
        }
        if self.info("aof_last_write_status") == "err" {
            self.say(Level::Wrong, "persistence", "the append-only file cannot be written");
            self.advise("look into its log: the disk is full or may not be written");
        }
    }

    fn latency(&mut self) {
        let pings = &self.server.pings;
        let (Some(median), Some(late)) =
            (pings.get(pings.len() / 2), pings.get(pings.len() * 99 / 100))
        else {
            return;
        };
        let (median, late, timeout) = (*median, *late, self.purpose.timeout);
        let found = format!("a round trip takes {median:.1?}, one in a hundred {late:.1?} or more");
        if median >= timeout {
            self.say(Level::Wrong, "latency", found);
            self.advise(format!(
                "most calls would take longer than `timeout_ms`, {} ms, and be given up: bring it nearer, or raise that",
                timeout.as_millis()
            ));
        } else if late >= timeout / 2 {
            self.say(Level::Warning, "latency", found);
            self.advise(format!(
                "calls above `timeout_ms`, {} ms, are given up: is the machine busy, or do others run slow commands?",
                timeout.as_millis()
            ));
        } else {
            self.say(Level::Good, "latency", found);
        }
    }

    fn clock(&mut self) {
        let Some((offset, uncertain)) = self.server.clock else { return };
        let off = (offset.abs() - uncertain.as_secs_f64()).max(0.0);
        let found = match off {
            off if off < 0.1 => "agrees with this machine's to a tenth of a second".to_owned(),
            _ if offset > 0.0 => format!("{offset:.1} s ahead of this machine's"),
            _ => format!("{:.1} s behind this machine's", -offset),
        };
        let advice = "keep all clocks with NTP: windows, quotas and a key's end are judged by both";
        match off {
            off if off < 0.1 => self.say(Level::Good, "clock", found),
            off if off < 1.0 => {
                self.say(Level::Warning, "clock", found);
                self.advise(advice);
            }
            _ => {
                self.say(Level::Wrong, "clock", found);
                self.advise(advice);
            }
        }
    }
}

#[cfg(test)]
mod tests;
