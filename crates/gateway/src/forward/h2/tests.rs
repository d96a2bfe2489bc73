//! Connections alone, where it matters who is polled first.

use std::cell::Cell;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::timeout;
use tollgate_policy::shapes;
use tollgate_wire::HeadLines;

use super::*;
use crate::forward::head::Hops;
use crate::forward::pool;
use crate::received::Received;
#[cfg(target_os = "linux")]
use crate::stream::ACKNOWLEDGED_WITHIN;
use crate::upstream::Upstream;

/// A connection, its pool, and its other end, which has not said a word.
async fn connected() -> (Shared, Rc<Pool>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (shared, pool, other, _) = connected_to(listener).await;
    (shared, pool, other)
}

/// The same, and another handle of its socket.
async fn connected_to(listener: TcpListener) -> (Shared, Rc<Pool>, TcpStream, socket2::Socket) {
    let address = listener.local_addr().unwrap();
    let shape = shapes::Upstream {
        url: Some(format!("http://{address}").parse().unwrap()),
        urls: None,
        backpressure: shapes::Backpressure::default(),
        connect_timeout_ms: 2000,
        response_timeout_ms: 1,
        rate_limit: None,
    };
    let upstream = Upstream::new(&shape, || unreachable!()).unwrap();
    let pool = pool::Local::new(&upstream).pick(&upstream, Instant::now()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let socket = socket2::Socket::from(stream.as_fd().try_clone_to_owned().unwrap());
    let (other, _) = listener.accept().await.unwrap();
    let shared = Shared::new(Stream::plain(stream), 1).await.unwrap();
    pool.shared.borrow_mut().push(shared.clone());
    (shared, pool, other, socket)
}

fn request(method: Method) -> Received {
    let request = Request::builder().method(method).uri("/path").header(HOST, "a");
    Received::new(request.body(RequestBody::empty()).unwrap())
}

/// What becomes of it; nobody is impatient.
async fn exchange(shared: &Shared, pool: &Pool, request: &mut Received) -> Result<(), Failed> {
    let hops = Hops::of(request.headers());
    let unseen = &Cell::new(false);
    let mut outbound = Outbound { request, told: HeadLines::default(), hidden: None, hops, unseen };
    let how = (pool, &Ticker::new(), Duration::ZERO);
    shared.clone().exchange(&mut outbound, how).await.map(drop)
}

/// An upstream that went silent may be at work: the request was sent again to the next.
#[tokio::test(start_paused = true)]
async fn what_was_sent_to_who_answers_no_ping_is_not_sent_again() {
    let silent = async {
        let (shared, pool, _other) = connected().await;
        shared.state.is_heard.set(true);
        let began = Instant::now();
        let failed = exchange(&shared, &pool, &mut request(Method::GET)).await.unwrap_err();
        assert!(began.elapsed() >= PING_UPSTREAM_AFTER + PING_TIMEOUT);
        assert_eq!((failed.may_repeat, failed.error.was_never_sent()), (false, false));
    };
    LocalSet::new().run_until(silent).await;
}

/// Sends settings and acknowledges those that come, and pings, which it counts.
async fn answers_pings(other: &mut TcpStream, pings: &Cell<usize>) -> std::io::Result<()> {
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const ACK: u8 = 1;
    other.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await?;
    other.read_exact(&mut [0; 24]).await?;
    loop {
        let mut frame = vec![0; 9];
        other.read_exact(&mut frame).await?;
        let length = usize::from(frame[1]) << 8 | usize::from(frame[2]);
        frame.resize(9 + length, 0);
        other.read_exact(&mut frame[9..]).await?;
        match (frame[3], frame[4] & ACK) {
            (SETTINGS, 0) => other.write_all(&[0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]).await?,
            (PING, 0) => {
                pings.set(pings.get() + 1);
                frame[4] |= ACK;
                other.write_all(&frame).await?;
            }
            _ => (),
        }
    }
}

/// gRPC servers take more for an attack: at the third they closed the connection, with all calls on it.
#[tokio::test(start_paused = true)]
async fn a_silent_call_has_its_upstream_pinged_once_in_five_minutes_at_most() {
    let silent = async {
        let (shared, pool, mut other) = connected().await;
        let pings = Cell::new(0);
        let mut request = request(Method::GET);
        tokio::select! {
            ended = exchange(&shared, &pool, &mut request) => panic!("{ended:?}"),
            ended = answers_pings(&mut other, &pings) => panic!("{ended:?}"),
            () = tokio::time::sleep(Duration::from_secs(300)) => (),
        }
        assert!(pings.get() <= 1, "{} came", pings.get());
    };
    LocalSet::new().run_until(silent).await;
}

/// A host that vanished was noticed by pings alone, which are rare.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_looks_whether_an_upstream_is_still_there() {
    let looks = async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_shared, _, _other, socket) = connected_to(listener).await;
        assert!(socket.keepalive().unwrap());
        // It does not ask while something is unacknowledged.
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(ACKNOWLEDGED_WITHIN));
    };
    LocalSet::new().run_until(looks).await;
}

