//! A new connection to a node.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// A node that takes no connection within this time is not there.
const CONNECTING: Duration = Duration::from_secs(2);

/// A new connection, or why there is none.
pub async fn connect(address: &str) -> Result<TcpStream, String> {
    let why = match timeout(CONNECTING, TcpStream::connect(address)).await {
        Ok(Ok(socket)) => {
            let _ = socket.set_nodelay(true);
            return Ok(socket);
        }
        Ok(Err(why)) => why.to_string(),
        Err(_) => format!("no connection within {CONNECTING:?}"),
    };
    Err(format!("{address}: {why}"))
}
