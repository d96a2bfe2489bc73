//! Connections that become something else: over TLS, early, to an address that is dead, by a peer that vanishes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::ports::Port;
use crate::support::{Exchange, Raw, Served, TestGateway, eventually, upstream};
use crate::tls::Folder;
use tollgate_gateway::{Certificates, Trust, Upstream};
use tollgate_policy::shapes::Workers;

const REQUEST: &str = "GET /chat HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
                       upgrade: websocket\r\n\r\n";

const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

/// Switches, and sends everything back.
fn echo(exchange: &mut Exchange) -> bool {
    exchange.write(SWITCHED);
    let mut bytes = [0; 1024];
    while let Ok(read @ 1..) = exchange.reader.read(&mut bytes) {
        exchange.write(&bytes[..read]);
    }
    false
}

/// A caller's TLS, to whoever shows this certificate.
fn tls_to(address: SocketAddr, folder: &Folder) -> impl std::io::Read + std::io::Write {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.file("cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    rustls::StreamOwned::new(session, tcp)
}

#[test]
fn a_connection_switches_over_tls_on_either_side() {
    let folder = Folder::new("switching");
    let certificates = Certificates::read(&folder.write("both")).unwrap();
    let behind = Served::new(echo);
    // A gateway is a good https upstream, and would like HTTP/2 better.
    let inner = Upstream::new(&upstream(&[&behind.url()]), Trust::system).unwrap();
    let inner = TestGateway::of(inner, |_| (), Some(Arc::clone(&certificates)));
    let shape = upstream(&[&format!("https://localhost:{}", inner.address.port())]);
    let outer = Upstream::new(&shape, || Trust::only(folder.file("cert.pem"))).unwrap();
    let outer = TestGateway::of(outer, |_| (), Some(certificates));

    let mut caller = tls_to(outer.address, &folder);
    caller.write_all(REQUEST.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        caller.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    for word in ["first", "other"] {
        caller.write_all(word.as_bytes()).unwrap();
        let mut back = [0; 5];
        caller.read_exact(&mut back).unwrap();
        assert_eq!(&back, word.as_bytes());
    }
}

#[test]
fn what_a_caller_sends_before_101_waits_for_it() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let tcp = exchange.reader.get_ref();
        tcp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let early = exchange.reader.read(&mut [0; 8]).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock);
        exchange.reader.get_ref().set_read_timeout(None).unwrap();
        echo(exchange)
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write(format!("{REQUEST}early;"));
    assert!(caller.head().starts_with("HTTP/1.1 101"));
    assert_eq!(caller.read_until(";"), "early;");
}

#[test]
fn an_upgrade_goes_to_the_next_address_where_the_first_is_dead() {
    let nobody = Port::take();
    let dead = nobody.address();
    let alive = Served::new(echo);
    let gateway = TestGateway::with(&[&format!("http://{dead}"), &alive.url()], |server| {
        server.workers = Workers::Fixed(1);
    });
    let head = Raw::connect(gateway.address).write(REQUEST).head();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(gateway.failures.lock().unwrap().is_empty());
}

/// Whether the kernel asks for the peer of a connection of ours, by the ports at both ends.
#[cfg(target_os = "linux")]
fn is_kept_alive(is_it: impl Fn(u16, u16) -> bool) -> bool {
    const KEEP_ALIVE_TIMER: &str = "02:";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |end: &str| u16::from_str_radix(end.rsplit(':').next().unwrap(), 16).unwrap();
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        is_it(port(fields[1]), port(fields[2])) && fields[5].starts_with(KEEP_ALIVE_TIMER)
    })
}

/// Nobody noticed when they vanished, and their connections were open for ever.
#[cfg(target_os = "linux")]
#[test]
fn peers_of_a_switched_connection_are_asked_whether_they_are_there() {
    let upstream = Served::new(echo);
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    assert!(caller.write(REQUEST).head().starts_with("HTTP/1.1 101"));
    let (ours, theirs) = (gateway.address.port(), caller.0.local_addr().unwrap().port());
    eventually("the caller is asked", || {
        is_kept_alive(|local, remote| (local, remote) == (ours, theirs))
    });
    let there = upstream.address.port();
    eventually("the upstream is asked", || is_kept_alive(|_, remote| remote == there));
}
