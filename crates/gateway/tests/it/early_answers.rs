//! Answers that come before a request's body is over, from an upstream over HTTP/2 to a caller over HTTP/1.1. The body is then
//! with the task of the upstream's connection, and may be there for longer than the caller's connection.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{Raw, TestGateway, eventually, upstream};
use crate::tls::Folder;
use tollgate_gateway::{Certificates, Trust, Upstream};
use tollgate_policy::shapes::Server;

/// What an upstream tells of the body of a request that it has answered: all of it, or nothing because it was broken off.
type Told = mpsc::Receiver<Option<Bytes>>;

/// A gateway before an upstream that answers without having read anything, which it does afterwards; under `/endless` neither its
/// answer nor what it leaves unread has an end.
struct Early {
    gateway: TestGateway,
    told: Told,
    _folder: Folder,
}

impl Early {
    fn new(name: &str, idle_timeout_ms: u64) -> Early {
        let folder = Folder::new(name);
        let certificates = Certificates::read(&folder.write("upstream")).unwrap();
        let (tell, told) = mpsc::channel();
        let (listens, listening) = mpsc::channel();
        let acceptor = TlsAcceptor::from(Arc::clone(certificates.config()));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve(acceptor, listens, tell));
        });
        let address = listening.recv().unwrap();
        let shape = upstream(&[&format!("https://localhost:{}", address.port())]);
        let upstream = Upstream::new(&shape, || Trust::only(folder.file("cert.pem"))).unwrap();
        let change = |server: &mut Server| server.caps.idle_timeout_ms = idle_timeout_ms;
        let gateway = TestGateway::of(upstream, change, None);
        Early { gateway, told, _folder: folder }
    }

    fn told(&self) -> Option<Bytes> {
        self.told.recv_timeout(Duration::from_secs(30)).expect("the body never came to an end")
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    listens: mpsc::Sender<SocketAddr>,
    tell: mpsc::Sender<Option<Bytes>>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listens.send(listener.local_addr().unwrap()).unwrap();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(tls) = acceptor.accept(tcp).await else { continue };
        let tell = tell.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let tell = tell.clone();
            async move { Ok::<_, Infallible>(answer(request, tell)) }
        });
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(16 * 1024);
        tokio::spawn(builder.serve_connection(TokioIo::new(tls), service));
    }
}

fn answer(
    request: Request<Incoming>,
    tell: mpsc::Sender<Option<Bytes>>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    if request.uri().path() == "/endless" {
        return Response::new(Endless { _unread: request.into_body(), tell }.boxed_unsync());
    }
    tokio::spawn(async move {
        // A moment later, when more has come to the gateway than there is room for here.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let body = request.into_body().collect().await;
        let _ = tell.send(body.ok().map(http_body_util::Collected::to_bytes));
    });
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// An answer that goes on until it is broken off, which it tells.
struct Endless {
    _unread: Incoming,
    tell: mpsc::Sender<Option<Bytes>>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.tell.send(None);
    }
}

/// What was read after the answer for the sake of the next request was missing from the middle of the body.
#[test]
fn a_body_that_goes_on_after_its_answer_is_whole_or_broken_off() {
    let early = Early::new("early-whole", 60_000);
    let mut caller = Raw::connect(early.gateway.address);
    let chunks = format!("400\r\n{}\r\n", "x".repeat(0x400)).repeat(75);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").write(chunks);
    let (head, _) = caller.response();
    assert!(head.starts_with("HTTP/1.1 202"), "{head}");
    // It is broken off where this took us more than a second.
    let _ = caller.0.write_all(b"5\r\nlater\r\n0\r\n\r\n");
    if let Some(body) = early.told() {
        assert_eq!(body.len(), 75 * 0x400 + "later".len());
        let (head, _) = caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").response();
        assert!(head.starts_with("HTTP/1.1 202"), "the connection is as good as before: {head}");
    }
}

#[test]
fn a_body_that_stops_coming_after_its_answer_is_broken_off_at_both_ends() {
    let early = Early::new("early-stops", 60_000);
    let mut caller = Raw::connect(early.gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n");
    let (head, _) = caller.response();
    assert!(head.starts_with("HTTP/1.1 202"), "{head}");
    assert_eq!(caller.rest(), "");
    assert_eq!(early.told(), None);
}

/// The connection was no longer counted and its socket open for ever, with a task that waited for the rest of the body.
#[test]
fn a_caller_that_neither_reads_nor_ends_its_body_keeps_no_socket_and_no_stream() {
    let early = Early::new("early-deaf", 300);
    let mut caller = Raw::connect(early.gateway.address);
    caller.write("POST /endless HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf.");
    eventually("it is served", || early.gateway.counts.accepted() == 1);
    eventually("it is given up", || early.gateway.counts.open() == 0);
    assert!(caller.rest().starts_with("HTTP/1.1 200"));
    assert_eq!(early.told(), None);
}
