//! Calls of counters whose slot is on its way to another server of the cluster.
//!
//! ```text
//! MOVED   the slot is there for good           ─▶ the driver learns it, and the call is sent again
//! ASK     the slot moves, this counter has gone ─▶ sent there, behind ASKING on the same connection
//! TRYAGAIN  some counters of a call have gone    ─▶ sent again a moment later, some times
//! ```
//! None of these calls has run. The driver would follow them by itself only if it might repeat every call that failed, also
//! those that may have run. And it knows no server that has no slot yet, which is where slots go when a cluster grows: hence
//! the connections here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::Mutex;

use crate::link::config;
use crate::settings::Settings;

/// How often a call is sent that has not run because its slot was on its way.
const TRIES: u32 = 8;
/// What is between two of them, where part of a call's counters has gone.
const PAUSE: Duration = Duration::from_millis(2);
/// A cluster that moves slots to more servers than this at once connects to some of them anew.
const MOST: usize = 64;

/// A cluster, and the servers that slots are moving to.
#[derive(Clone)]
pub(crate) struct Cluster {
    cluster: ClusterConnection,
    settings: Arc<Settings>,
    /// Locked while one is connected to: of all calls of a slot that begins to move only the first connects.
    destinations: Arc<Mutex<HashMap<String, MultiplexedConnection>>>,
}

impl Cluster {
    pub(crate) fn new(cluster: ClusterConnection, settings: &Settings) -> Cluster {
        let destinations = Arc::default();
        Cluster { cluster, settings: Arc::new(settings.clone()), destinations }
    }

    /// Sends a call to whoever has its slot.
    pub(crate) async fn call(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut cluster = self.cluster.clone();
        let mut answer = sent(&mut cluster, cmd).await;
        for _ in 1..TRIES {
            let Err(error) = &answer else { break };
            answer = match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => sent(&mut cluster, cmd).await,
                ErrorKind::Server(ServerErrorKind::TryAgain) => {
                    tokio::time::sleep(PAUSE).await;
                    sent(&mut cluster, cmd).await
                }
                ErrorKind::Server(ServerErrorKind::Ask) => match self.destination(error).await {
                    Some(there) => self.ask(there, cmd).await,
                    None => break,
                },
                _ => break,
            };
        }
        answer
    }

    /// Where a call is to be asked instead, if that can be reached.
    async fn destination(&self, error: &RedisError) -> Option<(String, MultiplexedConnection)> {
        let (address, _) = error.redirect_node()?;
        let mut destinations = self.destinations.lock().await;
        if let Some(known) = destinations.get(address) {
            return Some((address.to_owned(), known.clone()));
        }
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let there = Settings::clone(&self.settings).at(host, port.parse().ok()?);
        let client = Client::open(there.info).ok()?;
        let made = client.get_multiplexed_async_connection_with_config(&config()).await.ok()?;
        if destinations.len() >= MOST {
            destinations.clear();
        }
        destinations.insert(address.to_owned(), made.clone());
        Some((address.to_owned(), made))
    }

    async fn ask(
        &self,
        (address, mut there): (String, MultiplexedConnection),
        cmd: &Cmd,
    ) -> RedisResult<Value> {
        let mut both = Pipeline::new();
        both.cmd("ASKING").add_command(cmd.clone());
        let answers = there.send_packed_commands(&both, 1, 1).await;
        if answers.is_err() {
            self.destinations.lock().await.remove(&address);
        }
        answers?.into_iter().next().unwrap_or(Value::Nil).extract_error()
    }
}

async fn sent(cluster: &mut ClusterConnection, cmd: &Cmd) -> RedisResult<Value> {
    cluster.req_packed_command(cmd).await?.extract_error()
}
