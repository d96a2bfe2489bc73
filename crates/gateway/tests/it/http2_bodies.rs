//! Bodies of requests over HTTP/2: slow, large, silent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::http2::{connect_with, grpc_upstream};
use crate::support::{Exchange, Raw, Served, TestGateway, eventually};

/// A body that comes when it is told to.
pub struct Pieces(UnboundedReceiver<Frame<Bytes>>);

impl Pieces {
    pub fn new() -> (UnboundedSender<Frame<Bytes>>, Pieces) {
        let (sender, receiver) = unbounded_channel();
        (sender, Pieces(receiver))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(Ok))
    }
}

fn piece(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

/// How long a body may be silent in these tests: the upstream is connected to and answers meanwhile, on a busy machine as well.
const PATIENCE: u64 = 2000;
const SILENCE: Duration = Duration::from_millis(PATIENCE + 1000);

fn impatient(url: &str) -> TestGateway {
    TestGateway::with(&[url], |server| server.caps.body_timeout_ms = PATIENCE)
}

/// Answers with the first half of the body, before the second has come, and then with that.
fn chat() -> Served {
    Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for _ in 0..2 {
            let mut half = String::new();
            while !half.ends_with("half") {
                let mut byte = [0];
                std::io::Read::read_exact(&mut exchange.reader, &mut byte).unwrap();
                half.push(byte[0].into());
            }
            exchange.write("4\r\nhalf\r\n");
        }
        exchange.write("0\r\n\r\n");
        false
    })
}

#[test]
fn a_caller_may_be_silent_once_it_is_answered() {
    let upstream = chat();
    let gateway = impatient(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf").read_until("half");
    std::thread::sleep(SILENCE);
    caller.write("half").read_until("half\r\n0\r\n\r\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_over_http2_may_be_silent_once_it_is_answered() {
    let upstream = chat();
    let gateway = impatient(&upstream.url());
    let (pieces, body) = Pieces::new();
    pieces.send(piece("half")).unwrap();
    let request = Request::post("http://a/").body(body).unwrap();
    let answer = connect_with(gateway.address).await.send_request(request).await.unwrap();
    tokio::time::sleep(SILENCE).await;
    pieces.send(piece("half")).unwrap();
    drop(pieces);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "halfhalf");
}

/// Neither a caller of gRPC nor its service need say anything for a long time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_be_silent_from_the_beginning() {
    let upstream = grpc_upstream(std::sync::Arc::default()).await;
    let gateway = impatient(&format!("http://{upstream}"));
    let (pieces, body) = Pieces::new();
    let request = Request::post("http://service.test/pkg.Service/Watch")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let mut sender = connect_with(gateway.address).await;
    let answer = sender.send_request(request);
    let told = async {
        tokio::time::sleep(SILENCE).await;
        pieces.send(piece("late")).unwrap();
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(answer, told);
    let body = answer.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.trailers().and_then(|map| map.get("grpc-status")).unwrap(), "0");
    assert_eq!(body.to_bytes(), "late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_stops_coming_is_408_and_too_large_a_one_413() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        while !exchange.lines().is_empty() {}
        false
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.body_timeout_ms = PATIENCE;
        server.caps.body_bytes = 1000;
    });
    let mut sender = connect_with(gateway.address).await;
    let (half, body) = Pieces::new();
    half.send(piece("half")).unwrap();
    let slow = Request::post("http://a/").body(body).unwrap();
    let answer = sender.send_request(slow).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    let (much, body) = Pieces::new();
    for _ in 0..2 {
        much.send(Frame::data(Bytes::from(vec![b'x'; 600]))).unwrap();
    }
    let large = Request::post("http://a/").body(body).unwrap();
    let answer = sender.send_request(large).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let announced = Request::post("http://a/").header("content-length", "1001");
    let (_never, body) = Pieces::new();
    let answer = sender.send_request(announced.body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_gateway_says_is_no_trailer() {
    let upstream = grpc_upstream(std::sync::Arc::default()).await;
    let gateway = TestGateway::new(&format!("http://{upstream}"));
    let (pieces, body) = Pieces::new();
    let mut trailers = HeaderMap::new();
    for name in ["x-sum", "x-tollgate-tenant", "x-forwarded-for", "authorization", "x-request-id"] {
        trailers.insert(name, HeaderValue::from_static("forged"));
    }
    pieces.send(piece("body")).unwrap();
    pieces.send(Frame::trailers(trailers)).unwrap();
    drop(pieces);
    let request = Request::post("http://service.test/pkg.Service/Method")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let answer = connect_with(gateway.address).await.send_request(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap();
    let mut seen: Vec<_> = body.trailers().unwrap().keys().map(HeaderName::as_str).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["grpc-status", "x-sum"]);
}

/// A caller that gives up a request goes on with the others of its connection; the upstream is told of the one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_over_http2_that_is_given_up_ends_its_exchange() {
    let (gone, is_gone) = std::sync::mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        if exchange.head.contains("/fine") {
            exchange.ok("fine");
            return true;
        }
        if exchange.head.contains("/streams") {
            exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
        }
        // Whatever of a body comes, it comes to an end only because nobody sends it.
        let _ = std::io::copy(&mut exchange.reader, &mut std::io::sink());
        gone.lock().unwrap().send(()).unwrap();
        false
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut sender = connect_with(gateway.address).await;
    let is_gone = std::sync::Arc::new(std::sync::Mutex::new(is_gone));
    for path in ["/waits", "/streams", "/uploads"] {
        let (pieces, body) = Pieces::new();
        pieces.send(piece("half")).unwrap();
        // Only of an upload something is still to come.
        let held = (path == "/uploads").then_some(pieces);
        let request = Request::post(format!("http://a{path}")).body(body).unwrap();
        let mut answer = Box::pin(sender.send_request(request));
        if path == "/streams" {
            let mut body = answer.await.unwrap().into_body();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hi");
            drop(body);
        } else {
            let heads = std::sync::Arc::clone(&upstream.heads);
            let has_come =
                move || heads.lock().unwrap().last().is_some_and(|head| head.contains(path));
            let came = tokio::task::spawn_blocking(move || eventually("it has come", has_come));
            tokio::select! {
                _ = &mut answer => panic!("{path} was answered"),
                came = came => came.unwrap(),
            }
            drop(answer);
        }
        let told = std::sync::Arc::clone(&is_gone);
        let told = move || told.lock().unwrap().recv_timeout(Duration::from_secs(30));
        assert!(tokio::task::spawn_blocking(told).await.unwrap().is_ok(), "{path}");
        drop(held);
    }
    let (pieces, body) = Pieces::new();
    drop(pieces);
    let fine = Request::post("http://a/fine").body(body).unwrap();
    assert_eq!(sender.send_request(fine).await.unwrap().status(), StatusCode::OK);
    assert_eq!(gateway.counts.accepted(), 1);
    assert_eq!(gateway.upstream.backpressure().pending(), 0);
}

