//! An upload takes as long as it takes; what has an end is the silence of its upstream.

use std::io::Read as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Exchange, Raw, Served, TestGateway};
use tollgate_gateway::{Trust, Upstream};

/// A gateway that waits so many milliseconds for an answer.
fn waits(url: &str, response_timeout_ms: u64) -> TestGateway {
    let mut shape = crate::support::upstream(&[url]);
    shape.response_timeout_ms = response_timeout_ms;
    TestGateway::of(Upstream::new(&shape, Trust::system).unwrap(), |_| (), None)
}

/// What a gateway waits for an answer here, and what is longer than that.
const PATIENCE: u64 = 4000;
const LONGER: Duration = Duration::from_millis(PATIENCE + 1000);

#[test]
fn a_slow_caller_does_not_use_up_the_upstreams_time() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body = exchange.body();
        exchange.ok(&String::from_utf8_lossy(&body));
        true
    });
    let gateway = waits(&upstream.url(), PATIENCE);
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nfirst");
    std::thread::sleep(LONGER);
    caller.write("later");
    let (head, body) = caller.response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "firstlater");
}

#[test]
fn an_upstream_that_takes_a_body_piece_by_piece_has_its_time_for_each() {
    const PIECE: usize = 12_000_000;
    const PIECES: usize = 6;
    let upstream = Served::new(|exchange: &mut Exchange| {
        let mut piece = vec![0; PIECE];
        // All of them take longer than the gateway waits, each far less.
        for _ in 0..PIECES {
            std::thread::sleep(Duration::from_millis(PATIENCE / 4));
            exchange.reader.read_exact(&mut piece).unwrap();
        }
        exchange.ok("all of it");
        true
    });
    let gateway = waits(&upstream.url(), PATIENCE);
    let mut caller = Raw::connect(gateway.address);
    let length = PIECES * PIECE;
    caller.write(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"));
    let mut uploader = Raw(caller.0.try_clone().unwrap());
    let uploading = std::thread::spawn(move || {
        // Whether all of it is wanted shows in the answer.
        let _ = std::io::Write::write_all(&mut uploader.0, &vec![b'x'; length]);
    });
    let (head, body) = caller.response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "all of it");
    uploading.join().unwrap();
}

#[test]
fn an_upstream_that_is_silent_after_the_body_or_takes_none_of_it_is_504() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if exchange.head.contains("/all") {
            exchange.body();
        }
        std::thread::park();
        false
    });
    let gateway = waits(&upstream.url(), 300);
    for (path, length) in [("/all", 1000), ("/none", 50_000_000)] {
        let mut caller = Raw::connect(gateway.address);
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        caller.write(head);
        let mut uploader = Raw(caller.0.try_clone().unwrap());
        let uploading = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut uploader.0, &vec![b'x'; length]);
        });
        let head = caller.head();
        assert!(head.starts_with("HTTP/1.1 504"), "{path}: {head}");
        drop(caller.0.shutdown(std::net::Shutdown::Both));
        uploading.join().unwrap();
    }
    let failures = gateway.failures.lock().unwrap().clone();
    let failures: Vec<_> = failures.iter().map(|(why, unsent)| (why.as_str(), *unsent)).collect();
    assert_eq!(failures, [("response_timeout", false); 2]);
}

/// A body that comes as it is sent.
struct Piped(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Piped {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Speaks HTTP/2 alone: answers with the body, or never.
async fn http2_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| async move {
                let is_silent = request.uri().path() == "/silent";
                let body = request.into_body().collect().await?.to_bytes();
                if is_silent {
                    std::future::pending::<()>().await;
                }
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tcp), service),
            );
        }
    });
    address
}

/// Begins a gRPC call, which only HTTP/2 can carry.
async fn call(
    address: SocketAddr,
    path: &str,
) -> (mpsc::Sender<Bytes>, tokio::task::JoinHandle<Response<Incoming>>) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(driver);
    let (pieces, piped) = mpsc::channel(1);
    let request = Request::post(format!("http://a{path}"))
        .header("content-type", "application/grpc")
        .body(Piped(piped))
        .unwrap();
    let answer = tokio::spawn(async move { sender.send_request(request).await.unwrap() });
    (pieces, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_caller_does_not_use_up_an_http2_upstreams_time() {
    let upstream = http2_upstream().await;
    let gateway = waits(&format!("http://{upstream}"), PATIENCE);
    let (pieces, answer) = call(gateway.address, "/").await;
    pieces.send(Bytes::from_static(b"first")).await.unwrap();
    tokio::time::sleep(LONGER).await;
    pieces.send(Bytes::from_static(b"later")).await.unwrap();
    drop(pieces);
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "firstlater");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http2_upstream_that_is_silent_after_the_body_is_504() {
    let upstream = http2_upstream().await;
    let gateway = waits(&format!("http://{upstream}"), 300);
    let (pieces, answer) = call(gateway.address, "/silent").await;
    pieces.send(Bytes::from_static(b"all")).await.unwrap();
    drop(pieces);
    assert_eq!(answer.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    let failures = gateway.failures.lock().unwrap().clone();
    assert_eq!((failures[0].0.as_str(), failures[0].1), ("response_timeout", false));
}
