//! Binds the endpoints' addresses, once per I/O thread where several share a port or a Unix socket.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

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

/// Listeners by I/O thread, or none for each where the endpoint is closed.
pub type Maybe<T> = Vec<Option<T>>;

/// As `listeners`, where there is an address.
pub fn maybe(address: Option<&str>, count: usize) -> io::Result<(Maybe<TcpListener>, Option<SocketAddr>)> {
    let Some(address) = address else { return Ok(((0..count).map(|_| None).collect(), None)) };
    let (all, bound) = listeners(address, count)?;
    Ok((all.into_iter().map(Some).collect(), Some(bound)))
}

/// The file of a Unix socket, removed when dropped unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One listener per I/O thread on the same Unix socket, where there is a path. A socket that nobody listens on any
/// more is replaced; anything else at the path is an error.
pub fn maybe_unix(path: Option<&Path>, count: usize) -> io::Result<(Maybe<UnixListener>, Option<SocketFile>)> {
    let Some(path) = path else { return Ok(((0..count).map(|_| None).collect(), None)) };
    let listen = || {
        clear(path)?;
        let first = UnixListener::bind(path)?;
        first.set_nonblocking(true)?;
        let file = SocketFile { path: path.to_owned(), inode: fs::symlink_metadata(path)?.ino() };
        let mut all = vec![Some(first)];
        for _ in 1..count {
            let again = all[0].as_ref().map(UnixListener::try_clone).transpose()?;
            all.push(again);
        }
        Ok((all, Some(file)))
    };
    listen().map_err(|why: io::Error| with_address(&path.display().to_string(), &why))
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket: move it away"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        Ok(_) => fs::remove_file(path),
    }
}