/// An upstream over HTTP/1.1 for a caller over HTTP/2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trailers_named_in_several_lines_pass_from_http2_and_back() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let chunks = exchange.lines();
        let seen = ["x-a: 1", "x-b: 2", "x-unnamed: 3"].map(|line| chunks.contains(line));
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\ntrailer: x-d\r\nx-saw: {seen:?}\r\ntrailer: x-e\r\n\
             transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-d: 4\r\nx-e: 5\r\n\r\n",
        ));
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let (pieces, body) = Pieces::new();
    let mut trailers = HeaderMap::new();
    for (name, value) in [("x-a", "1"), ("x-b", "2"), ("x-unnamed", "3")] {
        trailers.insert(name, HeaderValue::from_static(value));
    }
    pieces.send(piece("body")).unwrap();
    pieces.send(Frame::trailers(trailers)).unwrap();
    drop(pieces);
    let request = Request::post("http://a/").header("te", "trailers").header("trailer", "x-a");
    let request = request.header("trailer", "x-b").body(body).unwrap();
    let answer = connect_with(gateway.address).await.send_request(request).await.unwrap();
    // HTTP/1.1 wants them announced.
    assert_eq!(answer.headers().get("x-saw").unwrap(), "[true, true, false]");
    assert_eq!(answer.headers().get_all("trailer").iter().count(), 2);
    let body = answer.into_body().collect().await.unwrap();
    let trailers = body.trailers().unwrap();
    let value = |name| trailers.get(name).map(HeaderValue::as_bytes);
    assert_eq!((value("x-d"), value("x-e")), (Some(&b"4"[..]), Some(&b"5"[..])));
}

/// There is no 100 over HTTP/2 (ARCHITECTURE says why), so nothing may depend on it: who waits for one in vain and then sends is
/// served, and who is refused is told without being waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_has_to_be_told_to_continue_over_http2() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        assert_eq!(crate::support::header(&exchange.head, "expect"), None);
        let body = exchange.body();
        exchange.ok(&String::from_utf8(body).unwrap());
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let expecting = |path: &str, body| {
        let request = Request::post(format!("http://a{path}")).header("expect", "100-continue");
        request.header("content-length", "4").body(body).unwrap()
    };
    let mut sender = connect_with(gateway.address).await;
    let (_never, nothing) = Pieces::new();
    let refused = sender.send_request(expecting("/refuse", nothing)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    // The upstream has the head before the body is there.
    let (pieces, body) = Pieces::new();
    let answer = tokio::spawn(sender.send_request(expecting("/", body)));
    let heads = std::sync::Arc::clone(&upstream.heads);
    let came = move || eventually("the head", || heads.lock().unwrap().len() == 1);
    tokio::task::spawn_blocking(came).await.unwrap();
    pieces.send(piece("body")).unwrap();
    drop(pieces);
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "body");
    // curl waits for a second.
    let url = gateway.url("/");
    let args = ["--http2-prior-knowledge", "-H", "expect: 100-continue", "--data", "body", &url];
    let args = args.map(str::to_owned);
    let curled = move || crate::support::curl(&args.each_ref().map(String::as_str));
    assert_eq!(tokio::task::spawn_blocking(curled).await.unwrap(), "body");
}
