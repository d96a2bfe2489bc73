//! `tollgate serve`: from a configuration to a running gateway, and back.

mod access_log;
mod books;
mod control;
mod counting;
mod declared;
mod echo;
mod keys;
mod lost_upstreams;
mod metrics;
mod opened;
mod outages;
mod predecessors;
mod refused;
mod rewrite;
mod running;
mod sharing_metrics;
mod signals;
mod source;
mod storage;
mod watch;

use std::fmt::Display;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tollgate_admin::{Admin, Exposed, NotReady, check_address, made};
use tollgate_gateway::Gateway;
use tollgate_gateway::law::{Law, Metrics, Plane, Shared};
use tollgate_policy::Loaded;
use tollgate_policy::compile::{Made, Policy};
use tollgate_policy::shapes::Server;
use tollgate_storage::Store;
use tracing::Level;

use crate::admin_url::{AdminUrl, announce};
use crate::args::Serve;
use crate::exit::Failure;
use crate::output::{print, tell};
use access_log::AccessLog;
use books::{Book, Bookkeeper, StorageState};
use control::{Parts, Served};
use counting::Counting;
use keys::{AllKeys, Watched};
use opened::{NotOpened, Opened, certificates};
use refused::Refusals;
use running::{Running, bind_admin, not_bound};
use signals::Signals;
use source::Source;
use watch::Watch;

pub(crate) fn run(args: &Serve) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(Level::INFO)
        .init();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Before anybody is told that it runs: a signal that nobody listens to ends the process on the spot.
    let signals = {
        let _within = runtime.enter();
        Signals::new()?
    };
    let running = start(Source::choose(args)?, &runtime)?;
    print(&running.greeting())?;
    let done = runtime.block_on(running.until_told(signals));
    // Whoever was told twice to stop does not wait for what is in flight.
    runtime.shutdown_background();
    done
}

/// Refuses an admin API that others could listen to.
pub(crate) fn check_admin(server: &Server) -> Result<(), Exposed> {
    let is_safe = server.admin_tls.is_some() || server.admin_exposed;
    check_address(server.admin_listen.socket(), is_safe)
}

/// What is kept, and the policy that it amounts to together with the file.
struct Kept {
    folder: PathBuf,
    store: Store,
    watched: Watched,
    policy: Policy,
}

/// Everything opened, bound and started. The storage comes before the listeners: of two processes only one has it.
fn start(source: Source, runtime: &Runtime) -> Result<Running, Failure> {
    // Looked at before it is read: what changes from here on is a change.
    let mut watch = Watch::new(source.file());
    let text = source.read()?;
    let loaded = source.load(&text).map_err(unusable)?;
    let server = loaded.value.server.clone();
    check_admin(&server).map_err(exposed)?;
    watch.look_at_certificates(&server);
    judge_alone(&loaded)?;
    let not_opened = |why: NotOpened| unusable(why.told(&source, &text));
    let admin_certificates =
        certificates(server.admin_tls.as_ref(), "admin_tls").map_err(not_opened)?;
    let access_log = Arc::new(AccessLog::default());
    let Opened { settings, sink } = Opened::of(&server, &access_log).map_err(not_opened)?;
    access_log.turn_to(sink);
    let Kept { folder, store, watched, policy } = keep(loaded, runtime)?;
    let (token, token_place) = storage::token(&folder)?;

    let (gate, counting) = Counting::start(policy.settings(), &store)?;
    let (keys, metrics) = (AllKeys::default(), Metrics::default());
    let plane = Plane::prepare(policy, None).map_err(failed)?.bind(&gate, &metrics);
    let shared = Shared::new((gate, metrics), keys, plane);
    let now = storage::now(shared.gate());
    runtime.block_on(watched.begin(&shared, (&store, now))).map_err(failed)?;
    declared::warn(shared.plane().in_force().policy(), (shared.keys().snapshot(), now));

    let admin_listener = bind_admin(&server)?;
    let told = AdminUrl::new(admin_listener.local_addr()?, server.admin_tls.as_ref());
    let announced = announce(&folder, &told).inspect_err(|why| {
        tracing::warn!(
            "commands beside it must be told its address, which {} cannot keep: {why}",
            folder.display()
        );
    });
    let gateway = Gateway::bind(settings).map_err(|error| not_bound(&server.listen, &error))?;
    let (to_books, pages) = mpsc::unbounded_channel();
    let of_workers = (Arc::clone(&shared), Arc::clone(&access_log));
    let work = move || Law::new(&of_workers.0, Book::new(&of_workers.1, &to_books));
    let data = gateway.start(work).map_err(failed)?;

    let (refusals, state) = (Arc::new(Refusals::default()), StorageState::new());
    let books = Bookkeeper { store: store.clone(), refusals: Arc::clone(&refusals), state };
    let tuning = data.tuning();
    // It was read as a configuration, so it is text.
    let text = ArcSwap::from_pointee(Arc::from(String::from_utf8_lossy(&text)));
    let parts = Parts { source, shared, tuning, admin_certificates, access_log, refusals, text };
    let served = Served::new(parts);
    let admin = Admin::new(store.clone(), Arc::new(served.clone()), token);
    let announced = announced.ok();
    let elsewhere = watched.objects;
    let storage = (store, counting);
    Ok(Running {
        served,
        data,
        admin,
        admin_listener,
        announced,
        storage,
        elsewhere,
        books,
        pages,
        watch,
        token_place,
    })
}

/// Where nothing was made yet the file is judged alone, and a bad one leaves nothing behind: no folder, no log.
fn judge_alone(loaded: &Loaded) -> Result<(), Failure> {
    let storage = &loaded.value.storage;
    if !storage.redis && !storage::folder(storage).exists() {
        Policy::compile(loaded.clone(), Made::default())
            .map_err(|faults| unusable(faults.into()))?;
    }
    Ok(())
}

/// Opens the storage and compiles the file with what the API made.
fn keep(loaded: Loaded, runtime: &Runtime) -> Result<Kept, Failure> {
    let folder = storage::folder(&loaded.value.storage);
    let watched = Watched::default();
    let store = storage::open(&loaded.value, &watched)?;
    let made = runtime.block_on(made(&store)).map_err(failed)?;
    let policy = Policy::compile(loaded, made).map_err(|faults| unusable(faults.into()))?;
    tell(policy.warnings());
    Ok(Kept { folder, store, watched, policy })
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// A configuration that cannot be used, said on standard error.
fn unusable(why: NotReady) -> Failure {
    match why {
        NotReady::Faults(faults) => {
            tell(&faults.diagnostics);
            Failure::BadConfiguration
        }
        NotReady::Failed(why) => Failure::Failed(why),
        other => Failure::Failed(format!("{other:?}")),
    }
}

fn exposed(why: Exposed) -> Failure {
    eprintln!("tollgate: {why}: `server.admin_exposed: true` in the file, or --admin-exposed");
    Failure::BadConfiguration
}
