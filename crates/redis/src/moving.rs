//! Calls of counters whose slot is on its way to another server of the cluster.
//!
//! ```text
//! MOVED     the slot is there for good            ─▶ the driver learns it, and the call is sent again
//! ASK       the slot moves, this counter has gone  ─▶ sent there, behind ASKING on the same connection
//! TRYAGAIN  not all counters of a call are there   ─▶ sent again a moment later, some times
//! ```
//! None of these calls has run. The driver would follow them by itself only if it might repeat every call that failed, also
//! those that may have run. And it knows no server that has no slot yet, which is where slots go when a cluster grows: hence
//! the connections here. A call that cannot be followed in its time is refused as it was, and no outage.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::link::config;
use crate::settings::Settings;

/// How often a call is sent that has not run because its slot was on its way.
const TRIES: u32 = 8;
/// What is between two of them, where it takes a moment until they would be answered otherwise.
const PAUSE: Duration = Duration::from_millis(2);
/// Slots move to no more servers at once; calls of others are refused.
const MOST: usize = 64;
/// Where nothing was asked for so long is connected to anew: the connection may have died unseen.
const IDLE: Duration = Duration::from_secs(30);

/// A cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    connection: ClusterConnection,
    /// For calls that follow their slots.
    destinations: Option<Arc<Destinations>>,
}

/// The servers that slots are moving to.
struct Destinations {
    settings: Settings,
    all: Mutex<HashMap<String, Destination>>,
}

struct Destination {
    made: Made,
    used: Instant,
}

/// A connection when it is made; the sender is gone if it could not be.
type Made = watch::Receiver<Option<MultiplexedConnection>>;

impl Cluster {
    /// Its calls are refused while their slots move.
    pub(crate) fn new(connection: ClusterConnection) -> Cluster {
        Cluster { connection, destinations: None }
    }

    /// Calls follow their slots from now on. That is for those only which name every key they touch: where some have gone and
    /// others have not, a server knows nothing of keys that are not named, and the call would find them empty.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        let (settings, all) = (settings.clone(), Mutex::default());
        self.destinations = Some(Arc::new(Destinations { settings, all }));
    }

    /// Sends a call to whoever has its slot.
    pub(crate) async fn call(&self, cmd: &Cmd, deadline: Option<Instant>) -> RedisResult<Value> {
        let mut cluster = self.connection.clone();
        let mut answer = sent(&mut cluster, cmd).await;
        for nth in 1..TRIES {
            let Err(error) = &answer else { break };
            let ErrorKind::Server(kind) = error.kind() else { break };
            // What the driver has learned of the first MOVED is right, unless servers do not agree yet.
            if kind == ServerErrorKind::TryAgain || (kind == ServerErrorKind::Moved && nth > 1) {
                if deadline.is_some_and(|deadline| Instant::now() + PAUSE >= deadline) {
                    break;
                }
                sleep(PAUSE).await;
            }
            answer = match (kind, &self.destinations) {
                (ServerErrorKind::Moved | ServerErrorKind::TryAgain, _) => {
                    sent(&mut cluster, cmd).await
                }
                (ServerErrorKind::Ask, Some(all)) => match all.ask(error, cmd, deadline).await {
                    Some(answer) => answer,
                    None => break,
                },
                _ => break,
            };
        }
        answer
    }
}

async fn sent(cluster: &mut ClusterConnection, cmd: &Cmd) -> RedisResult<Value> {
    cluster.req_packed_command(cmd).await?.extract_error()
}

impl Destinations {
    /// Asks where an error says; `None` if that cannot be reached in time, and nothing was sent.
    async fn ask(
        &self,
        error: &RedisError,
        cmd: &Cmd,
        deadline: Option<Instant>,
    ) -> Option<RedisResult<Value>> {
        let (address, _) = error.redirect_node()?;
        let mut made = self.at(address)?;
        let deadline = deadline.unwrap_or_else(|| Instant::now() + IDLE);
        let connection = timeout_at(deadline, made.wait_for(Option::is_some)).await.ok()?;
        let mut there = connection.ok()?.clone()?;
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING").add_command(cmd.clone());
        let answers = there.send_packed_commands(&both, 0, 2).await;
        if answers.is_err() {
            let mut all = self.all.lock();
            if all.get(address).is_some_and(|other| other.made.same_channel(&made)) {
                all.remove(address);
            }
        }
        Some(answers.and_then(|answers| {
            let mut answers = answers.into_iter().map(Value::extract_error);
            let asking = answers.next().unwrap_or(Ok(Value::Nil));
            let answer = answers.next().unwrap_or(Ok(Value::Nil));
            match answer {
                // A user who may not say ASKING is sent back to where it came from.
                Err(sent_back) if asking.is_err() => Err(asking.err().unwrap_or(sent_back)),
                answer => answer,
            }
        }))
    }

    /// The connection to a server, which is made once for all who want it: it may take longer than any of them waits.
    fn at(&self, address: &str) -> Option<Made> {
        let (mut all, now) = (self.all.lock(), Instant::now());
        all.retain(|_, one| now.duration_since(one.used) < IDLE && !one.has_failed());
        if let Some(known) = all.get_mut(address) {
            known.used = now;
            return Some(known.made.clone());
        }
        if all.len() >= MOST {
            return None;
        }
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let there = self.settings.clone().at(host, port.parse().ok()?);
        let client = Client::open(there.info).ok()?;
        let (sender, made) = watch::channel(None);
        tokio::spawn(async move {
            let connection = client.get_multiplexed_async_connection_with_config(&config()).await;
            if let Ok(connection) = connection {
                sender.send_replace(Some(connection));
            }
        });
        all.insert(address.to_owned(), Destination { made: made.clone(), used: now });
        Some(made)
    }
}

impl Destination {
    fn has_failed(&self) -> bool {
        self.made.has_changed().is_err() && self.made.borrow().is_none()
    }
}
