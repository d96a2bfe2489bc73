//! A node: a gate under a policy, a database, and the control plane over both on a listener.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate_admin::live::{self, LiveLimit, NoSuch, Whose};
use tollgate_admin::{
    Admin, AdminToken, ConfigInForce, ConfigText, DataPlane, Health, NotReady, Open, Ready,
    RefusalRing, RefusedRequest,
};
use tollgate_core::Time;
use tollgate_engine::{Clock, FakeClock};
use tollgate_gate::{Gate, InForce};
use tollgate_policy::ApiKey;
use tollgate_policy::compile::{Made, Policy};
use tollgate_storage::{Embedded, KeySnapshot, Store};

use crate::{Answer, Ask};

pub const TOKEN: &str = "token-of-the-tests-0123456789";
pub const NOW: Time = Time::from_secs(1_800_000_000);

/// What requests are decided by: all of it real, but for the clock.
pub struct Plane {
    pub gate: Gate<FakeClock>,
    pub clock: FakeClock,
    pub file: PathBuf,
    state: Mutex<(Arc<InForce>, Arc<str>)>,
    /// While this is locked, no policy is put into force.
    pub hold: Mutex<()>,
    /// How many policies have begun to be put into force.
    pub begun: AtomicUsize,
    pub refusals: RefusalRing,
}

pub struct SharedPlane(pub Arc<Plane>);

impl DataPlane for SharedPlane {
    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.0.state.lock().0)
    }

    fn config(&self) -> ConfigInForce {
        ConfigInForce { name: "tollgate.yaml".into(), text: Arc::clone(&self.0.state.lock().1) }
    }

    fn prepare(&self, text: ConfigText<'_>, made: Made) -> Result<Ready, NotReady> {
        let before = self.config().text;
        let text: Arc<str> = match text {
            ConfigText::InForce => before,
            ConfigText::New(text) => text.into(),
            ConfigText::File => std::fs::read_to_string(&self.0.file).unwrap().into(),
        };
        let loaded = tollgate_policy::load("tollgate.yaml", text.as_bytes()).map_err(|faults| {
            let budgets = Vec::new();
            Box::new(tollgate_policy::compile::PolicyFaults { diagnostics: faults, budgets })
        })?;
        let policy = Policy::compile(loaded, made)?;
        let old = self.in_force();
        if old.policy().settings().server.listen != policy.settings().server.listen {
            return Err(NotReady::NeedsRestart(vec!["server.listen".to_owned()]));
        }
        let plane = Arc::clone(&self.0);
        Ok(Ready::new(&policy.clone(), move || {
            plane.begun.fetch_add(1, Relaxed);
            let _while_held = plane.hold.lock();
            let in_force = plane.gate.enforce(policy);
            *plane.state.lock() = (in_force, text);
        }))
    }

    fn write_config(&self, text: &str) -> Result<(), NotReady> {
        std::fs::write(&self.0.file, text).map_err(|why| NotReady::Failed(why.to_string()))
    }

    fn limits(&self, whose: &Whose) -> Result<Vec<LiveLimit>, NoSuch> {
        live::look(&self.0.gate, &self.in_force(), whose)
    }

    fn reset(&self, whose: &Whose, counter: &str) -> Result<bool, NoSuch> {
        live::reset(&self.0.gate, &self.in_force(), (whose, counter))
    }

    fn refusal(&self, request_id: &str) -> Option<RefusedRequest> {
        self.0.refusals.find(request_id)
    }
}

/// A node that runs until it is dropped.
pub struct Node {
    pub address: SocketAddr,
    pub plane: Arc<Plane>,
    pub keys: Arc<KeySnapshot<()>>,
    pub store: Store,
    pub runtime: Runtime,
    pub health: Health,
    pub folder: TempDir,
    /// While this is locked, a change of a key holds up everything that is to be stored after it.
    pub hold: Arc<Mutex<()>>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
}

