//! An endpoint's listening socket, whose connections are accepted by turns.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Connections are accepted so many at a time: each takes some work before it says anything.
const ACCEPTED_IN_A_ROW: usize = 8;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// On a file.
    Unix(UnixListener),
}

/// A socket that was accepted.
#[derive(Debug)]
pub enum Socket {
    /// On a port, and from where.
    Tcp(TcpStream, SocketAddr),
    /// On a file.
    Unix(UnixStream),
}

impl Listener {
    /// The next connection.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(socket, from)| Socket::Tcp(socket, from)),
            Listener::Unix(listener) => listener.accept().await.map(|(socket, _)| Socket::Unix(socket)),
        }
    }
}

/// Lets others have their turn every now and then, where so many connections were accepted before the next.
pub async fn take_turns(before: usize) {
    if before.is_multiple_of(ACCEPTED_IN_A_ROW) {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    const CONNECTIONS: usize = 100;

    #[tokio::test(flavor = "current_thread")]
    async fn of_many_connections_at_once_a_few_are_accepted_before_others_have_their_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _backlog: Vec<_> = (0..CONNECTIONS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let accepted = Rc::new(Cell::new(0));
        let counting = accepted.clone();
        let accept = async move {
            let listener = Listener::Tcp(listener);
            while counting.get() < CONNECTIONS {
                take_turns(counting.get()).await;
                listener.accept().await.unwrap();
                counting.set(counting.get() + 1);
            }
        };
        let look = async move {
            while accepted.get() < CONNECTIONS {
                let before = accepted.get();
                yield_now().await;
                assert!(accepted.get() - before <= 2 * ACCEPTED_IN_A_ROW, "{} at once", accepted.get() - before);
            }
        };
        LocalSet::new()
            .run_until(async move {
                spawn_local(accept);
                look.await;
            })
            .await;
    }
}
