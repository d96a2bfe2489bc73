//! TLS towards callers and upstreams.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Served, TestGateway, curl};
use tollgate_gateway::{Certificates, TlsError, Trust, Upstream};
use tollgate_policy::shapes::Tls;

/// A folder with a certificate for `localhost` that is its own authority; gone when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tollgate-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, common_name: &str) -> Tls {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.0.join("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(self.0.join("key.pem"), key.serialize_pem()).unwrap();
        let path = |name: &str| self.file(name).to_str().unwrap().parse().unwrap();
        Tls { cert: path("cert.pem"), key: path("key.pem") }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gateway(url: &str, certificates: &Arc<Certificates>) -> TestGateway {
    let upstream = Upstream::new(&crate::support::upstream(&[url]), Trust::system).unwrap();
    TestGateway::of(upstream, |_| (), Some(Arc::clone(certificates)))
}

/// A gateway with TLS, which is a good upstream over HTTP/2.
pub struct HttpsGateway {
    folder: Folder,
    gateway: TestGateway,
}

impl HttpsGateway {
    pub fn new(name: &str, url: &str) -> HttpsGateway {
        let folder = Folder::new(name);
        let certificates = Certificates::read(&folder.write("upstream")).unwrap();
        let upstream = Upstream::new(&patient(url), Trust::system).unwrap();
        let gateway = TestGateway::of(upstream, |_| (), Some(certificates));
        HttpsGateway { folder, gateway }
    }

    /// What another gateway forwards to.
    pub fn as_upstream(&self) -> Arc<Upstream> {
        let url = format!("https://localhost:{}", self.gateway.address.port());
        let trust = || Trust::only(self.folder.file("cert.pem"));
        Upstream::new(&patient(&url), trust).unwrap()
    }
}

/// An upstream that may take longer than any test.
fn patient(url: &str) -> tollgate_policy::shapes::Upstream {
    let mut shape = crate::support::upstream(&[url]);
    shape.response_timeout_ms = 600_000;
    shape
}

fn call(gateway: &TestGateway, authority: &Path, more: &[&str]) -> String {
    let url = format!("https://localhost:{}/x", gateway.address.port());
    let to = format!("localhost:{}:127.0.0.1", gateway.address.port());
    let mut args = vec!["--cacert", authority.to_str().unwrap(), "--resolve", &to, &url];
    args.extend(more);
    curl(&args)
}

#[test]
fn callers_speak_either_protocol_over_tls_and_see_a_renewed_certificate() {
    let folder = Folder::new("callers");
    let certificates = Certificates::read(&folder.write("first")).unwrap();
    let upstream = Served::echo();
    let gateway = gateway(&upstream.url(), &certificates);
    let authority = folder.file("cert.pem");
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let answer = call(&gateway, &authority, &[flag, "--write-out", "%{http_version}"]);
        assert!(answer.contains("x-forwarded-proto: https\r\n"), "{answer}");
        assert!(answer.ends_with(version), "{answer}");
    }
    let shown = |gateway: &TestGateway| {
        let url = format!("https://{}/x", gateway.address);
        let output = std::process::Command::new("curl")
            .args(["--insecure", "--silent", "--verbose", "--output", "/dev/null", &url])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(shown(&gateway).contains("CN=first"));
    folder.write("second");
    certificates.reload().unwrap();
    assert!(shown(&gateway).contains("CN=second"));

    // A faulty file changes nothing.
    std::fs::write(folder.file("cert.pem"), "nonsense").unwrap();
    assert!(matches!(certificates.reload(), Err(TlsError::File { .. })));
    assert!(shown(&gateway).contains("CN=second"));
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (one, two) = (Folder::new("one"), Folder::new("two"));
    let (mut tls, other) = (one.write("one"), two.write("two"));
    tls.key = other.key;
    assert!(matches!(Certificates::read(&tls), Err(TlsError::Mismatch { .. })));
}

#[test]
fn https_upstreams_are_verified_and_spoken_to_as_they_like() {
    let folder = Folder::new("upstreams");
    let certificates = Certificates::read(&folder.write("upstream")).unwrap();
    // A gateway is a good https upstream: it speaks both protocols.
    let behind = Served::echo();
    let inner = gateway(&behind.url(), &certificates);
    let url = format!("https://localhost:{}", inner.address.port());
    let shape = crate::support::upstream(&[&url]);

    let trust = || Trust::only(folder.file("cert.pem"));
    let outer = TestGateway::of(Upstream::new(&shape, trust).unwrap(), |_| (), None);
    for _ in 0..3 {
        let answer = curl(&[&outer.url("/x")]);
        assert!(answer.starts_with("GET /x HTTP/1.1\r\n"), "{answer}");
        assert!(answer.contains("x-forwarded-proto: https\r\n"), "{answer}");
    }

    let stranger = Folder::new("stranger");
    stranger.write("stranger");
    let trust = || Trust::only(stranger.file("cert.pem"));
    let outer = TestGateway::of(Upstream::new(&shape, trust).unwrap(), |_| (), None);
    let status = curl(&["--output", "/dev/null", "--write-out", "%{http_code}", &outer.url("/x")]);
    assert_eq!(status, "502");
    assert_eq!(outer.failures.lock().unwrap()[0].0.as_str(), "connect");
}

/// Speaks HTTP/1.1 alone over TLS: answers with the length of the body it got, or a large one of its own.
fn http1_upstream(tls: &Tls) -> std::net::SocketAddr {
    use rustls::pki_types::pem::PemObject;
    let certificate =
        rustls::pki_types::CertificateDer::from_pem_file(tls.cert.to_string()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(tls.key.to_string()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            std::thread::spawn(move || serve(rustls::StreamOwned::new(session, tcp)));
        }
    });
    address
}

fn serve(stream: rustls::StreamOwned<rustls::ServerConnection, std::net::TcpStream>) {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut reader = BufReader::new(stream);
    for nth in 0.. {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let length = crate::support::header(&head, "content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let answer = if head.contains("/large") {
            let large = "x".repeat(1_000_000);
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nf4240\r\n{large}\r\n0\r\n\r\n"
            )
        } else {
            let text = format!("{nth}: {}", body.len());
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
        };
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        reader.get_mut().flush().unwrap();
    }
}

#[test]
fn https_upstreams_that_speak_http1_keep_their_connection() {
    let folder = Folder::new("http1");
    let address = http1_upstream(&folder.write("upstream"));
    let shape = crate::support::upstream(&[&format!("https://localhost:{}", address.port())]);
    let trust = || Trust::only(folder.file("cert.pem"));
    let upstream = Upstream::new(&shape, trust).unwrap();
    let gateway = TestGateway::of(
        upstream,
        |server| server.workers = tollgate_policy::shapes::Workers::Fixed(1),
        None,
    );
    assert_eq!(curl(&[&gateway.url("/")]), "0: 0");
    let body = "x".repeat(1_000_000);
    let file = folder.file("body");
    std::fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    assert_eq!(curl(&["--data-binary", &data, &gateway.url("/")]), "1: 1000000");
    assert_eq!(curl(&[&gateway.url("/large")]).len(), 1_000_000);
    assert_eq!(curl(&["--data", "four", &gateway.url("/")]), "3: 4");
}
