//! Whether a peer has gone for good, as its socket knows before everything that came is read.

use tokio::io::DuplexStream;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A socket that hears of its peer's end beside what it reads.
pub trait Ends {
    /// Whether the peer has gone for good: it sent what may still be read, and takes no answer.
    fn has_ended(&self) -> bool;
}

impl Ends for TcpStream {
    fn has_ended(&self) -> bool {
        self.take_error().is_ok_and(|error| error.is_some())
    }
}

impl Ends for UnixStream {
    fn has_ended(&self) -> bool {
        self.take_error().is_ok_and(|error| error.is_some())
    }
}

impl<S: Ends> Ends for TlsStream<S> {
    fn has_ended(&self) -> bool {
        self.get_ref().0.has_ended()
    }
}

/// A pipe within a process has no resets: whoever fuzzes or tests a connection drops its end.
impl Ends for DuplexStream {
    fn has_ended(&self) -> bool {
        false
    }
}
