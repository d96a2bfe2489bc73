//! Ports that stay ours while nobody listens on them: between a server's end and its next start, or for good.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of the loopback that no other test is given while this exists.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _held: Option<Socket>,
}

impl Port {
    /// One that is free. A socket is bound to it and never listens: whoever connects is refused, who asks for any free port gets
    /// another, and a server that names this one may listen beside it, for both reuse the address.
    pub fn take() -> Port {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let number = socket.local_addr().unwrap().as_socket().unwrap().port();
        // Elsewhere no server could listen beside it.
        Port { number, _held: cfg!(target_os = "linux").then_some(socket) }
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}
