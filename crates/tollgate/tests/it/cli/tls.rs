//! An admin API behind TLS.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Run, TOKEN};

/// A server that answers one request over TLS, and tells what it was sent; the certificate to trust it by.
fn server(answer: &'static str) -> (u16, String, thread::JoinHandle<String>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut tls = StreamOwned::new(connection, stream);
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match tls.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => break,
            }
        }
        let _ = write!(tls, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        let _ = tls.flush();
        String::from_utf8(head).unwrap()
    });
    (port, certificate.pem(), served)
}

#[test]
fn a_trusted_certificate_gets_the_token_and_another_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    for is_trusted in [true, false] {
        let (port, pem, served) = server("{\"items\":[]}");
        let (_, stranger, _) = server("");
        std::fs::write(&roots, if is_trusted { pem } else { stranger }).unwrap();
        let url = format!("https://localhost:{port}/proxied");
        let told = Run::new(folder.path(), &["plans", "list", "--json", "--admin", &url])
            .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
            .env("SSL_CERT_FILE", roots.to_str().unwrap())
            .told();
        let head = served.join().unwrap();
        if is_trusted {
            assert_eq!(told.good(), "{\"items\":[]}\n");
            assert!(head.starts_with("GET /proxied/v1/plans?limit=100 HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(TOKEN), "{head}");
        } else {
            assert!(told.failed(1).contains("no TLS with https://localhost"), "{told:?}");
            assert_eq!(head, "");
        }
    }
}
