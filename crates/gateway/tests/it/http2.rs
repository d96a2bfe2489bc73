//! HTTP/2 at both ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::support::{Served, TestGateway, curl, eventually, header};

pub async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    connect_with(address).await
}

/// The same for bodies of another kind.
pub async fn connect_with<B>(address: SocketAddr) -> SendRequest<B>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(driver);
    sender
}

/// An upstream that speaks nothing but HTTP/2: answers with the call's body and trailers, and one of its own.
pub async fn grpc_upstream(connections: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Relaxed);
            let service = service_fn(|request: Request<Incoming>| async move {
                assert_eq!(request.version(), Version::HTTP_2);
                assert_eq!(request.headers().get("te").unwrap(), "trailers");
                assert_eq!(request.uri().authority().unwrap().as_str(), "service.test");
                assert_eq!(request.headers().get("host"), None);
                let body = request.into_body().collect().await.unwrap();
                let mut trailers = body.trailers().cloned().unwrap_or_default();
                let body = body.to_bytes();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                trailers.insert("retry-after-ms", HeaderValue::from_static("1"));
                let frames = [
                    Ok::<_, std::convert::Infallible>(Frame::data(body)),
                    Ok(Frame::trailers(trailers)),
                ];
                let stream = tokio_stream(frames);
                let mut response = Response::new(StreamBody::new(stream));
                response
                    .headers_mut()
                    .insert("content-type", HeaderValue::from_static("application/grpc"));
                Ok::<_, std::convert::Infallible>(response)
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tcp), service),
            );
        }
    });
    address
}

fn tokio_stream<T: Unpin, const N: usize>(items: [T; N]) -> Items<std::array::IntoIter<T, N>> {
    Items(items.into_iter())
}

struct Items<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Items<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_call_passes_with_its_trailers_over_a_shared_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let upstream = grpc_upstream(Arc::clone(&connections)).await;
    let gateway = TestGateway::with(&[&format!("http://{upstream}")], |server| {
        server.workers = tollgate_policy::shapes::Workers::Fixed(1);
    });
    let sender = connect(gateway.address).await;
    let calls = (0..50).map(|n| {
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let request = Request::post("http://service.test/pkg.Service/Method")
                .header("content-type", "application/grpc+proto")
                .header("te", "trailers")
                .body(Full::new(Bytes::from(format!("message {n}"))))
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.trailers().unwrap().get("grpc-status").unwrap(), "0");
            // What is ours to say an upstream does not say, here either.
            assert!(!body.trailers().unwrap().contains_key("retry-after-ms"));
            assert_eq!(body.to_bytes(), format!("message {n}"));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(connections.load(Relaxed), 1);
}

#[tokio::test]
async fn the_authority_becomes_the_host_and_must_agree_with_it() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let mut sender = connect(gateway.address).await;
    let request = |host: Option<&str>| {
        let mut request = Request::get("http://named.test:81/x?y");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        request.body(Full::new(Bytes::new())).unwrap()
    };
    for host in [None, Some("named.test:81")] {
        let response = sender.send_request(request(host)).await.unwrap();
        let seen = response.into_body().collect().await.unwrap().to_bytes();
        let seen = String::from_utf8_lossy(&seen);
        assert!(seen.starts_with("GET /x?y HTTP/1.1\r\n"), "{seen}");
        assert_eq!(header(&seen, "host"), Some("named.test:81"));
        assert_eq!(header(&seen, "transfer-encoding"), None, "a GET without a body has none");
    }
    let response = sender.send_request(request(Some("other.test"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn a_panic_ends_one_stream_and_is_counted() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let status = std::process::Command::new("curl")
        .args(["--silent", "--http2-prior-knowledge", &gateway.url("/panic")])
        .status()
        .unwrap();
    assert!(!status.success());
    eventually("counted", || gateway.counts.panics() == 1);
    assert!(curl(&["--http2-prior-knowledge", &gateway.url("/")]).starts_with("GET /"));
}

/// Whether a connection on which something is asked again and again stays open for longer than an idle one may; nothing
/// if this machine was too busy to ask often enough.
async fn stays_open(address: SocketAddr, idle: Duration) -> Option<bool> {
    let mut sender = connect(address).await;
    let began = Instant::now();
    while began.elapsed() < idle * 3 {
        let asked = Instant::now();
        let many = Request::get("http://a/").header("a", "1").header("b", "2");
        let answer = sender.send_request(many.body(Full::default()).unwrap()).await;
        if asked.elapsed() > idle / 4 {
            return None;
        }
        match answer {
            Ok(answer) => assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Err(_) => return Some(false),
        }
        tokio::time::sleep(idle / 20).await;
        if asked.elapsed() > idle / 2 {
            return None;
        }
    }
    Some(true)
}

/// Requests that are answered at once began and ended between two looks at the connection, which was taken for idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_requests_are_answered_at_once_is_not_idle() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.headers = 1;
        server.caps.idle_timeout_ms = 1000;
    });
    for _ in 0..20 {
        if let Some(stayed) = stays_open(gateway.address, Duration::from_secs(1)).await {
            return assert!(stayed, "it was closed while it was in use");
        }
    }
    panic!("this machine is too busy to tell");
}

/// A caller that answers pings and opens no window is not deaf, and takes nothing. It keeps no upstream for that, and its
/// other requests are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_not_taken_is_given_up_and_its_connection_is_not() {
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Served::new(move |exchange: &mut crate::support::Exchange| {
        if exchange.head.starts_with("GET /small") {
            exchange.ok("small");
            return true;
        }
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        let piece = vec![b'x'; 1_000_000];
        let stream = exchange.reader.get_mut();
        while std::io::Write::write_all(stream, &piece).is_ok() {}
        told.send(()).unwrap();
        false
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.idle_timeout_ms = 2000;
        server.caps.header_timeout_ms = 2000;
    });
    let io = TokioIo::new(TcpStream::connect(gateway.address).await.unwrap());
    let (mut sender, driver) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1000)
        .handshake(io)
        .await
        .unwrap();
    tokio::spawn(driver);
    let get = |path: &str| Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let unread = sender.send_request(get("http://a/large")).await.unwrap();
    let given_up = async { ended.recv().await.unwrap() };
    let mut given_up = std::pin::pin!(tokio::time::timeout(Duration::from_secs(30), given_up));
    // Whatever else it asks for meanwhile does not put that off.
    loop {
        let small = sender.send_request(get("http://a/small")).await.unwrap();
        assert_eq!(small.into_body().collect().await.unwrap().to_bytes(), "small");
        tokio::select! {
            ended = &mut given_up => break ended.expect("it is kept for ever"),
            () = tokio::time::sleep(Duration::from_millis(50)) => (),
        }
    }
    let small = sender.send_request(get("http://a/small")).await.unwrap();
    assert_eq!(small.into_body().collect().await.unwrap().to_bytes(), "small");
    assert!(unread.into_body().collect().await.is_err(), "it looks complete");
    assert_eq!(gateway.counts.timeouts(), 1);
}
