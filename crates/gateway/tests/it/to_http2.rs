//! Upstreams that speak HTTP/2 to callers who may not.

use std::io::Read as _;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{Exchange, Raw, Served, TestGateway, curl, eventually, header, upstream};
use crate::tls::Folder;
use tollgate_gateway::{Certificates, Trust, Upstream};
use tollgate_policy::shapes::Workers;

/// A gateway whose upstream speaks HTTP/2 over TLS: another gateway, before `behind`.
pub struct Chain {
    pub outer: TestGateway,
    pub inner: TestGateway,
    _folder: Folder,
}

impl Chain {
    pub fn new(name: &str, behind: &Served) -> Chain {
        let folder = Folder::new(name);
        let certificates = Certificates::read(&folder.write("upstream")).unwrap();
        let inner = Upstream::new(&upstream(&[&behind.url()]), Trust::system).unwrap();
        let inner = TestGateway::of(inner, |_| (), Some(certificates));
        let shape = upstream(&[&format!("https://localhost:{}", inner.address.port())]);
        let outer = Upstream::new(&shape, || Trust::only(folder.file("cert.pem"))).unwrap();
        let outer = TestGateway::of(outer, |server| server.workers = Workers::Fixed(1), None);
        Chain { outer, inner, _folder: folder }
    }
}

#[test]
fn bodies_from_http1_share_a_connection() {
    const SIZE: usize = 1_000_000;
    let behind = Served::new(|exchange: &mut Exchange| {
        let body = exchange.body();
        let is_right = body.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8);
        exchange.ok(&format!("{} {is_right}", body.len()));
        true
    });
    let chain = Chain::new("bodies", &behind);
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let mut callers: Vec<_> = (0..4).map(|_| Raw::connect(chain.outer.address)).collect();
    for caller in &mut callers {
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n");
        caller.write(head).write(&body[..1000]);
    }
    eventually("all are under way", || behind.heads().len() == 4);
    for caller in &mut callers {
        let (head, seen) = caller.write(&body[1000..]).response();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(seen, format!("{SIZE} true"));
    }
    assert_eq!(chain.inner.counts.accepted(), 1, "which HTTP/1.1 could not");
}

#[test]
fn an_early_answer_streams_to_http1_while_the_body_is_still_sent() {
    let behind = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for _ in 0..20 {
            let mut word = [0; 4];
            exchange.reader.read_exact(&mut word).unwrap();
            exchange.write([b"4\r\n", &word[..], b"\r\n"].concat());
        }
        exchange.write("0\r\n\r\n");
        true
    });
    let chain = Chain::new("early", &behind);
    let mut caller = Raw::connect(chain.outer.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 80\r\n\r\n");
    assert!(caller.head().starts_with("HTTP/1.1 200"));
    for n in 0..20 {
        let word = format!("{n:04}");
        caller.write(&word).read_until(&word);
    }
    caller.read_until("0\r\n\r\n");
}

#[test]
fn a_caller_that_hangs_up_ends_its_request_and_no_other() {
    let (ended, has_ended) = mpsc::channel();
    let ended = Mutex::new(ended);
    let behind = Served::new(move |exchange: &mut Exchange| {
        if header(&exchange.head, "content-length").is_none() {
            exchange.ok("fine");
            return true;
        }
        // It comes to an end only because nobody sends it.
        let mut body = Vec::new();
        let _ = exchange.reader.read_to_end(&mut body);
        ended.lock().unwrap().send(body.len()).unwrap();
        false
    });
    let chain = Chain::new("hang-up", &behind);
    let mut caller = Raw::connect(chain.outer.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf");
    eventually("it is under way", || behind.heads().len() == 1);
    drop(caller);
    assert!(has_ended.recv().unwrap() < 10);
    eventually("forgotten", || chain.outer.upstream.backpressure().pending() == 0);
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let (head, seen) = Raw::connect(chain.outer.address).write(request).response();
    assert!(head.starts_with("HTTP/1.1 200") && seen == "fine", "{head}");
    assert_eq!(chain.inner.counts.accepted(), 1, "the connection is as good as before");
}

/// Above 16 KiB it was 502, and over HTTP/1.1 it passed.
#[test]
fn a_head_may_be_as_large_as_over_http1() {
    let behind = Served::new(|exchange: &mut Exchange| {
        let large = "y".repeat(60_000);
        let head = format!("HTTP/1.1 200 OK\r\nx-large: {large}\r\ncontent-length: 2\r\n\r\n");
        exchange.write(head + "ok");
        true
    });
    let chain = Chain::new("large-head", &behind);
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let (head, _) = Raw::connect(chain.outer.address).write(request).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head:.100}");
    assert_eq!(header(&head, "x-large").map(str::len), Some(60_000));
}

