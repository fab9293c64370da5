//! A TCP socket whose peer may take little at a time. The kernel tells of room once a good part of what it holds was taken, which
//! may be megabytes: who reads all the time, but slowly, would seem to take nothing. So it is asked again every now and then.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::sockets::ends::Ends;

/// That a peer has gone is told by an error alone.
#[cfg(target_os = "linux")]
const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: i32 = 0;

/// Between two times that the kernel is asked, at least and at most.
const EVERY: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// The socket of a connection.
#[derive(Debug)]
pub struct SlowTaker {
    inner: TcpStream,
    /// How long after it told of no room the kernel is asked again; none where it is not.
    every: Option<Duration>,
    again: Option<Pin<Box<Sleep>>>,
}

impl SlowTaker {
    /// Around an accepted socket: the kernel is not asked again yet.
    pub fn new(inner: TcpStream) -> SlowTaker {
        SlowTaker { inner, every: None, again: None }
    }

    /// From now on the kernel is asked again, several times before the patience with one that takes nothing ends. The socket must
    /// be written to on an I/O thread then.
    pub fn ask_again(&mut self, patience: Duration) {
        self.every = Some((patience / 8).clamp(EVERY[0], EVERY[1]));
    }

    /// Sends what is held back.
    pub fn send_held(&self) -> io::Result<()> {
        // To ask for no delay, once more, sends what was delayed.
        self.inner.set_nodelay(true)
    }

    /// Sends a part of that, with the kernel's flags for it.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, from: &[IoSlice<'_>], flags: i32) -> Poll<io::Result<usize>> {
        while self.inner.poll_write_ready(cx)?.is_ready() {
            match self.inner.try_io(Interest::WRITABLE, || self.send(from, flags)) {
                Err(why) if is_passing(&why) => {}
                result => return self.sent(result),
            }
        }
        self.poll_again(cx, from, flags)
    }

    fn send(&self, from: &[IoSlice<'_>], flags: i32) -> io::Result<usize> {
        SockRef::from(&self.inner).send_vectored_with_flags(from, flags | NO_SIGNAL)
    }

    fn sent(&mut self, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        self.again = None;
        Poll::Ready(result)
    }

    /// The kernel told of no room.
    fn poll_again(&mut self, cx: &mut Context<'_>, from: &[IoSlice<'_>], flags: i32) -> Poll<io::Result<usize>> {
        let Some(every) = self.every else { return Poll::Pending };
        loop {
            ready!(self.again.get_or_insert_with(|| Box::pin(sleep(every))).as_mut().poll(cx));
            self.again = None;
            match self.send(from, flags) {
                Err(why) if is_passing(&why) => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

fn is_passing(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Ends for SlowTaker {
    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }
}

impl AsyncRead for SlowTaker {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl AsyncWrite for SlowTaker {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write(cx, from) {
            Poll::Ready(result) => self.sent(result),
            Poll::Pending => self.poll_again(cx, &[IoSlice::new(from)], 0),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write_vectored(cx, from) {
            Poll::Ready(result) => self.sent(result),
            Poll::Pending => self.poll_again(cx, from, 0),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use socket2::{Domain, Socket, Type};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn who_takes_little_is_sent_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(16 << 10).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut socket = SlowTaker::new(server);
        socket.ask_again(Duration::from_millis(100));
        let (answer, mut client) = (vec![7; 1 << 20], std::net::TcpStream::from(client));
        // Until the kernel holds as much as it may.
        while timeout(Duration::from_millis(300), socket.write(&answer)).await.is_ok() {}
        for _ in 0..3 {
            client.read_exact(&mut vec![0; 128 << 10]).unwrap();
            let sent = timeout(Duration::from_secs(5), socket.write(&answer)).await;
            assert!(sent.expect("it reads, and nothing is sent").unwrap() > 0);
        }
    }
}
