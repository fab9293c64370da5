//! Binds the doors' addresses, once per I/O thread where several share a port.
//! The plane calls it before any thread starts, so that an address in use is an error of `start`.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

const BACKLOG: i32 = 4096;

fn bind(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if share {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn open(address: SocketAddr, share: bool) -> io::Result<TcpListener> {
    let socket = bind(address, share)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn with_address(address: &str, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("cannot listen on {address}: {why}"))
}

/// One listener per I/O thread on the first address that `address` resolves to, and the address with its real port.
pub fn listeners(address: &str, count: usize) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let mut resolved = address.to_socket_addrs().map_err(|why| with_address(address, &why))?;
    let wanted = resolved
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("cannot listen on {address}: no such host")))?;
    let listen = || {
        if count > 1 && wanted.port() != 0 {
            // Sharing would silently join another program that shares this port too: see whether it is free first.
            drop(bind(wanted, false)?);
        }
        let first = open(wanted, count > 1)?;
        let bound = first.local_addr()?;
        let mut all = vec![first];
        for _ in 1..count {
            all.push(open(bound, true)?);
        }
        Ok((all, bound))
    };
    listen().map_err(|why: io::Error| with_address(address, &why))
}
