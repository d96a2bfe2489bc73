//! Fifty clients want three times what they may, from a real gateway: with and without slowing down before they are refused.
//!
//! `cargo run --release --example client_vs_none` takes a minute and ends with one line of JSON.

#![allow(clippy::print_stdout, reason = "it shows something")]

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollgate_client::{Ask, Pacer, Settings};
use tollgate_gate::Gate;
use tollgate_gateway::law::{Law, Metrics, Plane, Shared};
use tollgate_gateway::{Body, Connection, Forwarder, Gateway, Handler, Received};
use tollgate_policy::Sha256;
use tollgate_policy::compile::Policy;
use tollgate_policy::shapes::Server;

type Failed = Box<dyn Error>;

const CLIENTS: u32 = 50;
const EACH: u32 = 20;
const SECONDS: u32 = 20;

/// What one way of calling came to.
#[derive(Default)]
struct Tally {
    admitted: Cell<u32>,
    refused: Cell<u32>,
    /// What is answered after the time is over does not count.
    is_over: Cell<bool>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    println!("{CLIENTS} clients want three times what they may, for {SECONDS} seconds each way:\n");
    let each = show("a client, a key each", run(true, true).await?);
    let shared = show("a client, one key shared", run(true, false).await?);
    let none = show("no client, a key each", run(false, true).await?);
    println!(
        "\n{{\"each\":{each},\"shared\":{shared},\"none\":{none}}}",
        each = json(each),
        shared = json(shared),
        none = json(none)
    );
    Ok(())
}

/// Used and refused, as shares.
fn show(what: &str, (used, refused): (f64, f64)) -> (f64, f64) {
    let bar = |share: f64, mark: &str| mark.repeat((share * 40.0).round() as usize);
    println!("{what:<26} used    {:>5.1} %  {}", used * 100.0, bar(used, "█"));
    println!("{:<26} refused {:>5.1} %  {}", "", refused * 100.0, bar(refused, "░"));
    (used, refused)
}

fn json((used, refused): (f64, f64)) -> String {
    format!("{{\"used\":{used:.4},\"refused\":{refused:.4}}}")
}

/// Fifty clients at a gateway of their own, paced or not, with a key each or one for all.
async fn run(is_paced: bool, has_key_each: bool) -> Result<(f64, f64), Failed> {
    let gateway = gateway(if has_key_each { EACH } else { EACH * CLIENTS })?;
    let address = gateway.address();
    let tally = Rc::new(Tally::default());
    let clients = LocalSet::new();
    for number in 0..CLIENTS {
        let key = key(if has_key_each { number } else { 0 });
        let tally = Rc::clone(&tally);
        clients.spawn_local(client(address, key, is_paced, tally));
    }
    clients.await;
    gateway.stop().stop();
    let (admitted, refused) = (f64::from(tally.admitted.get()), f64::from(tally.refused.get()));
    // Everybody may spend a full bucket, and then what it is refilled by.
    let limit = f64::from(CLIENTS * EACH * (SECONDS + 1));
    Ok((admitted / limit, refused / (admitted + refused)))
}

/// One client: three times as many requests as it may, each on its own.
async fn client(address: SocketAddr, key: String, is_paced: bool, tally: Rc<Tally>) {
    let pacer = is_paced.then(|| Pacer::new(Settings::new().max_wait(Duration::from_secs(1))));
    let pool = Rc::new(RefCell::new(Vec::new()));
    let mut ticks = interval(Duration::from_secs(1) / (3 * EACH));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let end = sleep(Duration::from_secs(SECONDS.into()));
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => {
                tally.is_over.set(true);
                break;
            }
            _ = ticks.tick() => {}
        }
        let (pacer, pool, tally) = (pacer.clone(), Rc::clone(&pool), Rc::clone(&tally));
        let key = key.clone();
        spawn_local(async move {
            let permit = match &pacer {
                // Whoever would wait too long does not ask at all.
                Some(pacer) => match pacer.acquire(Ask::default()).await {
                    Ok(permit) => Some(permit),
                    Err(_) => return,
                },
                None => None,
            };
            let Ok(response) = send(address, &key, &pool).await else { return };
            if tally.is_over.get() {
                return;
            }
            let count = match response.status() {
                StatusCode::OK => &tally.admitted,
                _ => &tally.refused,
            };
            count.set(count.get() + 1);
            if let Some(permit) = permit {
                permit.heard(response.status(), response.headers());
            }
        });
    }
}

type Pool = RefCell<Vec<SendRequest<Empty<Bytes>>>>;

async fn send(address: SocketAddr, key: &str, pool: &Pool) -> Result<Response<()>, Failed> {
    let idle = pool.borrow_mut().pop();
    let mut connection = match idle {
        Some(connection) => connection,
        None => {
            let stream = TcpStream::connect(address).await?;
            let (sender, driver) = handshake(TokioIo::new(stream)).await?;
            spawn_local(async move { drop(driver.await) });
            sender
        }
    };
    connection.ready().await?;
    let request = Request::get("/").header("host", "example").header("x-api-key", key);
    let response = connection.send_request(request.body(Empty::new())?).await?;
    let (parts, body) = response.into_parts();
    body.collect().await?;
    pool.borrow_mut().push(connection);
    Ok(Response::from_parts(parts, ()))
}

fn key(number: u32) -> String {
    format!("example-key-{number}")
}

/// A gateway in front of a service that answers at once: so many requests a second for each key, one second's worth at once.
fn gateway(rate: u32) -> Result<tollgate_gateway::Running, Failed> {
    let service = start(&Server { listen: "127.0.0.1:0".parse()?, ..Server::default() }, || Hello)?;
    let keys: Vec<String> = (0..CLIENTS)
        .map(|number| {
            let sha256 = Sha256::of(key(number).as_bytes());
            format!("  - {{ tenant: t, user: u{number}, sha256: {sha256} }}\n")
        })
        .collect();
    let policy = Policy::of(
        "example",
        format!(
            "server: {{ listen: 127.0.0.1:0, workers: 1 }}
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: /*, upstream: api }} ]
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: {rate} }}, scope: user }} }} }}
tenants: [ {{ id: t, plan: p }} ]
keys:\n{}",
            service.address(),
            keys.concat()
        )
        .as_bytes(),
    )
    .map_err(|faults| faults.diagnostics.to_string())?;
    let server = policy.settings().server.clone();
    let gate = Gate::new(10_000);
    let metrics = Metrics::default();
    let plane = Plane::prepare(policy, None)?.bind(&gate, &metrics);
    let shared = Shared::new((gate, metrics), (), plane);
    start(&server, move || Law::new(&shared, ()))
}

fn start<H: Handler>(
    server: &Server,
    make: impl Fn() -> H + Send + Sync + 'static,
) -> Result<tollgate_gateway::Running, Failed> {
    let settings = tollgate_gateway::Settings::new(server);
    Ok(Gateway::bind(settings)?.start(make)?)
}

/// The service behind the gateway.
struct Hello;

impl Handler for Hello {
    async fn handle(&self, _: &mut Received, _: &Connection, _: &Forwarder) -> Response<Body> {
        Response::new(Body::from("hello\n"))
    }
}
