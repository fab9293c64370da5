//! A socket that notes on its connection's lifeline what its peer sends and takes, and reads by turns where that is much.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tidegate_engine::metrics::Endpoint;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::chunks::Chunks;
use crate::connections::frames::Frames;
use crate::connections::lifeline::{Lifeline, PROTOCOL_ERROR};
use crate::connections::pace::Pace;

/// Who sends more than that at once has to wait for turns, whatever it is.
const AT_ONCE: usize = 128 << 10;

/// So does who began more calls than that with what was read last.
const CALLS: usize = 16;

/// A socket and the lifeline of its connection.
pub struct WatchedSocket<S> {
    inner: S,
    lifeline: Arc<Lifeline>,
    /// Where it speaks HTTP/2.
    frames: Option<Frames>,
    chunks: Chunks,
    pace: Pace,
    /// Bytes that came since nothing was there to be read.
    at_once: usize,
    /// Calls that began with what was read last.
    calls: usize,
}

impl<S> WatchedSocket<S> {
    /// Around an accepted socket.
    pub fn new(inner: S, lifeline: Arc<Lifeline>, pace: Pace) -> WatchedSocket<S> {
        let frames = (lifeline.endpoint == Endpoint::Grpc).then(Frames::default);
        WatchedSocket { inner, lifeline, frames, chunks: Chunks::default(), pace, at_once: 0, calls: 0 }
    }

    /// Notes what came. Of HTTP/2 that does not begin with SETTINGS, what came before it is left.
    fn note(&mut self, read: &mut ReadBuf<'_>, before: usize) {
        self.lifeline.heard.store(true, Ordering::Relaxed);
        match &mut self.frames {
            Some(frames) => match frames.feed(&read.filled()[before..]) {
                Ok(()) => self.lifeline.partial.store(frames.partial(), Ordering::Relaxed),
                Err(at) => {
                    read.set_filled(before + at);
                    self.lifeline.order(PROTOCOL_ERROR);
                }
            },
            None => {
                let idle = !self.lifeline.is_busy();
                if idle {
                    self.lifeline.partial.store(self.lifeline.calls() + 1, Ordering::Relaxed);
                }
                self.chunks.feed(&read.filled()[before..], idle);
                self.lifeline.largest_chunk.store(self.chunks.largest(), Ordering::Relaxed);
            }
        }
    }

    fn written<T>(&self, result: &Poll<io::Result<T>>) {
        match result {
            Poll::Pending => self.lifeline.note_blocked(),
            Poll::Ready(_) => self.lifeline.note_written(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.lifeline.orders() & PROTOCOL_ERROR != 0 {
            return Poll::Pending;
        }
        let paced = self.at_once >= AT_ONCE || self.calls > CALLS || self.lifeline.is_large();
        if paced {
            ready!(self.pace.poll_turn(cx));
        }
        let before = into.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.inner).poll_read(cx, into) else {
            self.at_once = 0;
            return Poll::Pending;
        };
        read?;
        let bytes = into.filled().len() - before;
        if bytes == 0 {
            return Poll::Ready(Ok(()));
        }
        self.at_once += bytes;
        self.note(into, before);
        self.calls = self.frames.as_mut().map_or(0, Frames::take_calls);
        if paced || self.calls > CALLS {
            self.pace.note(bytes, self.calls);
        }
        // An empty read would be the end of the stream.
        if into.filled().len() == before { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, from);
        self.written(&result);
        result
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
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, from);
        self.written(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;

    use super::*;

    const PREFACE: usize = 24;

    /// So many calls as they come over HTTP/2, each a frame of headers and one of data.
    fn calls(count: usize) -> Vec<u8> {
        [[0, 0, 1, 1, 4, 0, 0, 0, 1, 7], [0, 0, 1, 0, 1, 0, 0, 0, 1, 7]].concat().repeat(count)
    }

    /// Whether something can be read now; a page of it is.
    async fn reads(socket: &mut WatchedSocket<tokio::io::DuplexStream>) -> bool {
        poll_fn(|context| {
            let mut page = [0; 1024];
            let read = Pin::new(&mut *socket).poll_read(context, &mut ReadBuf::new(&mut page));
            Poll::Ready(read.is_ready())
        })
        .await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_begins_many_calls_at_once_reads_on_when_others_had_their_turn() {
        let pace = Pace::default();
        let open = || {
            let (client, server) = tokio::io::duplex(1 << 16);
            let lifeline = Lifeline::new(Endpoint::Grpc, false);
            (client, WatchedSocket::new(server, lifeline, pace.clone()))
        };
        let ((mut flood, mut flooded), (mut other, mut lone)) = (open(), open());
        let hello = [&[b'P'; PREFACE][..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
        flood.write_all(&[hello.clone(), calls(200)].concat()).await.unwrap();
        other.write_all(&[hello, calls(1)].concat()).await.unwrap();
        assert!(reads(&mut flooded).await);
        assert!(!reads(&mut flooded).await, "it has had its turn");
        assert!(reads(&mut lone).await, "who begins few calls has it at any time");
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert!(reads(&mut flooded).await, "the sockets were looked at");
    }
}
