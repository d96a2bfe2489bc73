//! From an address to a connection.

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::error::{ForwardCause, ForwardError};
use crate::socket::Socket;
use crate::stream::Stream;
use crate::upstream::Target;

/// Connects to one address until then, TLS included. That it cannot be is told to the address' health.
pub(crate) async fn connect(
    target: &Target,
    until: Instant,
    http1_only: bool,
) -> Result<Stream, ForwardError> {
    match timeout_at(until, open(target, http1_only)).await {
        // That it takes connections does not say that it answers.
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => {
            target.failed(Instant::now());
            Err(ForwardError::unsent(ForwardCause::Connect).with(error))
        }
        Err(_) => {
            target.failed(Instant::now());
            Err(ForwardError::unsent(ForwardCause::ConnectTimeout))
        }
    }
}

async fn open(target: &Target, http1_only: bool) -> std::io::Result<Stream> {
    let tcp = TcpStream::connect(target.address).await?;
    tcp.set_nodelay(true)?;
    match target.origin.tls(http1_only) {
        None => Ok(Stream::plain(tcp)),
        Some((config, name)) => {
            let connector = TlsConnector::from(config);
            Ok(Stream::tls(connector.connect(name, Socket::new(tcp)).await?))
        }
    }
}
