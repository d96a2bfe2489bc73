//! Upstreams that cannot be connected to, or not in time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, Socket, Type};
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;

use crate::ports::Port;
use crate::support::{Exchange, Raw, Served, TestGateway, get, upstream};
use crate::tls::Folder;
use tollgate_gateway::{Trust, Upstream};
use tollgate_policy::shapes::Workers;

/// A gateway with one worker that waits so many milliseconds for a connection.
fn waits(urls: &[&str], connect_timeout_ms: u64) -> TestGateway {
    let mut shape = upstream(urls);
    shape.connect_timeout_ms = connect_timeout_ms;
    let upstream = Upstream::new(&shape, Trust::system).unwrap();
    TestGateway::of(upstream, |server| server.workers = Workers::Fixed(1), None)
}

fn failures(gateway: &TestGateway) -> Vec<(&'static str, bool)> {
    let failures = gateway.failures.lock().unwrap();
    failures.iter().map(|(why, unsent)| (why.as_str(), *unsent)).collect()
}

/// Accepts connections and says nothing, so that TLS never comes about; counts them.
fn mute() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for tcp in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Relaxed);
            open.push(tcp);
        }
    });
    (address, count)
}

#[test]
fn an_address_that_does_not_take_connections_is_504() {
    // Its queue is full, and further connections are ignored.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    let short = std::time::Duration::from_millis(300);
    while let Ok(tcp) = TcpStream::connect_timeout(&address, short) {
        queued.push(tcp);
        assert!(queued.len() < 100, "the queue has no end");
    }
    let gateway = waits(&[&format!("http://{address}")], 300);
    let (head, _) = get(gateway.address, "/");
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    assert_eq!(failures(&gateway), [("connect_timeout", true)]);
}

#[test]
fn all_who_wait_for_one_connection_are_told_when_it_is_not_made() {
    let (address, count) = mute();
    let gateway = waits(&[&format!("https://{address}")], 2000);
    let mut callers: Vec<_> = (0..8).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut callers {
        caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    for caller in &mut callers {
        let (head, _) = caller.response();
        assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    }
    assert_eq!(failures(&gateway), [("connect_timeout", true); 8]);
    // One, unless this machine was so slow that some came after it had failed; each by itself would be sixteen.
    assert!(count.load(Relaxed) < 8, "{count:?} connections");
}

/// An upstream over TLS that allows one stream a connection. It answers `/warm` at once, everything else when six requests are there;
/// it greets its first connection at once, the others when five more are there.
async fn greets_together(folder: &Folder) -> SocketAddr {
    folder.write("upstream");
    let certificates = CertificateDer::pem_file_iter(folder.file("cert.pem")).unwrap();
    let certificates = certificates.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.file("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(certificates, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (greeting, requests) = (Arc::new(Barrier::new(5)), Arc::new(Barrier::new(6)));
    tokio::spawn(async move {
        for nth in 0.. {
            let (tcp, _) = listener.accept().await.unwrap();
            let (acceptor, greeting) = (acceptor.clone(), Arc::clone(&greeting));
            let requests = Arc::clone(&requests);
            let service = service_fn(move |request: Request<Incoming>| {
                let requests = Arc::clone(&requests);
                async move {
                    if request.uri().path() != "/warm" {
                        requests.wait().await;
                    }
                    Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("fine")))
                }
            });
            tokio::spawn(async move {
                if nth > 0 {
                    greeting.wait().await;
                }
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(1);
                let _ = builder.serve_connection(TokioIo::new(tls), service).await;
            });
        }
    });
    address
}

/// They were opened one after the other, within the time for one.
#[test]
fn connections_that_are_needed_at_once_are_opened_at_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = Folder::new("at-once");
    let address = runtime.block_on(greets_together(&folder));
    let mut shape = upstream(&[&format!("https://localhost:{}", address.port())]);
    shape.connect_timeout_ms = 20_000;
    shape.response_timeout_ms = 60_000;
    let upstream = Upstream::new(&shape, || Trust::only(folder.file("cert.pem"))).unwrap();
    let gateway = TestGateway::of(upstream, |server| server.workers = Workers::Fixed(1), None);
    // By its answer the gateway knows that a connection takes one at a time.
    assert_eq!(get(gateway.address, "/warm").1, "fine");
    let mut callers: Vec<_> = (0..6).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut callers {
        caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    for caller in &mut callers {
        let (head, body) = caller.response();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(body, "fine");
    }
    assert_eq!(failures(&gateway), []);
}

#[test]
fn a_body_of_which_nothing_was_written_goes_to_the_next_address() {
    let alive = Served::new(|exchange: &mut Exchange| {
        let body = exchange.body();
        exchange.ok(&String::from_utf8_lossy(&body));
        true
    });
    let nobody = Port::take();
    let gateway = waits(&[&format!("http://{}", nobody.address()), &alive.url()], 2000);
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody";
    let (head, body) = Raw::connect(gateway.address).write(request).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "body");
    assert_eq!(failures(&gateway), []);
}

/// Its second error said that nothing was sent, and what the request had cost was given back.
#[test]
fn a_request_that_was_sent_once_stays_sent_when_nobody_takes_it_again() {
    // Held also when nobody listens there any more.
    let port = Port::take();
    let address = port.address();
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(tcp);
        for is_first in [true, false] {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            if is_first {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
        // It has read the second, and is gone: first for others, then for whoever waits.
        drop(listener);
    });
    let gateway = waits(&[&format!("http://{address}")], 2000);
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 502"));
    assert_eq!(failures(&gateway), [("connect", false)]);
}
