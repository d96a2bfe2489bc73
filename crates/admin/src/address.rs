//! Where the control plane may listen.

use std::fmt;
use std::net::SocketAddr;

/// An address that others can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposed(SocketAddr);

/// Refuses an address that others than this machine can reach where the token would cross the network in the clear, unless
/// somebody said that it may.
///
/// ```
/// use tollgate_admin::check_address;
///
/// assert!(check_address("127.0.0.1:9090".parse().unwrap(), false).is_ok());
/// assert!(check_address("0.0.0.0:9090".parse().unwrap(), false).is_err());
/// assert!(check_address("0.0.0.0:9090".parse().unwrap(), true).is_ok());
/// ```
///
/// # Errors
///
/// If others can reach it and `may_be_exposed` is `false`.
pub fn check_address(address: SocketAddr, may_be_exposed: bool) -> Result<(), Exposed> {
    if address.ip().to_canonical().is_loopback() || may_be_exposed {
        return Ok(());
    }
    Err(Exposed(address))
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the admin API would be open to the network on {}, without TLS: listen on 127.0.0.1, give it a certificate (`server.admin_tls: {{cert, key}}`), or say that it is meant",
            self.0
        )
    }
}

impl std::error::Error for Exposed {}
