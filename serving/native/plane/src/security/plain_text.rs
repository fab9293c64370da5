//! Tells a client that speaks plain text on a port with TLS what it has to do. Clients of gRPC understand HTTP/1.1 as well: their
//! call ends at once, where HTTP/2's own farewell has them connect again until their deadline.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How every TLS connection begins.
const HANDSHAKE: u8 = 22;
/// Who sends more than that may lose it.
const MOST_READS: usize = 16;
const WHY: &str = "this port speaks TLS: connect with https and the authority that signed its certificate";

/// The socket of a client that speaks TLS; an error once another one was told.
pub async fn refuse(mut socket: TcpStream) -> io::Result<TcpStream> {
    let mut first = [0];
    let came = socket.peek(&mut first).await?;
    if came == 0 || first[0] == HANDSHAKE {
        return Ok(socket);
    }
    socket.write_all(&farewell(WHY)).await?;
    socket.shutdown().await?;
    // What it sent must be read: a socket closed with bytes in it is reset, and the client may lose the answer.
    let mut rest = [0; 4096];
    for _ in 0..MOST_READS {
        if !socket.try_read(&mut rest).is_ok_and(|count| count > 0) {
            break;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// What a client reads that speaks another protocol than its port; `why` is put into JSON as it is.
pub fn farewell(why: &str) -> Vec<u8> {
    let body = format!("{{\"error\": \"{why}\"}}");
    let length = body.len();
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