/// Nobody knows what a host did before it vanished.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_sent_to_whom_the_kernel_gave_up_is_not_sent_again() {
    let given_up = async {
        let narrow = tokio::net::TcpSocket::new_v4().unwrap();
        narrow.set_recv_buffer_size(4096).unwrap();
        narrow.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (shared, pool, _other, socket) = connected_to(narrow.listen(1).unwrap()).await;
        socket.set_tcp_user_timeout(Some(Duration::from_millis(100))).unwrap();
        shared.state.is_heard.set(true);
        // More than there is room for.
        let mut request = request(Method::GET);
        request.headers_mut().insert("x-large", "y".repeat(1_000_000).try_into().unwrap());
        let failed = exchange(&shared, &pool, &mut request).await.unwrap_err();
        assert_eq!((failed.may_repeat, failed.error.was_never_sent()), (false, false));
    };
    LocalSet::new().run_until(timeout(Duration::from_secs(30), given_up)).await.unwrap();
}

/// It stayed open: one request after the other waited for an answer until it was too late.
#[tokio::test]
async fn a_connection_whose_task_panics_is_closed() {
    let local = LocalSet::new();
    let (shared, pool, _other) = local.run_until(connected()).await;
    let mut request = request(Method::GET);
    let mut sent = Box::pin(exchange(&shared, &pool, &mut request));
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(sent.as_mut().poll(cx).is_pending());
    // Outside of the set nobody can have a task, and what is sent needs one.
    let mut task = Box::pin(Task(Rc::clone(&shared.state)).run());
    let panicked = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
    assert!(panicked.is_err());
    drop(task);
    assert!(!shared.is_open());
    assert_eq!(shared.room(STREAMS), 0);
    assert!(sent.as_mut().poll(cx).is_ready());
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS` is 1.
const ONE_STREAM: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1];
const HEADERS: u8 = 1;

/// Reads until a request's head has come.
async fn read_headers(other: &mut TcpStream) {
    other.read_exact(&mut [0; 24]).await.unwrap();
    let mut frame = [0; 9];
    while frame[3] != HEADERS {
        other.read_exact(&mut frame).await.unwrap();
        let length = usize::from(frame[1]) << 8 | usize::from(frame[2]);
        other.read_exact(&mut vec![0; length]).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_not_sent_when_its_connection_closed_comes_back_as_it_was() {
    let closed = async {
        let (shared, pool, mut other) = connected().await;
        other.write_all(ONE_STREAM).await.unwrap();
        while shared.state.most() > 1 {
            tokio::task::yield_now().await;
        }
        // More than there is room for: hyper keeps them.
        let calls = [(); 4].map(|()| {
            let (shared, pool) = (shared.clone(), Rc::clone(&pool));
            tokio::task::spawn_local(async move {
                let mut request = request(Method::POST);
                let failed = exchange(&shared, &pool, &mut request).await.unwrap_err();
                let is_whole = request.uri() == "/path" && request.headers().contains_key(HOST);
                (failed.may_repeat, failed.error.was_never_sent(), is_whole)
            })
        });
        read_headers(&mut other).await;
        drop(other);
        let mut outcomes = Vec::new();
        for call in calls {
            outcomes.push(call.await.unwrap());
        }
        // One was sent; of the one that is next hyper does not say that it was not.
        let (lost, back) = ((false, false, false), (true, true, true));
        assert_eq!(outcomes, [lost, lost, back, back]);
    };
    LocalSet::new().run_until(timeout(Duration::from_secs(30), closed)).await.unwrap();
}
