//! `queue`, `degrade` and `observe`, alone and mixed, in front of a real upstream.
//!
//! One HTTP/2 connection carries requests in the order in which they were sent, and the gateway decides them in that order:
//! so a test knows who came first without waiting to be sure.

use std::future::Future;
use std::net::Shutdown;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::keys::{KEY, digest};
use crate::support::{Tollgate, Upstream, curl, get, stay_clear_of_midnight};

type Answer = Pin<Box<dyn Future<Output = Option<u16>> + Send>>;

/// One connection.
struct Connection {
    sender: http2::SendRequest<Empty<Bytes>>,
    socket: std::net::TcpStream,
}

impl Connection {
    async fn to(gateway: &Tollgate) -> Connection {
        let socket = std::net::TcpStream::connect(&gateway.address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
        let executor = TokioExecutor::new();
        let (sender, driver) = http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
        tokio::spawn(driver);
        Connection { sender, socket }
    }

    /// Ends it, whatever is under way.
    fn hang_up(self) {
        self.socket.shutdown(Shutdown::Both).unwrap();
    }

    /// Sends a request of a tenant; whoever drops the answer hangs up.
    fn ask(&mut self, tenant: &str, path: &str) -> Answer {
        let request = http::Request::get(format!("http://gateway{path}"))
            .header("x-api-key", format!("key-of-{tenant}"))
            .body(Empty::new())
            .unwrap();
        let answer = self.sender.send_request(request);
        Box::pin(async move {
            let response = answer.await.ok()?;
            let status = response.status().as_u16();
            response.into_body().collect().await.ok()?;
            Some(status)
        })
    }
}

/// A limit that everybody shares, one at a time, with a line before it; and what tenants `a` and `b` have besides.
fn line(upstream: &Upstream, [sustained, queue, tenants]: [&str; 3]) -> Tollgate {
    let key = |tenant: &str| {
        let sha256 = tollgate_policy::Sha256::of(format!("key-of-{tenant}").as_bytes());
        format!("{{ tenant: {tenant}, user: ci, sha256: {sha256} }}")
    };
    Tollgate::with(&format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
defaults:
  client: {{ sustained: {sustained}, burst: {{ capacity: 1 }}, scope: global, strategy: queue, queue: {queue} }}
  tenant: null
tenants: [ {{ id: a{tenants} }}, {{ id: b }} ]
keys: [ {}, {} ]
",
        upstream.address,
        key("a"),
        key("b")
    ))
}

/// The paths of all requests that came through, in order.
fn paths(upstream: &Upstream) -> Vec<String> {
    let path = |head: String| head.split(' ').nth(1).unwrap().to_owned();
    upstream.heads().into_iter().map(path).collect()
}

const AN_HOUR: &str = "{ rate: 1, window: hour }";

#[tokio::test]
async fn they_pass_in_order_of_arrival_and_tenants_take_turns() {
    let upstream = Upstream::new("", "ok");
    let gateway = line(&upstream, ["{ rate: 30, window: minute }", "{ max_wait_ms: 60000 }", ""]);
    let mut connection = Connection::to(&gateway).await;
    let asked = [("a", "/a1"), ("a", "/a2"), ("a", "/a3"), ("a", "/a4"), ("b", "/b1")];
    let answers = asked.map(|(tenant, path)| connection.ask(tenant, path));
    for answer in answers {
        assert_eq!(answer.await, Some(200));
    }
    assert_eq!(paths(&upstream), ["/a1", "/a2", "/b1", "/a3", "/a4"]);
}

#[tokio::test]
async fn a_wait_known_to_be_too_long_and_a_line_that_is_full_refuse_at_once() {
    let upstream = Upstream::new("", "ok");
    let gateway = line(&upstream, [AN_HOUR, "{ max_wait_ms: 60000 }", ""]);
    let url = gateway.url("/x");
    assert_eq!(get(&url, "key-of-a").status, 200);
    let refused = get(&url, "key-of-a");
    assert_eq!(refused.status, 429);
    let after: u64 = refused.header("retry-after").parse().unwrap();
    assert!((3500..=3600).contains(&after), "{after}");
    assert_eq!(refused.json()["error"]["source"], "default:client");

    let gateway = line(&upstream, [AN_HOUR, "{ max_wait_ms: 86400000, max_depth: 2 }", ""]);
    let mut connection = Connection::to(&gateway).await;
    assert_eq!(connection.ask("a", "/a1").await, Some(200));
    let waiting = [connection.ask("a", "/a2"), connection.ask("a", "/a3")];
    assert_eq!(connection.ask("a", "/a4").await, Some(429));
    // Another tenant has a line of its own.
    let others = [connection.ask("b", "/b1"), connection.ask("b", "/b2")];
    assert_eq!(connection.ask("b", "/b3").await, Some(429));
    for answer in waiting.into_iter().chain(others) {
        assert_eq!(answer.now_or_never(), None);
    }
}

/// A request that gets into a line of one, once there is room.
async fn gets_in(connection: &mut Connection, path: &str) -> Answer {
    loop {
        let (mut first, mut second) = (connection.ask("a", path), connection.ask("a", path));
        // They are decided in this order. If the second is refused, and the first is not, it is the first that waits.
        tokio::select! {
            biased;
            refused = &mut first => assert_eq!(refused, Some(429)),
            refused = &mut second => {
                assert_eq!(refused, Some(429));
                return first;
            }
        }
    }
}

