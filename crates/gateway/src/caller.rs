//! Who is calling, when proxies stand in between.

use std::net::IpAddr;

use tollgate_policy::Cidr;

/// The caller's address: the nearest one that is not a trusted proxy's.
///
/// `forwarded` are the values of `X-Forwarded-For` in the order they came, each a list. They are read from right to
/// left, because only the right end was written by somebody we trust: as long as an address belongs to a trusted
/// proxy, the one before it is what that proxy saw. What cannot be read as an address ends the walk.
///
/// ```
/// use tollgate_gateway::caller_address;
///
/// let trusted = ["10.0.0.0/8".parse()?];
/// let forwarded = ["6.6.6.6, 203.0.113.7", "10.0.0.2"];
/// let caller = caller_address("10.0.0.1".parse()?, &forwarded, &trusted);
/// assert_eq!(caller.to_string(), "203.0.113.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn caller_address<V: AsRef<[u8]>>(peer: IpAddr, forwarded: &[V], trusted: &[Cidr]) -> IpAddr {
    let mut nearest = peer.to_canonical();
    if !is_trusted(nearest, trusted) {
        return nearest;
    }
    let hops = forwarded.iter().rev().flat_map(|value| value.as_ref().rsplit(|b| *b == b','));
    for hop in hops {
        let Some(address) = address_of(hop) else { return nearest };
        nearest = address;
        if !is_trusted(nearest, trusted) {
            break;
        }
    }
    nearest
}

/// Whether `address` belongs to one of the networks.
pub(crate) fn is_trusted(address: IpAddr, trusted: &[Cidr]) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|network| network.contains(address))
}

/// An address as proxies write it: alone, with a port, or in brackets.
fn address_of(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let address = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    address.or_else(with_port).or_else(in_brackets).map(|address| address.to_canonical())
}
