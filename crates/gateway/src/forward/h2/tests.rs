//! Connections alone, where it matters who is polled first.

use std::cell::Cell;
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
use crate::upstream::Upstream;

/// A connection, its pool, and its other end, which has not said a word.
async fn connected() -> (Shared, Rc<Pool>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
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
    let (other, _) = listener.accept().await.unwrap();
    let shared = Shared::new(Stream::plain(stream), 1).await.unwrap();
    pool.shared.borrow_mut().push(shared.clone());
    (shared, pool, other)
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
        assert!(began.elapsed() >= PING_AFTER + PING_TIMEOUT);
        assert_eq!((failed.may_repeat, failed.error.was_never_sent()), (false, false));
    };
    LocalSet::new().run_until(silent).await;
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
