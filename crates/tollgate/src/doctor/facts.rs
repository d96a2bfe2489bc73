//! What a server says of itself, and what it was seen to do.

mod primaries;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::time::Instant;
use tollgate_engine::{Clock, SystemClock};
use tollgate_redis::{Lua, Mode, Plain, Settings, Unavailable};

use self::primaries::primaries;

/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(3);
/// Round trips that are measured.
const PINGS: usize = 200;
/// Names that are tried to find one in a slot of the server's own: enough for fifty primaries and more.
const NAMES: usize = 500;

/// What was learned.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Why nothing could be asked.
    pub(super) unreachable: Option<String>,
    /// Every primary; the first is the one that was named.
    pub(super) servers: Vec<Server>,
    /// `CLUSTER INFO`, where there is a cluster; empty if it does not tell.
    pub(super) cluster: Option<BTreeMap<String, String>>,
    /// Primaries that the cluster has and that did not answer.
    pub(super) silent: Vec<(String, String)>,
}

/// One server.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) name: String,
    /// `INFO`, all of it.
    pub(super) info: BTreeMap<String, String>,
    /// Settings that may be asked for.
    pub(super) config: BTreeMap<String, String>,
    /// Round trips, shortest first.
    pub(super) pings: Vec<Duration>,
    /// Its clock less ours, and by how much that may be wrong.
    pub(super) clock: Option<(f64, Duration)>,
    /// What may not be done, and why.
    pub(super) refused: Vec<(String, String)>,
    /// Whether scripts could be tried at all.
    pub(super) was_probed: bool,
}