#[tokio::test]
async fn who_hangs_up_frees_the_place() {
    let upstream = Upstream::new("", "ok");
    let gateway = line(&upstream, [AN_HOUR, "{ max_wait_ms: 86400000, max_depth: 1 }", ""]);
    let mut connection = Connection::to(&gateway).await;
    assert_eq!(connection.ask("a", "/first").await, Some(200));
    let gone = gets_in(&mut connection, "/gone").await;
    assert_eq!(connection.ask("a", "/refused").await, Some(429));
    // One request is given up, and then a whole connection.
    drop(gone);
    let _gone_too = gets_in(&mut connection, "/gone-too").await;
    connection.hang_up();
    let mut connection = Connection::to(&gateway).await;
    let _waits = gets_in(&mut connection, "/waits").await;
    assert_eq!(paths(&upstream), ["/first"]);
}

/// Whoever waits holds no charge: not of the quota behind the line either.
#[tokio::test]
async fn waiting_charges_nothing_and_a_limit_that_rejects_goes_before_the_line() {
    stay_clear_of_midnight();
    let upstream = Upstream::new("", "ok");
    let quota = ", quota: { limit: 3, window: day }";
    // One in five seconds: whoever is to wait comes within that.
    let gateway =
        line(&upstream, ["{ rate: 12, window: minute }", "{ max_wait_ms: 60000 }", quota]);
    let mut connection = Connection::to(&gateway).await;
    assert_eq!(connection.ask("a", "/1").await, Some(200));
    let gone = connection.ask("a", "/gone");
    let second = connection.ask("a", "/2");
    drop(gone);
    assert_eq!(second.await, Some(200));
    let third = get(&gateway.url("/3"), "key-of-a");
    assert_eq!((third.status, third.header("x-ratelimit-remaining-day")), (200, "0"));
    assert_eq!(paths(&upstream), ["/1", "/2", "/3"]);
    // Both are used up now; the day's does not let anybody wait.
    let refused = get(&gateway.url("/4"), "key-of-a");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["source"], "tenant:a");
    assert_eq!(refused.json()["error"]["policy"], "user-day");
}

#[tokio::test]
async fn a_thousand_of_one_tenant_do_not_keep_another_waiting() {
    let upstream = Upstream::new("", "ok");
    let queue = "{ max_wait_ms: 86400000, max_depth: 1000 }";
    let gateway = line(&upstream, ["{ rate: 10 }", queue, ""]);
    // One connection may not have so many requests at once.
    let mut connections = Vec::new();
    let mut waiting = FuturesUnordered::new();
    for _ in 0..11 {
        let mut connection = Connection::to(&gateway).await;
        waiting.extend((0..100).map(|_| connection.ask("a", "/a")));
        connections.push(connection);
    }
    // The line has a thousand places: the first refusal says that all are taken.
    while waiting.next().await.unwrap() != Some(429) {}
    let before = upstream.heads().len();
    let mut connection = Connection::to(&gateway).await;
    assert_eq!(connection.ask("b", "/b").await, Some(200));
    let place = paths(&upstream).iter().position(|path| path == "/b").unwrap();
    // One of `a` goes first, and ten a second while a busy machine takes its time; not a thousand.
    assert!(place - before <= 60, "b passed as number {place}, {before} had passed before it came");
    assert!(paths(&upstream).len() < 500);
}

/// The plan degrades, the tenant's line is for everybody, its quota rejects, and another limit observes.
#[tokio::test]
async fn strategies_are_mixed_in_one_chain() {
    stay_clear_of_midnight();
    let (main, spare) = (Upstream::new("", "main"), Upstream::new("", "spare"));
    let gateway = Tollgate::with(&format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }}, spare: {{ url: \"http://{}\" }} }}
routes:
  - path: \"/*\"
    upstream: api
    rate_limit: {{ sustained: {{ rate: 1, window: day }}, scope: route, strategy: observe }}
plans:
  p:
    rate_limit: {{ sustained: {{ rate: 2, window: day }}, scope: user, strategy: degrade, degrade: {{ upstream: spare }} }}
    quota: {{ limit: 4, window: day }}
tenants:
  - {{ id: acme, plan: p, rate_limit: {{ sustained: {{ rate: 1 }}, strategy: queue, queue: {{ max_wait_ms: 60000 }} }} }}
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
        main.address,
        spare.address,
        digest()
    ));
    let key = format!("x-api-key: {KEY}");
    let forged = "x-ratelimit-degraded: forged";
    let ask = || curl(&[&gateway.url("/x"), "-H", &key, "-H", forged]);
    let began = std::time::Instant::now();
    for body in ["main", "main", "spare", "spare"] {
        let answer = ask();
        assert_eq!((answer.status, answer.body.as_str()), (200, body));
        let degraded = answer.has("x-ratelimit-degraded");
        assert_eq!(degraded, body == "spare");
        // Nobody is told of a limit that only observes.
        assert!(!answer.header("ratelimit-policy").contains("route-day"), "{answer:?}");
    }
    // Three of the four waited a second in line, those that were degraded too.
    assert!(began.elapsed() >= std::time::Duration::from_millis(2900));
    // Whatever was skipped, the quota was charged four times.
    let refused = ask();
    assert_eq!((refused.status, refused.has("x-ratelimit-degraded")), (429, false));
    assert_eq!(refused.json()["error"]["source"], "plan:p");
    for (upstream, mark) in [(&main, None), (&spare, Some("user-day"))] {
        let heads = upstream.heads();
        assert_eq!(heads.len(), 2);
        for head in heads {
            let marks = head.lines().filter_map(|line| line.strip_prefix("x-ratelimit-degraded: "));
            assert_eq!(marks.collect::<Vec<_>>(), Vec::from_iter(mark), "{head}");
        }
    }
    let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
    assert!(metrics.contains("rate_limit_observed_rejections_total 4"), "{metrics}");
}
