//! A gateway to test, an upstream that does as it is told, and a caller that writes bytes.

mod child;
mod law;
mod raw;
mod upstream;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate_gateway::{
    Body, Certificates, Connection, Counts, ForwardCause, Forwarder, Gateway, Handler, Received,
    Running, Settings, Trust, Upstream,
};
use tollgate_policy::shapes::{self, Server, Workers};
use tollgate_wire::HeadLines;

pub use child::ChildGateway;
pub use law::TestLaw;
pub use raw::{Raw, get, header};
pub use upstream::{Exchange, Served};

/// A gateway that forwards everything to one upstream; stopped when dropped.
pub struct TestGateway {
    pub address: SocketAddr,
    pub upstream: Arc<Upstream>,
    pub counts: Arc<Counts>,
    pub failures: Arc<Mutex<Vec<(ForwardCause, bool)>>>,
    running: Option<Running>,
}

impl TestGateway {
    /// With the usual settings.
    pub fn new(url: &str) -> TestGateway {
        TestGateway::with(&[url], |_| ())
    }

    /// With a `server` section that is changed as wanted.
    pub fn with(urls: &[&str], change: impl FnOnce(&mut Server)) -> TestGateway {
        let upstream = upstream(urls);
        TestGateway::of(Upstream::new(&upstream, Trust::system).unwrap(), change, None)
    }

    pub fn of(
        upstream: Arc<Upstream>,
        change: impl FnOnce(&mut Server),
        certificates: Option<Arc<Certificates>>,
    ) -> TestGateway {
        let mut server = Server {
            listen: "127.0.0.1:0".parse().unwrap(),
            workers: Workers::Fixed(2),
            drain_timeout_ms: 2000,
            ..Server::default()
        };
        change(&mut server);
        let mut settings = Settings::new(&server);
        if let Some(certificates) = certificates {
            settings = settings.certificates(certificates);
        }
        let failures = Arc::new(Mutex::new(Vec::new()));
        let gateway = Gateway::bind(settings).unwrap();
        let (target, seen) = (Arc::clone(&upstream), Arc::clone(&failures));
        let make =
            move || ForwardsAll { upstream: Arc::clone(&target), failures: Arc::clone(&seen) };
        let running = gateway.start(make).unwrap();
        TestGateway {
            address: running.address(),
            counts: Arc::clone(running.counts()),
            upstream,
            failures,
            running: Some(running),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Changes the settings while it runs.
    pub fn change(&self, server: &Server) {
        self.running.as_ref().unwrap().tuning().change(Settings::new(server));
    }

    /// Begins to stop; the answer ends when the gateway has.
    pub fn stop(&mut self) -> std::thread::JoinHandle<()> {
        let running = self.running.take().unwrap();
        running.stop().stop();
        std::thread::spawn(move || running.wait().unwrap())
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.stop().stop();
        }
    }
}

/// An upstream with short timeouts.
pub fn upstream(urls: &[&str]) -> shapes::Upstream {
    shapes::Upstream {
        url: None,
        urls: Some(urls.iter().map(|url| url.parse().unwrap()).collect()),
        backpressure: shapes::Backpressure::default(),
        connect_timeout_ms: 2000,
        response_timeout_ms: 10_000,
        rate_limit: None,
    }
}

/// A body in one piece, larger than any buffer.
static LARGE: [u8; 64 * 1024 * 1024] = [0; 64 * 1024 * 1024];

struct ForwardsAll {
    upstream: Arc<Upstream>,
    failures: Arc<Mutex<Vec<(ForwardCause, bool)>>>,
}

impl Handler for ForwardsAll {
    async fn handle(
        &self,
        request: &mut Received,
        connection: &Connection,
        forwarder: &Forwarder,
    ) -> Response<Body> {
        match request.uri().path() {
            "/panic" => panic!("told to"),
            "/one-piece" => return Response::new(Body::from(Bytes::from_static(&LARGE))),
            "/blocks" => {
                drop(tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(3600))));
                return Response::new(Body::from("a thread is blocked"));
            }
            "/refuse" => {
                let mut response = Response::new(Body::from("refused"));
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                return response;
            }
            _ => (),
        }
        match forwarder.forward(&self.upstream, request, HeadLines::default(), connection).await {
            Ok(response) => response,
            Err(error) => {
                self.failures.lock().unwrap().push((error.cause(), error.was_never_sent()));
                let mut response = Response::new(Body::from(format!("{error}\n")));
                *response.status_mut() = error.status();
                response
            }
        }
    }
}

/// Waits until `is_so`, and fails where that takes very long.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    #[allow(clippy::disallowed_methods, reason = "a bound on real time")]
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Repeats a round until one tells something: not those in which this machine was too slow for what its caller has to be quick at.
pub fn one_tells(mut round: impl FnMut() -> bool) {
    assert!((0..20).any(|_| round()), "this machine is too busy to tell");
}

/// Runs curl and returns what it printed.
pub fn curl(args: &[&str]) -> String {
    let output = std::process::Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "curl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The address of a gateway whose handle nobody keeps.
pub fn forgotten(url: &str) -> SocketAddr {
    let mut gateway = TestGateway::new(url);
    gateway.running.take().unwrap().address()
}