/// Commands that scripts call, each on a key of its own kind: counters' first, then the storage's.
static PROBE: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(&["
local key, refused = KEYS[1], {}
for _, words in ipairs({
  { 'HSET', key, 'a', '1' }, { 'HGET', key, 'a' }, { 'HMGET', key, 'a' }, { 'HDEL', key, 'b' }, { 'EXISTS', key },
  { 'HRANDFIELD', key, 1, 'WITHVALUES' },
  { 'PEXPIRE', key, 60000 }, { 'TIME' }, { 'UNLINK', key },
  { 'SET', key, '1', 'EX', 60 }, { 'GET', key }, { 'UNLINK', key },
  { 'HINCRBY', key, 'a', 1 }, { 'HLEN', key }, { 'UNLINK', key },
  { 'ZADD', key, 1, 'a' }, { 'ZCARD', key }, { 'ZRANGE', key, 0, 0 }, { 'ZRANGEBYSCORE', key, 0, 1 },
  { 'ZREM', key, 'b' }, { 'ZREMRANGEBYSCORE', key, 5, 6 }, { 'ZPOPMIN', key, 1 },
  { 'SADD', key, 'a' }, { 'SPOP', key },
  { 'XADD', key, '1-0', 'a', '1' }, { 'XRANGE', key, '-', '+' }, { 'XDEL', key, '1-0' }, { 'UNLINK', key },
  { 'PUBLISH', ARGV[1], 'probe' },
}) do
  local done = redis.pcall(unpack(words))
  if type(done) == 'table' and done.err then
    refused[#refused + 1] = words[1]
    refused[#refused + 1] = done.err
  end
end
return refused
"])
});

/// Asks everything.
pub(super) async fn ask(settings: &Settings, prefix: &str) -> Facts {
    let mut facts = Facts::default();
    // A cluster without all of its slots does not let itself be used as one, so each server is asked by itself.
    let first = match settings.way() {
        Mode::Cluster => settings.clone().mode(Mode::Single),
        Mode::Single | Mode::Sentinel => settings.clone(),
    };
    let server = match Server::ask(first, settings.address(), prefix).await {
        Ok(server) => server,
        Err(why) => {
            facts.unreachable = Some(why.to_string());
            return facts;
        }
    };
    let is_clustered = server.info.get("cluster_enabled").is_some_and(|enabled| enabled == "1");
    facts.servers.push(server);
    if is_clustered {
        let plain = Plain::new(settings.clone().mode(Mode::Single));
        let info = asked(&plain, cmd("CLUSTER").arg("INFO")).await;
        facts.cluster = Some(info.map(|info| fields(&info)).unwrap_or_default());
        for (host, port) in primaries(&plain).await {
            let name = format!("{host}:{port}");
            if facts.servers.iter().any(|server| server.name == name) {
                continue;
            }
            let other = settings.clone().mode(Mode::Single).at(&host, port);
            match Server::ask(other, name.clone(), prefix).await {
                // The one that was named may be known by another address there.
                Ok(server) if facts.servers.iter().any(|other| other.is(&server)) => {}
                Ok(server) => facts.servers.push(server),
                Err(why) => facts.silent.push((name, why.to_string())),
            }
        }
    }
    facts
}

async fn asked(plain: &Plain, cmd: &mut Cmd) -> Result<String, Unavailable> {
    let value = plain.ask(std::mem::take(cmd), WITHIN).await?;
    Ok(words(&value).into_iter().next().unwrap_or_default())
}

/// In a cluster the key may be another server's, or nobody's: which slots are served is told apart.
fn is_elsewhere(why: &str) -> bool {
    let why = why.to_uppercase();
    why.contains("MOVED") || why.contains("CLUSTERDOWN") || why.contains("HASH SLOT")
}

fn is_down(why: &str) -> bool {
    why.to_uppercase().contains("THE CLUSTER IS DOWN")
}

/// All texts of an answer, however it nests.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Value::SimpleString(text) => vec![text.clone()],
        Value::VerbatimString { text, .. } => vec![text.clone()],
        Value::Int(number) => vec![number.to_string()],
        Value::Array(values) | Value::Set(values) => values.iter().flat_map(words).collect(),
        Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [words(key), words(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

/// Lines of `name:value`.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.trim_end().split_once(':')?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

impl Server {
    /// `Err` if it cannot even be greeted.
    async fn ask(settings: Settings, name: String, prefix: &str) -> Result<Server, Unavailable> {
        let plain = Plain::new(settings);
        plain.ask(cmd("PING"), WITHIN).await?;
        let mut server = Server { name, ..Server::default() };
        match asked(&plain, cmd("INFO").arg("everything")).await {
            Ok(info) => server.info = fields(&info),
            Err(why) => server.refused.push(("INFO".to_owned(), why.to_string())),
        }
        for name in ["appendfsync", "stop-writes-on-bgsave-error", "min-replicas-to-write"] {
            // Where it may not be asked for, it is told so.
            let value = plain.ask(cmd("CONFIG").arg("GET").arg(name).clone(), WITHIN).await;
            if let Some(value) = value.ok().and_then(|value| words(&value).into_iter().nth(1)) {
                server.config.insert(name.to_owned(), value);
            }
        }
        server.measure(&plain).await;
        server.probe(&plain, prefix).await;
        Ok(server)
    }

    /// Whether both are the same process.
    fn is(&self, other: &Server) -> bool {
        let id = |server: &Server| server.info.get("run_id").cloned();
        id(self).is_some_and(|ours| id(other) == Some(ours))
    }

    async fn measure(&mut self, plain: &Plain) {
        for _ in 0..PINGS {
            let begin = Instant::now();
            if plain.ask(cmd("PING"), WITHIN).await.is_ok() {
                self.pings.push(begin.elapsed());
            }
        }
        self.pings.sort_unstable();
        let clock = SystemClock::new();
        let mut best: Option<(f64, Duration)> = None;
        for _ in 0..5 {
            let (begin, before) = (Instant::now(), clock.now());
            let Ok(value) = plain.ask(cmd("TIME"), WITHIN).await else { continue };
            let trip = begin.elapsed();
            let numbers = words(&value);
            let number = |at: usize| numbers.get(at).and_then(|text| text.parse::<f64>().ok());
            let (Some(seconds), Some(micros)) = (number(0), number(1)) else { continue };
            // It looked at its clock halfway, give or take half the way.
            let ours = before.as_nanos() as f64 / 1e9 + trip.as_secs_f64() / 2.0;
            let offset = seconds + micros / 1e6 - ours;
            if best.is_none_or(|(_, uncertain)| trip / 2 < uncertain) {
                best = Some((offset, trip / 2));
            }
        }
        self.clock = best;
    }

    /// Tries what Tollgate does, on a key that it deletes.
    async fn probe(&mut self, plain: &Plain, prefix: &str) {
        let Server { refused, info, was_probed, .. } = self;
        let mut refuse = |what: &str, why: String| refused.push((what.to_owned(), why));
        let load = plain.ask(cmd("SCRIPT").arg("LOAD").arg("return 1").clone(), WITHIN).await;
        if let Err(why) = load {
            refuse("SCRIPT LOAD", why.to_string());
        }
        // How a cluster's slots are found and followed; other servers know nothing of it.
        if info.get("cluster_enabled").is_some_and(|enabled| enabled == "1") {
            for (name, tried) in
                [("CLUSTER SLOTS", cmd("CLUSTER").arg("SLOTS").clone()), ("ASKING", cmd("ASKING"))]
            {
                if let Err(Unavailable::Refused(why)) = plain.ask(tried, WITHIN).await {
                    refuse(name, why);
                }
            }
        }
        let channel = format!("{prefix}:doctor");
        let (mut key, mut plain) = (String::new(), Plain::new(plain.settings().clone()));
        // Rights are each server's own, and in a cluster one answers only for keys in its slots: names are tried until one is.
        for nth in 0..NAMES {
            key = format!("{prefix}:doctor:{}:{nth}", std::process::id());
            let mut probe = PROBE.with_keys(&[&key]);
            probe.arg(&channel);
            match plain.run(&PROBE, probe, WITHIN).await {
                Ok(value) => {
                    *was_probed = true;
                    let found = words(&value);
                    found.chunks_exact(2).for_each(|pair| refuse(&pair[0], pair[1].clone()));
                }
                // One that is down as a whole answers so for any name.
                Err(Unavailable::Refused(why)) if is_down(&why) => {}
                // Who was led elsewhere connects anew, and not at once.
                Err(Unavailable::Refused(why)) if is_elsewhere(&why) => {
                    plain = Plain::new(plain.settings().clone());
                    continue;
                }
                Err(why) => refuse("EVALSHA", why.to_string()),
            }
            break;
        }
        for words in
            [&["HSCAN", &key, "0"][..], &["XREVRANGE", &key, "+", "-"], &["SMEMBERS", &key]]
        {
            let asked = plain.ask(cmd(words[0]).arg(&words[1..]).clone(), WITHIN).await;
            if let Err(Unavailable::Refused(why)) = asked
                && !is_elsewhere(&why)
            {
                refuse(words[0], why);
            }
        }
        if let Err(why) = plain.subscribe(&channel).await {
            refuse("SUBSCRIBE", why.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