/// Answers what is to be answered at once; everything else on its first connection never, until that is closed.
async fn closes_its_first(closing: oneshot::Receiver<()>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |tcp: TcpStream, is_first: bool| {
        let service = service_fn(move |request: Request<Incoming>| async move {
            if is_first && request.uri().path() != "/warm" {
                std::future::pending::<()>().await;
            }
            let body = request.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>(Response::new(Full::new(body)))
        });
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(if is_first { 1 } else { 100 });
        builder.serve_connection(TokioIo::new(tcp), service)
    };
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        tokio::select! {
            _ = serve(tcp, true) => (),
            _ = closing => (),
        }
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp, false));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_closes_costs_only_the_call_that_was_sent_over_it() {
    let (close, closing) = oneshot::channel();
    let address = closes_its_first(closing).await;
    let gateway = TestGateway::with(&[&format!("http://{address}")], |server| {
        server.workers = Workers::Fixed(1);
    });
    let sender = crate::http2::connect(gateway.address).await;
    let call = |path: &str, body: String| {
        let mut sender = sender.clone();
        let request = Request::post(format!("http://a{path}"))
            .header("content-type", "application/grpc")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        tokio::spawn(async move {
            let answer = sender.send_request(request).await.unwrap();
            (answer.status(), answer.into_body().collect().await.unwrap().to_bytes())
        })
    };
    // By its answer the gateway knows that this connection takes one at a time.
    assert_eq!(call("/warm", "warm".to_owned()).await.unwrap().1, "warm");
    let calls: Vec<_> = (0..6).map(|n| call("/", format!("message {n}"))).collect();
    let pending = Arc::clone(&gateway.upstream);
    let all = move || eventually("all wait", || pending.backpressure().pending() == 6);
    tokio::task::spawn_blocking(all).await.unwrap();
    close.send(()).unwrap();
    let mut passed = 0;
    for (n, call) in calls.into_iter().enumerate() {
        let (status, body) = call.await.unwrap();
        if status == StatusCode::OK {
            assert_eq!(body, format!("message {n}"));
            passed += 1;
        }
    }
    // One was sent there; the others found no room, and never were.
    assert_eq!(passed, 5);
    let failures = gateway.failures.lock().unwrap().clone();
    assert!(failures.iter().all(|(_, was_never_sent)| !was_never_sent), "{failures:?}");
}

/// One port for gRPC over HTTP/2 and everything else over HTTP/1.1: it tells which was spoken.
async fn either() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| async move {
                let version = format!("{:?}", request.version());
                Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(version)))
            });
            tokio::spawn(async move {
                let mut first = [0; 1];
                tcp.peek(&mut first).await.unwrap();
                if first == *b"P" {
                    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    http2.serve_connection(TokioIo::new(tcp), service).await.unwrap();
                } else {
                    let http1 = hyper::server::conn::http1::Builder::new();
                    http1.serve_connection(TokioIo::new(tcp), service).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_grpc_is_sent_over_http2_without_tls() {
    let url = format!("http://{}", either().await);
    let gateway = TestGateway::with(&[&url], |server| server.workers = Workers::Fixed(1));
    let url = gateway.url("/");
    let asked = tokio::task::spawn_blocking(move || {
        let of = |kind: &str| {
            let kind = format!("content-type: {kind}");
            curl(&["--http2-prior-knowledge", "--header", &kind, &url])
        };
        ["application/grpc", "text/plain", "application/grpc"].map(of)
    });
    assert_eq!(asked.await.unwrap(), ["HTTP/2.0", "HTTP/1.1", "HTTP/2.0"]);
}
