//! A gateway that decides by a file, as the program does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tollgate_engine::Time;
use tollgate_gate::Gate;
use tollgate_gateway::law::{FoundKey, Law, Metrics, Plane, Record, Recorder, Shared};
use tollgate_gateway::{Gateway, Running, Settings};
use tollgate_policy::compile::Policy;

/// A gateway with the law of a file; stopped when dropped.
pub struct TestLaw {
    pub address: SocketAddr,
    shared: Arc<Shared<()>>,
    records: Arc<Records>,
    running: Running,
    /// The `server` section.
    server: String,
}

/// What became of each request, in the order they ended.
#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Recorder for Records {
    fn wants_details(&self) -> bool {
        true
    }

    fn record<F: FoundKey>(
        &self,
        record: &Record,
        _: (Option<&F>, &Plane),
        _: impl FnOnce() -> Time,
    ) {
        self.0.lock().unwrap().push(record.clone());
    }
}

#[derive(Debug)]
struct Told(Arc<Shared<()>>);

impl Collector for Told {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        self.0.metrics().encode(encoder)
    }
}

impl TestLaw {
    /// With a file of this text, which has no `server` section.
    pub fn new(text: &str) -> TestLaw {
        TestLaw::with("{}", text)
    }

    /// With caps besides.
    pub fn with(caps: &str, text: &str) -> TestLaw {
        let server = format!("{{ listen: \"127.0.0.1:0\", workers: 1, caps: {caps} }}");
        let policy = policy(&server, text);
        let settings = Settings::new(&policy.settings().server);
        let gate = Gate::new(10_000);
        let metrics = Metrics::default();
        let plane = Plane::prepare(policy, None).unwrap().bind(&gate, &metrics);
        let shared = Shared::new((gate, metrics), (), plane);
        let records = Arc::<Records>::default();
        let of_workers = (Arc::clone(&shared), Arc::clone(&records));
        let make = move || Law::new(&of_workers.0, Arc::clone(&of_workers.1));
        let running = Gateway::bind(settings).unwrap().start(make).unwrap();
        TestLaw { address: running.address(), shared, records, running, server }
    }

    /// Puts another file into force.
    pub fn reload(&self, text: &str) {
        let policy = policy(&self.server, text);
        let ready = Plane::prepare(policy, Some(&self.shared.plane())).unwrap();
        self.shared.enforce(ready.bind(self.shared.gate(), self.shared.metrics()));
    }

    /// What is told of it.
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Told(Arc::clone(&self.shared))));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    /// What became of each request, in the order they ended.
    pub fn records(&self) -> Vec<Record> {
        self.records.0.lock().unwrap().clone()
    }
}

fn policy(server: &str, text: &str) -> Policy {
    let policy = Policy::of("t.yaml", format!("server: {server}\n{text}").as_bytes());
    policy.unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

impl Drop for TestLaw {
    fn drop(&mut self) {
        self.running.stop().stop();
    }
}
