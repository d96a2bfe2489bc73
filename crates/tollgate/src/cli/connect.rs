//! A connection to an admin API, with TLS where the address says so. The token does not cross a network in the clear
//! unless somebody says that it may.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_policy::HttpUrl;

use super::only_this::OnlyThis;
use super::place::Gateway;
use crate::exit::Failure;

/// How long a machine that is there takes at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes in both directions, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why there is no connection.
pub(super) enum NoConnection {
    /// Nobody listens there, or nothing leads there.
    Unreachable(String),
    /// It was not tried, or TLS failed.
    Other(Failure),
}

pub(super) async fn connect(
    gateway: &Gateway,
    may_be_plain: bool,
) -> Result<TokioIo<Box<dyn Stream>>, NoConnection> {
    let Gateway { url, certificate, .. } = gateway;
    let addresses = resolve(url).await?;
    if !url.is_https() {
        check_plain(url, &addresses, may_be_plain).map_err(NoConnection::Other)?;
    }
    let stream = match timeout(PATIENCE, TcpStream::connect(&addresses[..])).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return Err(NoConnection::Unreachable(why.to_string())),
        Err(_) => return Err(NoConnection::Unreachable("it does not answer".to_owned())),
    };
    let stream: Box<dyn Stream> = if url.is_https() {
        Box::new(encrypted(url, certificate.as_deref(), stream).await.map_err(NoConnection::Other)?)
    } else {
        Box::new(stream)
    };
    Ok(TokioIo::new(stream))
}

/// The host without brackets, and the port.
pub(super) fn host_and_port(url: &HttpUrl) -> (&str, u16) {
    let authority = url.authority();
    let usual = if url.is_https() { 443 } else { 80 };
    let after_address = authority.find(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[after_address..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_address + colon);
            (host, port[1..].parse().unwrap_or(usual))
        }
        None => (authority, usual),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

async fn resolve(url: &HttpUrl) -> Result<Vec<SocketAddr>, NoConnection> {
    let found = match timeout(PATIENCE, lookup_host(host_and_port(url))).await {
        Ok(Ok(found)) => found.collect::<Vec<_>>(),
        Ok(Err(why)) => return Err(NoConnection::Unreachable(why.to_string())),
        Err(_) => return Err(NoConnection::Unreachable("its name is not found".to_owned())),
    };
    if found.is_empty() {
        return Err(NoConnection::Unreachable("its name has no address".to_owned()));
    }
    Ok(found)
}

/// By the addresses that will be used, not by the name: what `localhost` means is the system's to say.
fn check_plain(url: &HttpUrl, addresses: &[SocketAddr], may_be_plain: bool) -> Result<(), Failure> {
    if addresses.iter().all(|address| address.ip().to_canonical().is_loopback()) {
        return Ok(());
    }
    if !may_be_plain {
        return Err(Failure::Failed(format!(
            "{url} is another machine, and over plain http anybody between could read the admin token: use https, or a tunnel \
             (`ssh -L 9090:127.0.0.1:9090 HOST`), or say --plain-http if the network is yours"
        )));
    }
    eprintln!("tollgate: warning: the admin token goes to {url} unencrypted");
    Ok(())
}

/// Trusts whoever shows `certificate`, if that is known; else whom this machine trusts, or `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name.
async fn encrypted(
    url: &HttpUrl,
    certificate: Option<&Path>,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Failure> {
    let failed = |why: String| Failure::Failed(format!("no TLS with {url}: {why}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(ALL_VERSIONS)
        .map_err(|why| failed(why.to_string()))?;
    let mut config = if let Some(file) = certificate {
        let only = OnlyThis::read(file, provider).map_err(failed)?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(only)).with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (host, _) = host_and_port(url);
    let name = ServerName::try_from(host.to_owned()).map_err(|why| failed(why.to_string()))?;
    match timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream)).await {
        Ok(agreed) => agreed.map_err(|why| failed(distrust(&why, certificate))),
        Err(_) => Err(failed("it does not answer".to_owned())),
    }
}

/// Why there was no agreement, and what would be right.
fn distrust(why: &io::Error, certificate: Option<&Path>) -> String {
    match certificate {
        Some(file) => format!(
            "{why}: the gateway's certificate is in {}, and whoever answers shows another. If it was just renewed, ask again",
            file.display()
        ),
        None => format!(
            "{why}. The name in the address must be one that its certificate is for; who signed that must be trusted by this \
             machine, or be in the file that SSL_CERT_FILE names"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_unless_said_otherwise() {
        let url = "http://admin.example.com:9090".parse().unwrap();
        let addresses =
            |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<_>>();
        let here = addresses(&["127.0.0.1:9090", "[::1]:9090", "[::ffff:127.0.0.1]:9090"]);
        assert!(check_plain(&url, &here, false).is_ok());
        let mixed = addresses(&["127.0.0.1:9090", "192.0.2.1:9090"]);
        assert!(check_plain(&url, &mixed, false).is_err());
        assert!(check_plain(&url, &mixed, true).is_ok());
    }

    #[test]
    fn hosts_are_told_from_ports() {
        for (url, host, port) in [
            ("http://127.0.0.1:9090", "127.0.0.1", 9090),
            ("http://[::1]:9090/x", "::1", 9090),
            ("http://[::1]", "::1", 80),
            ("https://admin.example.com", "admin.example.com", 443),
        ] {
            assert_eq!(host_and_port(&url.parse().unwrap()), (host, port), "{url}");
        }
    }
}
