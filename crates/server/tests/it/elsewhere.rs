//! Two services that share their counters in a real Redis.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tollgate_engine::{Limiter, SystemClock};
use tollgate_gate::Gate;
use tollgate_policy::shapes::Fallback;
use tollgate_redis::{Settings, SharedCounters, Sharing};
use tollgate_server::{Limits, Outcome};

use crate::ports::Port;
use crate::support::{acme, ask, policy};

const POLICY: &str = "
rate_limit_sync: { enabled: true }
plans: { free: { rate_limit: { sustained: { rate: 20, window: day }, scope: user, consistency: strict } } }
tenants: [ { id: acme, plan: free } ]
";

/// A Redis until it is dropped.
struct Redis {
    /// Also when it was killed: nobody answers there in its place.
    port: Port,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start() -> Redis {
        // Where ports cannot be held, another program may take it before the server does.
        (0..20).find_map(|_| Redis::try_start()).expect("redis-server does not start")
    }

    fn try_start() -> Option<Redis> {
        let port = Port::take();
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new("redis-server")
            .args(["--port", &port.number().to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir".as_ref(), folder.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..500 {
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            if std::net::TcpStream::connect(port.address()).is_ok() {
                return Some(Redis { port, process, _folder: folder });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The limits of a service that counts there.
    fn limits(&self) -> (Limits, SharedCounters<SystemClock>) {
        let limiter = Arc::new(Limiter::with_clock(SystemClock::new(), 1_000));
        let settings = Settings::new(&format!("redis://{}", self.port.address())).unwrap();
        let sharing = Sharing {
            // A machine under load is no reason to fall back.
            settings: settings.timeout(Duration::from_secs(20)),
            prefix: "tollgate".to_owned(),
            interval: Duration::from_millis(100),
            fallback: Fallback::FailClosed,
            max_keys: 1_000,
        };
        let shared = SharedCounters::start(sharing, &limiter);
        let gate = Gate::over(limiter).keeping(Arc::new(shared.clone()));
        (Limits::over(gate, policy(POLICY)), shared)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn by(user: &str) -> Request<()> {
    Request::get("/").header("x-user", user).body(()).unwrap()
}

async fn connected(shared: &SharedCounters<SystemClock>) {
    for _ in 0..1_000 {
        if shared.state().is_up {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no connection to Redis");
}

#[tokio::test]
async fn services_that_share_their_counters_admit_together_what_the_limit_says() {
    let mut redis = Redis::start();
    let nodes = [redis.limits(), redis.limits()];
    let mut services = nodes.each_ref().map(|(limits, _)| acme(limits));
    for (_, shared) in &nodes {
        connected(shared).await;
    }
    for n in 0..20 {
        let answer = ask(&mut services[n % 2], by("ada")).await;
        assert_eq!(answer.status, 200, "{n}");
        assert_eq!(answer.header("x-ratelimit-remaining"), (19 - n).to_string());
    }
    for service in &mut services {
        let refused = ask(service, by("ada")).await;
        assert_eq!((refused.status.as_u16(), refused.verdict().outcome()), (429, Outcome::Refused));
        assert_eq!(refused.verdict().source(), Some("plan:free"));
        assert_eq!(ask(service, by("bob")).await.status, 200);
    }

    // Another policy finds the counters again, whoever keeps them.
    nodes[0].0.reload(policy(&POLICY.replace("rate: 20", "rate: 40")));
    let answer = ask(&mut services[0], by("bob")).await;
    assert_eq!(answer.header("x-ratelimit-limit"), "40");
    assert_eq!(ask(&mut services[0], by("ada")).await.status, 429);

    redis.kill();
    let unavailable = ask(&mut services[0], by("cyd")).await;
    assert_eq!(unavailable.status, 503);
    assert_eq!(unavailable.verdict().outcome(), Outcome::Unavailable);
    assert!(!unavailable.verdict().is_admitted());
}