/// A file with a bit of everything.
pub const FILE: &str = "\
upstreams: { api: { url: \"http://127.0.0.1:3000\" } }
routes:
  - { path: /v1/chat, methods: [POST], upstream: api, operation: chat, rate_limit: { cost: 5 } }
  - { path: \"/*\", upstream: api }
plans:
  free: { rate_limit: { sustained: { rate: 10 }, burst: { capacity: 100 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 100 }, burst: { capacity: 1000 }, scope: user } }
tenants:
  - { id: part, rate_limit: { sustained: { rate: 100 }, budget: { mode: allocated, total: 100, overcommit_ratio: 1.5 } } }
  - { id: acme, plan: free, rate_limit: { sustained: { rate: 50 } } }
";

impl Node {
    pub fn start() -> Node {
        Node::of(FILE)
    }

    pub fn of(file: &str) -> Node {
        Node::in_folder(file, tempfile::tempdir().unwrap())
    }

    /// A node that finds what an earlier one left in its folder.
    pub fn in_folder(file: &str, folder: TempDir) -> Node {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let keys = Arc::new(KeySnapshot::new());
        let hold = Arc::new(Mutex::new(()));
        let (watched, held) = (Arc::clone(&keys), Arc::clone(&hold));
        let store = Embedded::at(folder.path().join("data"))
            .watch_keys(move |key| {
                let _while_held = held.lock();
                watched.apply(key, ());
            })
            .open()
            .unwrap();
        let path = folder.path().join("tollgate.yaml");
        std::fs::write(&path, file).unwrap();
        let made = runtime.block_on(tollgate_admin::made(&store)).unwrap();
        let loaded = tollgate_policy::load("tollgate.yaml", file.as_bytes()).unwrap();
        let policy = Policy::compile(loaded, made).unwrap();
        let clock = FakeClock::at(NOW);
        let gate = Gate::with_clock(clock.clone(), 10_000);
        let state = Mutex::new((gate.enforce(policy), file.into()));
        let refusals = RefusalRing::new(2);
        let (hold_policies, begun) = (Mutex::new(()), AtomicUsize::new(0));
        let plane = Plane { gate, clock, file: path, state, hold: hold_policies, begun, refusals };
        let plane = Arc::new(plane);
        runtime.block_on(store.for_each_key(NOW, |key| keys.apply(&key, ()))).unwrap();
        let token = AdminToken::new(TOKEN).unwrap();
        let admin = Admin::new(store.clone(), Arc::new(SharedPlane(Arc::clone(&plane))), token);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let health = Health::default();
        let open = Open { health: health.clone(), registry: Registry::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let served = runtime.spawn(async move {
            admin.serve(listener, open, async { drop(stopped.await) }).await.unwrap();
        });
        Node {
            address,
            plane,
            keys,
            store,
            runtime,
            health,
            folder,
            hold,
            stop: Some(stop),
            served: Some(served),
        }
    }

    /// Stops it, and leaves its folder.
    pub fn stop(mut self) -> TempDir {
        drop(self.stop.take());
        self.runtime.block_on(self.store.close()).unwrap();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        self.runtime.shutdown_background();
        folder
    }

    /// Tells its listener to stop; the answer is done when it has.
    pub fn tell_to_stop(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.served.take().unwrap()
    }

    pub fn send(&self, ask: &Ask) -> Answer {
        ask.send(self.address)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&Ask::new("GET", path))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send(&Ask::new("DELETE", path))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&Ask::new("POST", path).json(body))
    }

    pub fn put(&self, path: &str, if_match: &str, body: &Value) -> Answer {
        self.send(&Ask::new("PUT", path).header("if-match", if_match).json(body))
    }

    /// Whether requests with this key are let in now.
    pub fn lets_in(&self, key: &str) -> bool {
        let key = ApiKey::read(key.as_bytes()).unwrap();
        self.keys.find(&key.sha256(), self.plane.clock.now()).is_some()
    }

    /// The policy in force.
    pub fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.plane.state.lock().0)
    }
}
