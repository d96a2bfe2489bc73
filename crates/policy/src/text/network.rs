//! Addresses.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;

use super::{Right, Text, text_value};

/// An IP address and a port to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct ListenAddress(#[schemars(with = "String")] SocketAddr);

impl ListenAddress {
    /// As an address.
    pub const fn socket(self) -> SocketAddr {
        self.0
    }

    /// Where nobody else's machine can come from, with that port.
    pub(crate) const fn localhost(port: u16) -> ListenAddress {
        ListenAddress(SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port))
    }
}

impl Text for ListenAddress {
    const FORMAT: &'static str = "socket-address";
    const PATTERN: &'static str = r"^([0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$";

    fn read(text: &str) -> Result<ListenAddress, Right> {
        text.parse().map(ListenAddress).map_err(|_| {
            "write an IP address and a port, such as `127.0.0.1:8080` or `[::]:8080`".into()
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A network: an address and how many of its leading bits count. An address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Cidr(#[schemars(with = "String")] Network);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Its first address.
    pub const fn address(self) -> IpAddr {
        self.0.address
    }

    /// How many leading bits its addresses share.
    pub const fn prefix(self) -> u8 {
        self.0.prefix
    }

    /// Whether `address` is in it. An IPv4 address is never in an IPv6 network; unmap it before.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.0.address.is_ipv4()
            && masked(address, self.0.prefix) == self.0.address
    }
}

/// `address` with all but its first `prefix` bits 0.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

impl Text for Cidr {
    const FORMAT: &'static str = "cidr";
    const PATTERN: &'static str = "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$";

    fn read(text: &str) -> Result<Cidr, Right> {
        let wrong = || Right::from("write a network, such as `10.0.0.0/8` or `fd00::/8`");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |text: &str| text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            None => bits,
            Some(text) if is_number(text) => text.parse().map_err(|_| wrong())?,
            Some(_) => return Err(wrong()),
        };
        if prefix > bits {
            return Err(format!("write at most {bits} bits after the `/`").into());
        }
        match masked(address, prefix) {
            first if first == address => Ok(Cidr(Network { address, prefix })),
            first => Err(format!("its first address is another: write `{first}/{prefix}`").into()),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.address, self.0.prefix)
    }
}

text_value!(ListenAddress, Cidr);
