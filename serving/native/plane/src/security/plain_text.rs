//! Tells a client that speaks another protocol than its port what it has to do. Clients of gRPC understand HTTP/1.1 as well: their
//! call ends at once, where HTTP/2's own farewell has them connect again until their deadline.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::linger::linger;

/// How every TLS connection begins.
const HANDSHAKE: u8 = 22;
/// How every HTTP/2 connection begins.
const HTTP2: &[u8] = b"PRI";
/// Bytes that are still read of who was told; who sends more may lose what it was told, as may who is slower than `LINGER`.
const MOST_READ: u64 = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// The socket of a client that speaks TLS; an error once another one was told.
pub async fn refuse(socket: TcpStream) -> io::Result<TcpStream> {
    let why = "this port speaks TLS: connect with https and the authority that signed its certificate";
    look(socket, |first| first[0] == HANDSHAKE, why).await
}

/// The socket of a client of a port for gRPC that does not speak HTTP/1; an error once one was told that does. To tell, nothing
/// must have been sent before, so that the client has to speak first.
pub async fn refuse_http1(socket: TcpStream) -> io::Result<TcpStream> {
    let why = "this port speaks gRPC alone: REST has a port of its own, the engine's rest_address";
    look(socket, |first| HTTP2.starts_with(first) || !first[0].is_ascii_uppercase(), why).await
}

async fn look(mut socket: TcpStream, is_ours: impl FnOnce(&[u8]) -> bool, why: &str) -> io::Result<TcpStream> {
    let mut first = [0; HTTP2.len()];
    let came = socket.peek(&mut first).await?;
    if came == 0 || is_ours(&first[..came]) {
        return Ok(socket);
    }
    tell(&mut socket, why).await?;
    Err(io::ErrorKind::InvalidData.into())
}

/// Answers a client that speaks another protocol than its port, and ends the connection once the client does; `why` is put into JSON
/// as it is.
pub async fn tell<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S, why: &str) -> io::Result<()> {
    socket.write_all(&answer(why)).await?;
    socket.shutdown().await?;
    linger(&mut socket.take(MOST_READ), LINGER).await
}

fn answer(why: &str) -> Vec<u8> {
    let body = format!("{{\"error\": \"{why}\"}}");
    let length = body.len();
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
