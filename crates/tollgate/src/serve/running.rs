//! A gateway that runs, until it is told to stop.

use std::fmt::Write;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot};
use tollgate_admin::{Admin, Health, Listening, Open};
use tollgate_policy::ListenAddress;
use tollgate_policy::shapes::Server;
use tollgate_storage::Store;

use super::books::{Bookkeeper, Page};
use super::control::Served;
use super::counting::Counting;
use super::failed;
use super::metrics::Scraped;
use super::outages;
use super::signals::{Signal, Signals};
use super::source::Source;
use super::storage::keep_tidy;
use super::watch::{Changed, Watch};
use crate::admin_url::{AdminUrl, Announced, reachable};
use crate::exit::Failure;

/// How long what was told twice to stop may still take to write things down.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long after a failure what others have written is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// A gateway that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) served: Served,
    pub(crate) data: tollgate_gateway::Running,
    pub(crate) admin: Admin,
    pub(crate) admin_listener: TcpListener,
    /// Tells commands beside it where the admin API is.
    pub(crate) announced: Option<Announced>,
    /// What is kept, and the counters that are kept there or elsewhere.
    pub(crate) storage: (Store, Counting),
    /// Other nodes have changed tenants or plans.
    pub(crate) elsewhere: Arc<Notify>,
    pub(crate) books: Bookkeeper,
    pub(crate) pages: UnboundedReceiver<Page>,
    pub(crate) watch: Watch,
    /// Where people find the admin token.
    pub(crate) token_place: String,
}

impl Running {
    /// What is said when it has started.
    pub(crate) fn greeting(&self) -> String {
        let scheme = if self.plane_has_tls() { "https" } else { "http" };
        let gateway = format!("{scheme}://{}", reachable(self.data.address()));
        let address = self.admin_listener.local_addr();
        let of_admin = self.served.server().admin_tls;
        let admin =
            address.map_or_else(|_| "-".to_owned(), |at| AdminUrl::new(at, of_admin.as_ref()).url);
        let mut text = format!("Tollgate {} is ready.\n\n", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "  gateway  {gateway}");
        let _ = writeln!(text, "  admin    {admin}  (token: {})", self.token_place);
        if let Source::BuiltIn { upstream, key, echo, .. } = self.served.source() {
            let what = if echo.is_some() { "  (built in: it tells what it was sent)" } else { "" };
            let _ = writeln!(text, "  upstream {upstream}{what}");
            let _ = writeln!(text, "\nTry it:\n");
            let _ = writeln!(text, "curl -i {gateway}/hello -H \"x-api-key: {}\"", key.as_str());
            text.push_str(
                "\nThe key is good until this process ends. A client may make 50 requests a second, 100 at once; the\n\
                 headers of every answer tell how many are left, and a refusal when to come back. See one:\n\n",
            );
            let _ = writeln!(
                text,
                "curl -s -o /dev/null -w '%{{http_code}} ' \"{gateway}/?[1-150]\" -H \"x-api-key: {}\"",
                key.as_str()
            );
            let token = match self.token_place.strip_prefix('$') {
                Some(_) => self.token_place.clone(),
                None => format!("$(cat {})", self.token_place),
            };
            let _ = writeln!(text, "\nIssue a key that stays:\n");
            let _ = writeln!(
                text,
                "curl -s {admin}/v1/keys -H \"authorization: Bearer {token}\" -H \"content-type: application/json\" -d '{{\"tenant\": \"demo\"}}'"
            );
            text.push_str(
                "\nNext: write a file (examples/quickstart.yaml) and start with --config.\n",
            );
        }
        text
    }

    fn plane_has_tls(&self) -> bool {
        self.served.server().tls.is_some()
    }

