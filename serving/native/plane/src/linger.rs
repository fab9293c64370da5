//! The end of a connection whose client was answered and still sends. A socket that is closed before is reset: the client may lose
//! the answer, and a proxy says 502 in its place.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, copy, sink};
use tokio::time::timeout;

/// Reads what a client sends until it ends, and keeps nothing of it; an error if that takes longer than `patience`.
pub async fn linger<S: AsyncRead + Unpin>(socket: &mut S, patience: Duration) -> io::Result<()> {
    match timeout(patience, copy(socket, &mut sink())).await {
        Ok(ended) => ended.map(drop),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
