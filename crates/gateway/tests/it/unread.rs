//! What is not read holds up nobody but who does not read it, however many share its connection.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tollgate_gateway::{Trust, Upstream};

use crate::floods::{DATA, END_HEADERS, END_STREAM, GET, HEADERS, POST, frame, next_of, open};
use crate::http2::{connect, connect_with};
use crate::not_taken::{self, Act, Frames};
use crate::support::{Exchange, Raw, Served, TestGateway, eventually, upstream};
use crate::to_http2::Chain;

/// Waits until a count stands still. Where it goes on later, less is shown, and nothing fails.
fn come_to_rest(count: &AtomicUsize) {
    let mut before = 0;
    eventually("it stands still", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = count.load(Relaxed);
        std::mem::replace(&mut before, now) == now && now > 0
    });
}

/// Four of them held all that could be under way on the connection.
#[test]
fn who_does_not_read_holds_up_nobody_on_the_same_upstream_connection() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let behind = Served::new(move |exchange: &mut Exchange| {
        if exchange.head.starts_with("GET / ") {
            exchange.ok("whole");
            return true;
        }
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        let piece = [b'x'; 100_000];
        while exchange.reader.get_mut().write_all(&piece).is_ok() {
            count.fetch_add(piece.len(), Relaxed);
        }
        false
    });
    let chain = Chain::new("unread", &behind);
    let mut callers: Vec<_> = (0..8).map(|_| Raw::connect(chain.outer.address)).collect();
    for caller in &mut callers {
        let head = caller.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\n").head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
    come_to_rest(&written);
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let (_, body) = Raw::connect(chain.outer.address).write(request).response();
    assert_eq!(body, "whole");
    assert_eq!(chain.inner.counts.accepted(), 1, "which all of them share");
}

/// A body without an end, and how much of it was asked for.
struct Endless(Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static PIECE: [u8; 16_384] = [b'x'; 16_384];
        self.0.fetch_add(PIECE.len(), Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE)))))
    }
}

/// A proxy brings many users over one connection: four whose uploads were stuck kept the others from theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_stuck_holds_up_no_other_of_its_connection() {
    let (_stay, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let behind = Served::new(move |exchange: &mut Exchange| {
        if exchange.head.starts_with("POST /read ") {
            let length = exchange.body().len();
            exchange.ok(&length.to_string());
            return true;
        }
        let _ = wait.lock().unwrap().recv();
        false
    });
    let mut shape = upstream(&[&behind.url()]);
    // What is given up is stuck no longer.
    shape.response_timeout_ms = 600_000;
    let gateway = TestGateway::of(Upstream::new(&shape, Trust::system).unwrap(), |_| (), None);
    let sender = connect_with(gateway.address).await;
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let body = Either::Left(Endless(Arc::clone(&sent)));
        let request = Request::post("http://a/stuck").body(body).unwrap();
        tokio::spawn(sender.clone().send_request(request));
    }
    let all = move || {
        eventually("all came", || behind.heads().len() == 8);
        come_to_rest(&sent);
    };
    tokio::task::spawn_blocking(all).await.unwrap();
    let body = Full::new(Bytes::from(vec![b'x'; 100_000]));
    let request = Request::post("http://a/read").body(Either::Right(body)).unwrap();
    let mut sender = sender.clone();
    let answer = tokio::time::timeout(Duration::from_secs(30), sender.send_request(request));
    let answer = answer.await.expect("it waits for the others").unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "100000");
}

/// A call without a body. Without TLS, HTTP/2 is for gRPC only.
fn call() -> Request<Full<Bytes>> {
    let request = Request::get("http://a/").header("content-type", "application/grpc");
    request.body(Full::new(Bytes::new())).unwrap()
}

/// Pieces of some twenty bytes, as a model writes its words: the connection was ended as under attack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_pieces_of_an_answer_that_nobody_reads_end_no_other_call() {
    let upstream = Frames::new(&[], |_, stream| match stream {
        1 => Act::Wait,
        _ => Act::Crumble,
    });
    let gateway = not_taken::gateway(&upstream);
    let mut other = connect(gateway.address).await;
    let waits = tokio::spawn(async move { other.send_request(call()).await.unwrap().status() });
    let upstream = Arc::new(upstream);
    let sees = Arc::clone(&upstream);
    let has_come = move || eventually("it waits", || sees.seen().len() == 1);
    tokio::task::spawn_blocking(has_come).await.unwrap();

    let io = TokioIo::new(TcpStream::connect(gateway.address).await.unwrap());
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut deaf, driver) = builder.initial_stream_window_size(0).handshake(io).await.unwrap();
    tokio::spawn(driver);
    let unread = deaf.send_request(call()).await.unwrap();
    assert_eq!(waits.await.unwrap(), StatusCode::OK);
    assert_eq!(upstream.seen(), [(0, 1), (0, 3)]);
    drop(unread);
}

/// `SETTINGS_INITIAL_WINDOW_SIZE` is 0.
const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];

/// `content-type: application/grpc` in HPACK.
const GRPC: &[u8] = b"\x0f\x10\x10application/grpc";

#[test]
fn small_pieces_of_an_upload_that_nobody_takes_end_no_other_call() {
    let upstream = Frames::new(NO_WINDOW, |_, _| Act::Answer);
    let gateway = not_taken::gateway(&upstream);
    // From here on the gateway knows that there is no window.
    assert_eq!(not_taken::answers(gateway.address, [not_taken::GET]), ["200"]);
    let mut caller = open(gateway.address);
    let mut frames = frame(HEADERS, END_HEADERS, 1, &[POST, GRPC].concat());
    // No more than there is room for before the caller has acknowledged the gateway's settings.
    frames.extend(frame(DATA, 0, 1, &[b'y'; 20]).repeat(3000));
    frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, 3, &[GET, GRPC].concat()));
    caller.write_all(&frames).unwrap();
    assert_eq!(next_of(&mut caller, HEADERS).0, 3);
}