    /// Serves until SIGTERM or SIGINT, reloading on SIGHUP and when the file or a certificate changes.
    pub(crate) async fn until_told(self, mut signals: Signals) -> Result<(), Failure> {
        let Running { served, data, admin, admin_listener, storage, announced, .. } = self;
        let Running { elsewhere, books, pages, mut watch, .. } = self;
        let (store, counting) = storage;
        let health = Health::default();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scraped {
            shared: Arc::clone(served.shared()),
            counts: Arc::clone(data.counts()),
            storage: Arc::clone(&books.state),
            counting: counting.clone(),
        }));
        let open = Open { health: health.clone(), registry };
        let (end_admin, ended) = oneshot::channel::<()>();
        let mut listening = Listening::from(admin_listener);
        if let Some(certificates) = served.admin_certificates() {
            listening = listening.with_tls(Arc::clone(certificates.config()));
        }
        let serving = admin.clone();
        let serving = tokio::spawn(async move {
            serving.serve(listening, open, async { drop(ended.await) }).await
        });
        let books = books.start(pages)?;
        let again = Arc::new(Notify::new());
        let tidying = tokio::spawn(keep_tidy(store.clone(), served.clone()));
        let settling = tokio::spawn(counting.clone().keep_tidy());
        let settings = served.shared().plane().in_force().policy().settings().clone();
        let telling = tokio::spawn(outages::tell(counting.clone(), settings));
        health.set_ready(true);
        loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    Signal::Reload => {
                        reload(&admin, "SIGHUP", &again).await;
                        served.renew_admin_certificates();
                    }
                    Signal::Stop => break,
                },
                () = elsewhere.notified() => refresh(&admin, &elsewhere).await,
                changed = watch.changed(|| served.server()) => match changed {
                    Changed::Certificates => served.renew_certificates(),
                    Changed::File if served.is_in_force() => {
                        tracing::info!("the file was written, and says what is in force");
                    }
                    Changed::File => reload(&admin, "file", &again).await,
                },
                () = again.notified() => reload(&admin, "file", &again).await,
            }
        }
        tracing::info!("stopping: finishing what is in flight");
        health.set_ready(false);
        tidying.abort();
        settling.abort();
        telling.abort();
        data.stop().stop();
        let drained = async {
            tokio::task::spawn_blocking(move || data.wait()).await.map_err(failed)??;
            // The last worker has handed over its last count; when all is stored, so have the books.
            books.wait().await;
            counting.close().await;
            Ok::<(), Failure>(())
        };
        tokio::select! {
            drained = drained => drained?,
            () = signals.stop() => {
                tracing::warn!("told again: stopping at once");
                let _ = tokio::time::timeout(LAST_WORDS, counting.close()).await;
                tokio::time::sleep(LAST_WORDS).await;
            }
        }
        served.close_log().await;
        drop(announced);
        drop(end_admin);
        serving.await.map_err(failed)??;
        store.close().await.map_err(failed)?;
        if let Source::BuiltIn { echo: Some(echo), .. } = served.source() {
            echo.stop().stop();
        }
        Ok(())
    }
}

/// Reads the file again and puts it into force, as the API does; a bad one changes nothing and says why.
/// Where only the storage did not work it is tried again.
async fn reload(admin: &Admin, actor: &str, again: &Arc<Notify>) {
    match admin.reload(actor).await {
        Ok(_) => tracing::info!("a new configuration is in force"),
        Err(why) if why.is_passing() => {
            tracing::error!(
                "the new configuration is not in force yet, and will be tried again: {why}"
            );
            soon(again);
        }
        Err(why) => {
            tracing::error!("the new configuration is not used, the old one stays in force: {why}");
        }
    }
}

/// Puts into force what other nodes have made; what cannot be is tried again.
async fn refresh(admin: &Admin, elsewhere: &Arc<Notify>) {
    match admin.refresh().await {
        Ok(_) => tracing::info!("what another node made of tenants and plans is in force"),
        Err(why) => {
            tracing::error!(
                "what another node made of tenants and plans is not in force here: {why}: do all nodes have the same file?"
            );
            soon(elsewhere);
        }
    }
}

/// Tells it in a while.
fn soon(whom: &Arc<Notify>) {
    let whom = Arc::clone(whom);
    tokio::spawn(async move {
        tokio::time::sleep(AGAIN).await;
        whom.notify_one();
    });
}

/// Binds the admin listener before anything is served.
pub(crate) fn bind_admin(server: &Server) -> Result<TcpListener, Failure> {
    let address = server.admin_listen.socket();
    TcpListener::bind(address).map_err(|error| not_bound(&server.admin_listen, &error))
}

/// Why an address was not to be had, and what would be right.
pub(crate) fn not_bound(address: &ListenAddress, error: &io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is taken by another program: stop that, or write another address into the file"
        ),
        _ => format!("cannot listen on {address}: {error}"),
    })
}
