//! What is seen of a peer that reads slowly, though TLS stands between.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// Both ends of a connection, of which the kernel keeps little.
async fn narrow() -> (Stream, tokio_rustls::client::TlsStream<TcpStream>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let caller = TcpSocket::new_v4().unwrap();
    caller.set_recv_buffer_size(4096).unwrap();
    let called = caller.connect(listener.local_addr().unwrap());
    let (accepted, called) = tokio::join!(listener.accept(), called);
    let accepted = accepted.unwrap().0;
    SockRef::from(&accepted).set_send_buffer_size(4096).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from("localhost").unwrap();
    let (server, client) = tokio::join!(
        acceptor.accept(Socket::new(accepted)),
        connector.connect(name, called.unwrap())
    );
    (Stream::tls(server.unwrap()), client.unwrap())
}

async fn now<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(poll(cx))).await
}

/// TLS takes all of a small answer at once, and the kernel takes it bit by bit: each bit is seen.
#[tokio::test]
async fn what_the_kernel_takes_of_a_flush_is_seen() {
    let (mut stream, mut caller) = narrow().await;
    let answer = vec![b'x'; 48 * 1024];
    let mut written = 0;
    while written < answer.len() {
        match now(|cx| Pin::new(&mut stream).poll_write(cx, &answer[written..])).await {
            Poll::Ready(some) => written += some.unwrap(),
            Poll::Pending => panic!("TLS has no room for {} more", answer.len() - written),
        }
    }
    let (peer, mut seen, mut looks) = (stream.peer(), 0, 0);
    assert!(now(|cx| Pin::new(&mut stream).poll_flush(cx)).await.is_pending());
    peer.took_more(&mut seen);
    assert!(peer.is_deaf() && !peer.took_more(&mut seen));
    while now(|cx| Pin::new(&mut stream).poll_flush(cx)).await.is_pending() {
        let _ = caller.get_mut().0.try_read(&mut [0; 2048]);
        looks += usize::from(peer.took_more(&mut seen));
        // Lets the runtime look at the sockets.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(looks >= 3, "seen {looks} times");
    assert!(!peer.is_deaf());
}
