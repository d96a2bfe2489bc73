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

/// Lets no further connection begin on a listener, and lets those that have begun be accepted.
///
/// Closing a listener resets whoever is connected and not yet accepted, and somebody always is in the moment between
/// the last look at the queue and the close. So first the kernel is told to ignore whoever wants to connect: they try
/// again after a second, and are refused by then.
#[cfg(target_os = "linux")]
pub(crate) fn ignore_newcomers(listener: &impl std::os::fd::AsFd) -> io::Result<()> {
    use socket2::{SockFilter, SockRef};
    // Classic BPF over a segment that begins with its TCP header: drop it if the flag SYN is set.
    const LOAD_BYTE: u16 = 0x30;
    const SKIP_UNLESS_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(SKIP_UNLESS_SET, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

/// Elsewhere the moment is left open.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ignore_newcomers<L>(_: &L) -> io::Result<()> {
    Ok(())
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
