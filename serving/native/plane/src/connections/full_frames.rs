//! A TCP socket that has the kernel hold full frames back until more comes: a large answer, written frame by frame, goes out
//! in a few large segments, each of which costs about as much as a small one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::frames::FULL;
use crate::sockets::ends::Ends;
use crate::sockets::slow_takers::SlowTaker;

#[cfg(target_os = "linux")]
const MORE: i32 = libc::MSG_MORE;
/// Elsewhere all is sent at once.
#[cfg(not(target_os = "linux"))]
const MORE: i32 = 0;

/// The socket of a connection over HTTP/2.
#[derive(Debug)]
pub struct FullFrames {
    inner: SlowTaker,
    /// Whether the kernel may hold back what was written last.
    held: bool,
    /// Whether nothing was written since the last flush.
    flushed: bool,
}

impl FullFrames {
    /// Around an accepted socket.
    pub fn new(inner: SlowTaker) -> FullFrames {
        FullFrames { inner, held: false, flushed: false }
    }

    fn wrote(&mut self, held: bool) {
        (self.held, self.flushed) = (held, false);
    }
}

impl Ends for FullFrames {
    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }
}

impl AsyncRead for FullFrames {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl AsyncWrite for FullFrames {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.inner).poll_write(cx, from));
        self.wrote(false);
        Poll::Ready(result)
    }

    /// HTTP/2 flushes after each frame. What is held when it does so is sent if nothing is written until it does again, which
    /// the task is woken for.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held && !std::mem::replace(&mut self.flushed, true) {
            cx.waker().wake_by_ref();
        } else if std::mem::take(&mut self.held) {
            self.inner.send_held()?;
        }
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
        // So much is followed by more, as a rule.
        if MORE == 0 || from.iter().map(|slice| slice.len()).sum::<usize>() < FULL {
            let result = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, from));
            self.wrote(false);
            return Poll::Ready(result);
        }
        let result = ready!(self.inner.poll_send(cx, from, MORE));
        self.wrote(true);
        Poll::Ready(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::mem::MaybeUninit;
    use std::time::{Duration, Instant};

    use socket2::SockRef;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// After about twice that long the kernel sends what it holds by itself.
    const SURELY_HELD: Duration = Duration::from_millis(100);

    async fn connected() -> (FullFrames, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.set_nodelay(true).unwrap();
        (FullFrames::new(SlowTaker::new(server)), client)
    }

    async fn write(socket: &mut FullFrames, bytes: usize) {
        let bytes = vec![7; bytes];
        let written = socket.write_vectored(&[IoSlice::new(&bytes[..9]), IoSlice::new(&bytes[9..])]).await.unwrap();
        assert_eq!(written, bytes.len());
        socket.flush().await.unwrap();
    }

    /// Whether anything has come; over loopback what is sent is there at once.
    fn has_come(client: &TcpStream) -> bool {
        SockRef::from(client).peek(&mut [MaybeUninit::uninit(); 1]).is_ok()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "current_thread")]
    async fn a_full_frame_waits_for_what_follows_it() {
        let (mut socket, mut client) = connected().await;
        loop {
            let began = Instant::now();
            write(&mut socket, 9 + FULL).await;
            let came = has_come(&client);
            let tells = began.elapsed() < SURELY_HELD;
            write(&mut socket, 20).await;
            client.read_exact(&mut vec![0; 9 + FULL + 20]).await.unwrap();
            assert!(!socket.held);
            if tells {
                return assert!(!came, "it was sent at once");
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_full_frame_that_nothing_follows_is_sent_when_the_task_is_polled_again() {
        let (mut socket, mut client) = connected().await;
        for _ in 0..3 {
            let (frame, mut polls) = (vec![7; FULL], 0);
            poll_fn(|context| {
                polls += 1;
                if polls == 1 {
                    assert!(Pin::new(&mut socket).poll_write_vectored(context, &[IoSlice::new(&frame)]).is_ready());
                }
                assert!(Pin::new(&mut socket).poll_flush(context).is_ready());
                // The socket is what wakes it.
                if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(has_come(&client));
            client.read_exact(&mut vec![0; FULL]).await.unwrap();
        }
    }
}
