//! Sockets that listen: one a worker, all on one address.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// As many listeners on `address` as there are workers, and the address they are bound to.
///
/// Sockets with `SO_REUSEPORT` share an address with whoever asks for it in the same way, even another program
/// that was started by mistake. So the address is first bound without: if that succeeds, nobody has it.
pub(crate) fn listeners(
    address: SocketAddr,
    workers: usize,
) -> io::Result<(Vec<std::net::TcpListener>, SocketAddr)> {
    let probe = socket(address, false)?;
    let address = bound(&probe)?;
    drop(probe);
    let listeners = (0..workers).map(|_| {
        let socket = socket(address, true)?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    });
    Ok((listeners.collect::<io::Result<_>>()?, address))
}

fn socket(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a gateway that was stopped a moment ago do not keep the next one from starting.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if !is_shared {
        // With SO_REUSEADDR alone, somebody else's listening socket shows only here.
        socket.listen(1)?;
    }
    Ok(socket)
}

fn bound(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}
