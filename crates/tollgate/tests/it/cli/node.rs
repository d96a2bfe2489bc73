//! A control plane in this process: a gate under a policy, a database, and the admin API on a listener.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tollgate_admin::live::{self, LiveLimit, NoSuch, Whose};
use tollgate_admin::{
    Admin, AdminToken, ConfigInForce, ConfigText, DataPlane, Health, NotReady, Open, Ready,
    RefusalRing, RefusedRequest,
};
use tollgate_core::Time;
use tollgate_engine::{Clock, FakeClock, SystemClock};
use tollgate_gate::{Gate, Holder, InForce};
use tollgate_policy::ApiKey;
use tollgate_policy::compile::{Made, Policy, PolicyFaults, Work};
use tollgate_storage::{Embedded, KeySnapshot, Store};

use super::{Run, Told};

pub const TOKEN: &str = "token-of-the-tests-0123456789";

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

/// What requests are decided by. Its clock stands still at the moment it was made.
pub struct Plane {
    pub gate: Gate<FakeClock>,
    clock: FakeClock,
    file: PathBuf,
    state: Mutex<(Arc<InForce>, Arc<str>)>,
    pub refusals: RefusalRing,
}

struct SharedPlane(Arc<Plane>);

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
        let text: Arc<str> = match text {
            ConfigText::InForce => self.config().text,
            ConfigText::New(text) => text.into(),
            ConfigText::File => fs::read_to_string(&self.0.file).unwrap().into(),
        };
        let loaded = tollgate_policy::load("tollgate.yaml", text.as_bytes()).map_err(|faults| {
            Box::new(PolicyFaults { diagnostics: faults, budgets: Vec::new() })
        })?;
        let policy = Policy::compile(loaded, made)?;
        let plane = Arc::clone(&self.0);
        Ok(Ready::new(&policy.clone(), move || {
            let in_force = plane.gate.enforce(policy);
            *plane.state.lock() = (in_force, text);
        }))
    }

    fn write_config(&self, text: &str) -> Result<(), NotReady> {
        fs::write(&self.0.file, text).map_err(|why| NotReady::Failed(why.to_string()))
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
    pub now: Time,
    pub store: Store,
    pub folder: TempDir,
    keys: Arc<KeySnapshot<()>>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

/// Waits for what a storage answers, which needs no runtime of ours.
pub fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

impl Node {
    pub fn start() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(KeySnapshot::new());
        let watched = Arc::clone(&keys);
        let store = Embedded::at(folder.path().join("tollgate-data"))
            .watch_keys(move |key| watched.apply(key, ()))
            .open()
            .unwrap();
        let file = folder.path().join("tollgate.yaml");
        fs::write(&file, FILE).unwrap();
        let loaded = tollgate_policy::load("tollgate.yaml", FILE.as_bytes()).unwrap();
        let now = SystemClock::new().now();
        let clock = FakeClock::at(now);
        let gate = Gate::with_clock(clock.clone(), 10_000);
        let policy = Policy::compile(loaded, Made::default()).unwrap();
        let state = Mutex::new((gate.enforce(policy), FILE.into()));
        let refusals = RefusalRing::new(8);
        let plane = Arc::new(Plane { gate, clock, file, state, refusals });
        let shared = Arc::new(SharedPlane(Arc::clone(&plane)));
        let admin = Admin::new(store.clone(), shared, AdminToken::new(TOKEN).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            let open = Open { health: Health::default(), registry: Registry::default() };
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let until = async { drop(stopped.await) };
            runtime.block_on(admin.serve(listener, open, until)).unwrap();
        });
        let (stop, serving) = (Some(stop), Some(serving));
        Node { address, plane, now, store, folder, keys, stop, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs a command that finds this node by its environment.
    pub fn run(&self, args: &[&str]) -> Told {
        self.command(args).told()
    }

    pub fn command<'a>(&self, args: &'a [&'a str]) -> Run<'a> {
        Run::new(self.folder.path(), args)
            .env("TOLLGATE_ADMIN", &self.url())
            .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
    }

    /// The very bytes that the API answers.
    pub fn raw(&self, path: &str, more: &str) -> String {
        let mut connection = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n{more}connection: close\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Whether requests with this key are let in now.
    pub fn lets_in(&self, key: &str) -> bool {
        let key = ApiKey::read(key.as_bytes()).unwrap();
        self.keys.find(&key.sha256(), self.now).is_some()
    }

    /// Sends so many chats of a user of `acme` through the gate, and answers how many passed.
    pub fn chat(&self, user: &str, requests: usize) -> usize {
        let in_force = Arc::clone(&self.plane.state.lock().0);
        let policy = in_force.policy();
        let acme = policy.tenants().number("acme").unwrap();
        let address = "203.0.113.7".parse().unwrap();
        let caller = self.plane.gate.caller(&in_force, acme, Holder::User(user), address);
        let work = Work::on(policy.route("x", "POST", "/v1/chat").unwrap());
        let passes = |_: &usize| self.plane.gate.decide(&in_force, &caller, work).is_admitted();
        (0..requests).filter(passes).count()
    }

    /// Ends the admin API and closes the database.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
            wait(self.store.close()).unwrap();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}
