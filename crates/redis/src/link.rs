//! One connection, to a server or to a cluster, that carries many calls at once.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, Pipeline, RedisError,
    RedisResult, TlsMode, Value,
};

use tokio::time::Instant;

use crate::moving::Cluster;
use crate::scripts::SCRIPTS;
use crate::settings::{Mode, Settings, at_once};

/// How long a connection may take to be made. Nobody waits for it: calls fail at once until it is there.
const CONNECT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) enum Link {
    Server(MultiplexedConnection),
    Cluster(Cluster),
}

impl Link {
    /// Connects for counters, and sees that the server answers and has the scripts.
    pub(crate) async fn connect(settings: &Settings) -> RedisResult<Link> {
        let mut link = Link::open(settings).await?;
        if let Link::Cluster(cluster) = &mut link {
            cluster.follow(settings);
        }
        for script in SCRIPTS.all() {
            link.call(redis::cmd("SCRIPT").arg("LOAD").arg(&script.body)).await?;
        }
        Ok(link)
    }

    /// Connects, and nothing else.
    pub(crate) async fn open(settings: &Settings) -> RedisResult<Link> {
        Ok(match settings.mode {
            Mode::Single => {
                let client = Client::open(settings.info.clone())?;
                Link::Server(client.get_multiplexed_async_connection_with_config(&config()).await?)
            }
            Mode::Sentinel => {
                let found = primary(settings).await?.get_connection_info().clone();
                let client = Client::open(found.set_tcp_settings(at_once()))?;
                Link::Server(client.get_multiplexed_async_connection_with_config(&config()).await?)
            }
            Mode::Cluster => {
                // A call that failed may have run: the driver may not repeat it.
                let client = ClusterClientBuilder::new(settings.seeds())
                    .retries(0)
                    .tcp_settings(at_once())
                    .connection_timeout(CONNECT)
                    .response_timeout(Duration::from_secs(60))
                    .build()?;
                Link::Cluster(Cluster::new(client.get_async_connection().await?))
            }
        })
    }

    async fn call(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Link::Server(server) => server.send_packed_command(cmd).await?.extract_error(),
            Link::Cluster(cluster) => cluster.call(cmd, None).await,
        }
    }

    /// Sends all at once, for callers who wait until then. Answers are in order; an error of one call does not concern the others.
    pub(crate) async fn call_all(
        &self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        match self {
            Link::Server(server) => {
                let count = pipeline.len();
                let values = server.clone().send_packed_commands(pipeline, 0, count).await?;
                Ok(values.into_iter().map(Value::extract_error).collect())
            }
            Link::Cluster(cluster) => {
                Ok(join_all(pipeline.cmd_iter().map(|cmd| cluster.call(cmd, Some(deadline)))).await)
            }
        }
    }
}

pub(crate) fn config() -> AsyncConnectionConfig {
    // Calls have a deadline of their own, which also decides whether the server is thought dead.
    AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(CONNECT))
}

/// The server that sentinels call the primary.
///
/// One that has a password says nothing to whoever sends none, and one that has none refuses whoever sends one. They are
/// asked in both ways at once: where one of them is gone, there may be no time for one way after the other.
pub(crate) async fn primary(settings: &Settings) -> RedisResult<Client> {
    let mut openly = sentinel(settings, None)?;
    let Some(password) = settings.info.redis_settings().password() else {
        return openly.async_get_client().await;
    };
    let mut by_password = sentinel(settings, Some(password))?;
    let openly = pin!(openly.async_get_client());
    let by_password = pin!(by_password.async_get_client());
    match select(by_password, openly).await {
        Either::Left((Ok(client), _)) | Either::Right((Ok(client), _)) => Ok(client),
        Either::Left((Err(why), openly)) => openly.await.map_err(|_| why),
        Either::Right((Err(_), by_password)) => by_password.await,
    }
}

/// Those who know which server is the primary. They have the server's user, if a password is sent to them.
fn sentinel(settings: &Settings, password: Option<&str>) -> RedisResult<SentinelClient> {
    let mut builder = SentinelClientBuilder::new(
        settings.seeds().map(|seed| seed.addr().clone()).collect::<Vec<_>>(),
        settings.master.clone(),
        SentinelServerType::Master,
    )?;
    // Whoever speaks with the sentinel in secret does with the server it names: credentials are sent to both.
    if let ConnectionAddr::TcpTls { insecure, .. } = settings.info.addr() {
        let mode = if *insecure { TlsMode::Insecure } else { TlsMode::Secure };
        builder = builder.set_client_to_redis_tls_mode(mode);
    }
    let redis = settings.info.redis_settings();
    builder = builder.set_client_to_redis_db(redis.db());
    if let Some(user) = redis.username() {
        builder = builder.set_client_to_redis_username(user);
        if password.is_some() {
            builder = builder.set_client_to_sentinel_username(user);
        }
    }
    if let Some(password) = redis.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(password) = password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    builder.build()
}

/// Whether the server as a whole is of no use now, and not only this call.
pub(crate) fn is_down(error: &RedisError) -> bool {
    use redis::ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly};
    match error.kind() {
        ErrorKind::Server(BusyLoading | ClusterDown | MasterDown | ReadOnly | Moved) => true,
        // An extension is an error whose name the driver does not know.
        ErrorKind::Server(_) | ErrorKind::Extension => false,
        _ => true,
    }
}
