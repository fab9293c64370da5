//! A socket that notes on its connection's lifeline what its peer sends and takes, and reads and writes by turns where that
//! is much.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_engine::metrics::Endpoint;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::connections::chunks::Chunks;
use crate::connections::frames::{FULL, Fault, Frames};
use crate::connections::io_time::takes_much;
use crate::connections::lifeline::{CALM_DOWN, Lifeline, PROTOCOL_ERROR};
use crate::connections::pace::{Pace, Turns};
use crate::sockets::ends::Ends;

/// Who sends or is sent more than that at once has to wait for turns, whatever it is.
const AT_ONCE: usize = 128 << 10;

/// Pieces of an answer that are written at one turn, at most.
const PIECES: usize = 8;

/// Pieces of so many bytes in all are written as one: to copy them takes less than the system's look at each.
const COPIED: usize = 1 << 10;

/// So many open calls take as long to end with their connection as one takes to begin.
const ENDED_AS_ONE: usize = 8;

/// A request that has come is whole within that time after its connection's end, whatever else is to be read.
const READ_BY: Duration = Duration::from_millis(100);

/// A socket and the lifeline of its connection.
pub struct WatchedSocket<S> {
    inner: S,
    lifeline: Arc<Lifeline>,
    /// Where it speaks HTTP/2.
    frames: Option<Frames>,
    chunks: Chunks,
    turns: Turns,
    write_turns: Turns,
    /// Bytes that came since nothing was there to be read.
    at_once: usize,
    /// Bytes that were read last, and calls that began with them.
    last: usize,
    calls: usize,
    /// Until when the request that is being read has to be whole, once nothing more comes.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> WatchedSocket<S> {
    /// Around an accepted socket.
    pub fn new(inner: S, lifeline: Arc<Lifeline>, pace: Pace) -> WatchedSocket<S> {
        let frames = (lifeline.endpoint == Endpoint::Grpc).then(Frames::default);
        let chunks = Chunks::default();
        let (write_turns, turns) = (Turns::new(pace.of_writing()), Turns::new(pace));
        WatchedSocket { inner, lifeline, frames, chunks, turns, write_turns, at_once: 0, last: 0, calls: 0, end: None }
    }

    /// Notes what came. Of HTTP/2 with a frame that is not to be, what came before it is left.
    fn note(&mut self, read: &mut ReadBuf<'_>, before: usize) {
        self.lifeline.heard.store(true, Ordering::Relaxed);
        match &mut self.frames {
            Some(frames) => match frames.feed(&read.filled()[before..]) {
                Ok(()) => self.lifeline.partial.store(frames.partial(), Ordering::Relaxed),
                Err((fault, at)) => {
                    read.set_filled(before + at);
                    self.lifeline.order(match fault {
                        Fault::NoSettings => PROTOCOL_ERROR,
                        Fault::ManySettings => CALM_DOWN,
                    });
                }
            },
            None => {
                self.lifeline.fresh.store(true, Ordering::Relaxed);
                let idle = !self.lifeline.is_busy();
                if idle {
                    self.lifeline.partial.store(self.lifeline.calls() + 1, Ordering::Relaxed);
                }
                self.chunks.feed(&read.filled()[before..], idle);
                self.lifeline.largest_chunk.store(self.chunks.largest(), Ordering::Relaxed);
            }
        }
    }

    /// How many calls began with what was read, with as many as everything else in it costs.
    fn take_calls(&mut self) -> usize {
        match &mut self.frames {
            Some(frames) => frames.take_calls(),
            None => self.chunks.take_calls(),
        }
    }

    /// Nothing more comes. Over HTTP/1 the peer may wait for its answer all the same, and is not said to be gone then.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.frames.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.lifeline.note_half_closed() {
            cx.waker().wake_by_ref();
        }
        match self.lifeline.waits() {
            Some(true) => Poll::Pending,
            None if self.lifeline.is_busy() => {
                let end = self.end.get_or_insert_with(|| Box::pin(sleep(READ_BY)));
                end.as_mut().poll(cx).map(Ok)
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Waits until the connection may end, where it has not had a turn already: what it leaves behind takes time, and very many
    /// may end at once. One with very many open calls takes its thread's time by turns in any case.
    fn poll_end_turn(&mut self, cx: &mut Context<'_>, had_turn: bool) -> Poll<()> {
        let open_calls = self.lifeline.open_calls();
        if !takes_much(open_calls) {
            if !had_turn {
                ready!(self.turns.poll_turn(cx));
            }
            self.turns.pace.note(0, 1 + open_calls / ENDED_AS_ONE);
        }
        Poll::Ready(())
    }

    fn written<T>(&self, result: &Poll<io::Result<T>>) {
        match result {
            Poll::Pending => self.lifeline.note_blocked(),
            Poll::Ready(_) => self.lifeline.note_written(),
        }
    }
}

/// Reads at most `piece` bytes, where there is such a bound.
fn poll_read_piece<S: AsyncRead>(
    socket: Pin<&mut S>,
    cx: &mut Context<'_>,
    into: &mut ReadBuf<'_>,
    piece: Option<usize>,
) -> Poll<io::Result<()>> {
    let Some(piece) = piece.filter(|piece| *piece < into.remaining()) else {
        return socket.poll_read(cx, into);
    };
    let mut part = ReadBuf::new(into.initialize_unfilled_to(piece));
    ready!(socket.poll_read(cx, &mut part))?;
    let read = part.filled().len();
    into.advance(read);
    Poll::Ready(Ok(()))
}

/// Writes at most so many bytes as may be written at one turn.
fn poll_write_piece<S: AsyncWrite>(
    socket: Pin<&mut S>,
    cx: &mut Context<'_>,
    from: &[io::IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let (mut pieces, mut left) = ([io::IoSlice::new(&[]); PIECES], AT_ONCE);
    for (piece, whole) in pieces.iter_mut().zip(from.iter().filter(|piece| !piece.is_empty())) {
        *piece = io::IoSlice::new(&whole[..whole.len().min(left)]);
        left -= piece.len();
    }
    socket.poll_write_vectored(cx, &pieces)
}

impl<S: AsyncRead + Ends + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.lifeline.orders() & (PROTOCOL_ERROR | CALM_DOWN) != 0 {
            return Poll::Pending;
        }
        let paced = self.at_once >= AT_ONCE || self.turns.pace.are_many(self.calls) || self.lifeline.is_large();
        if paced {
            ready!(self.turns.poll_turn(cx));
        }
        // Very many may begin and leave again before it is their turn: what they sent is not worth reading.
        if (paced || self.lifeline.calls() == 0) && self.inner.has_ended() {
            ready!(self.poll_end_turn(cx, paced));
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let before = into.filled().len();
        let piece = self.turns.pace.piece(self.last, self.calls);
        let Poll::Ready(read) = poll_read_piece(Pin::new(&mut self.inner), cx, into, piece) else {
            self.at_once = 0;
            return Poll::Pending;
        };
        read?;
        let bytes = into.filled().len() - before;
        if bytes == 0 {
            ready!(self.poll_end(cx))?;
            return self.poll_end_turn(cx, paced).map(Ok);
        }
        self.at_once += bytes;
        self.last = bytes;
        self.note(into, before);
        self.calls = self.take_calls();
        if paced || self.turns.pace.are_many(self.calls) {
            self.turns.pace.note(bytes, self.calls);
        }
        // An empty read would be the end of the stream.
        if into.filled().len() == before { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if from.len() >= FULL {
            return self.poll_write_vectored(cx, &[io::IoSlice::new(from)]);
        }
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
        let bytes = from.iter().map(|piece| piece.len()).sum::<usize>();
        // Over HTTP/2 much is written frame by frame, without an end until the peer takes no more.
        let much = bytes > AT_ONCE || bytes >= FULL && self.frames.is_some();
        if much {
            ready!(self.write_turns.poll_write_turn(cx, bytes, AT_ONCE));
        }
        let inner = Pin::new(&mut self.inner);
        let result = if bytes > AT_ONCE {
            poll_write_piece(inner, cx, from)
        } else if from.len() > 1 && bytes <= COPIED {
            let mut room = [MaybeUninit::uninit(); COPIED];
            let mut all = ReadBuf::uninit(&mut room);
            from.iter().for_each(|piece| all.put_slice(piece));
            inner.poll_write(cx, all.filled())
        } else {
            inner.poll_write_vectored(cx, from)
        };
        self.written(&result);
        if let Poll::Ready(Ok(written)) = &result
            && much
        {
            self.write_turns.note_written(*written);
        }
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use tidegate_engine::request::Mixture;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const PREFACE: usize = 24;

    const CALL: usize = 119;

    /// So many calls as they come over HTTP/2, each a frame of headers and one of data.
    fn calls(count: usize) -> Vec<u8> {
        let data = [&[0, 0, 100, 0, 1, 0, 0, 0, 1][..], &[7; 100]].concat();
        [&[0, 0, 1, 1, 4, 0, 0, 0, 1, 7][..], &data].concat().repeat(count)
    }

    /// A connection that has begun and sent so many calls.
    async fn open(pace: &Pace, count: usize) -> (tokio::io::DuplexStream, WatchedSocket<tokio::io::DuplexStream>) {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let hello = [&[b'P'; PREFACE][..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
        client.write_all(&[hello, calls(count)].concat()).await.unwrap();
        (client, WatchedSocket::new(server, Lifeline::new(Endpoint::Grpc, false), pace.clone()))
    }

    /// How many bytes of at most a page can be read now; none where it is not the connection's turn.
    async fn read(socket: &mut WatchedSocket<impl AsyncRead + Ends + Unpin>) -> Option<usize> {
        poll_fn(|context| {
            let mut page = [0; 64 * CALL];
            let mut page = ReadBuf::new(&mut page);
            let read = Pin::new(&mut *socket).poll_read(context, &mut page);
            Poll::Ready(read.is_ready().then(|| page.filled().len()))
        })
        .await
    }

    /// The sockets are looked at.
    async fn look() {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_begins_many_calls_at_once_reads_on_when_others_had_their_turn() {
        let pace = Pace::default();
        let ((_flood, mut flooded), (_few, mut lone)) = (open(&pace, 200).await, open(&pace, 1).await);
        assert!(read(&mut flooded).await.is_some());
        assert_eq!(read(&mut flooded).await, None, "it has had its turn");
        assert!(read(&mut lone).await.is_some(), "who begins few calls has it at any time");
        look().await;
        assert_eq!(read(&mut flooded).await, Some(64 * CALL));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_sends_many_small_frames_reads_on_when_others_had_their_turn() {
        let pace = Pace::default();
        let (mut client, mut flooded) = open(&pace, 0).await;
        client.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(4800)).await.unwrap();
        assert!(read(&mut flooded).await.is_some());
        for _ in 0..3 {
            look().await;
            assert_eq!(read(&mut flooded).await, Some(64 * CALL));
            while let Some(more) = read(&mut flooded).await {
                assert_eq!(more, 64 * CALL, "one more at most");
                assert_eq!(read(&mut flooded).await, None, "it has had its turn");
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn beside_requests_that_come_alone_calls_are_read_in_small_pieces() {
        let pace = Pace::new(Mixture::mixed());
        let ((_flood, mut flooded), (_other, mut lone)) = (open(&pace, 200).await, open(&pace, 1).await);
        assert!(read(&mut flooded).await.is_some());
        assert_eq!(read(&mut flooded).await, None, "it has had its turn");
        for _ in 0..3 {
            look().await;
            let mut bytes = 0;
            while let Some(more) = read(&mut flooded).await {
                bytes += more;
            }
            assert!((4 * CALL..20 * CALL).contains(&bytes), "{bytes} bytes at once");
        }
        assert!(read(&mut lone).await.is_some());
    }

    #[tokio::test]
    async fn what_a_peer_sent_that_has_gone_for_good_is_not_read() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        client.write_all(&[b'P'; PREFACE]).await.unwrap();
        // A reset, as of a client that closes with answers unread.
        client.set_zero_linger().unwrap();
        drop(client);
        server.readable().await.unwrap();
        let lifeline = Lifeline::new(Endpoint::Grpc, false);
        let mut socket = WatchedSocket::new(server, lifeline, Pace::default());
        let read = socket.read_u8().await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    /// A client that has gone for good.
    struct Gone;

    impl Ends for Gone {
        fn has_ended(&self) -> bool {
            true
        }
    }

    impl AsyncRead for Gone {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn of_a_crowd_that_ends_at_once_a_few_do_so_between_two_looks() {
        for endpoint in [Endpoint::Grpc, Endpoint::Rest] {
            end_between_looks(endpoint, || Gone, 0, 32).await;
            end_between_looks(endpoint, || tokio::io::duplex(1).1, 0, 32).await;
        }
        end_between_looks(Endpoint::Grpc, || tokio::io::duplex(1).1, 100, 3).await;
    }

    /// A crowd of clients, each with so many calls open, has gone, and so many of them at most end at once.
    async fn end_between_looks<S: AsyncRead + Ends + Unpin>(
        endpoint: Endpoint,
        gone: impl Fn() -> S,
        open_calls: usize,
        most: usize,
    ) {
        let pace = Pace::default();
        let lifelines: Vec<_> = (0..100).map(|_| Lifeline::new(endpoint, false)).collect();
        let _open: Vec<_> = lifelines.iter().flat_map(|one| (0..open_calls).map(|_| one.begin_call())).collect();
        let mut crowd: Vec<_> =
            lifelines.iter().map(|one| WatchedSocket::new(gone(), one.clone(), pace.clone())).collect();
        while !crowd.is_empty() {
            let mut left = Vec::new();
            let before = crowd.len();
            for mut socket in crowd {
                if read(&mut socket).await.is_none() {
                    left.push(socket);
                }
            }
            crowd = left;
            let ended = before - crowd.len();
            assert!((1..=most).contains(&ended), "{ended} at once over {endpoint:?} with {open_calls} calls open");
            look().await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_are_sent_much_are_sent_so_much_together_between_two_looks_and_who_is_sent_little_at_any_time() {
        const EACH: usize = 500_000;
        written_between_looks(Endpoint::Rest, EACH, EACH).await;
        // Frame by frame.
        written_between_looks(Endpoint::Grpc, EACH, FULL + 9).await;
    }

    /// A crowd is sent answers of so many bytes, in writes of so many.
    async fn written_between_looks(endpoint: Endpoint, each: usize, at_once: usize) {
        let (pace, lifeline, answer) = (Pace::default(), Lifeline::new(endpoint, false), vec![7; at_once]);
        let socket = || WatchedSocket::new(Writes::default(), lifeline.clone(), pace.clone());
        let mut crowd: Vec<_> = (0..50).map(|_| (socket(), each)).collect();
        let mut context = Context::from_waker(Waker::noop());
        while crowd.iter().any(|(_, left)| *left > 0) {
            let mut sent = 0;
            for (socket, left) in &mut crowd {
                while *left > 0
                    && let Poll::Ready(Ok(written)) =
                        Pin::new(&mut *socket).poll_write(&mut context, &answer[..at_once.min(*left)])
                {
                    sent += written;
                    *left -= written;
                }
            }
            assert!((1..1 << 20).contains(&sent), "{sent} bytes at once");
            assert_eq!(socket().write(&answer[..1000]).await.unwrap(), 1000);
            look().await;
        }
    }

    /// A client that notes how long each write is, and whether it was of pieces.
    #[derive(Default)]
    struct Writes(Vec<(usize, bool)>);

    impl AsyncWrite for Writes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push((from.len(), false));
            Poll::Ready(Ok(from.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            from: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let bytes = from.iter().map(|piece| piece.len()).sum();
            self.0.push((bytes, true));
            Poll::Ready(Ok(bytes))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_small_answer_is_written_in_one_piece_and_a_large_one_is_not_copied() {
        let lifeline = Lifeline::new(Endpoint::Rest, false);
        let mut socket = WatchedSocket::new(Writes::default(), lifeline, Pace::default());
        for body in [vec![7; 100], vec![7; COPIED]] {
            let pieces = [io::IoSlice::new(b"head"), io::IoSlice::new(&body)];
            assert_eq!(socket.write_vectored(&pieces).await.unwrap(), 4 + body.len());
        }
        assert_eq!(socket.inner.0, [(104, false), (4 + COPIED, true)]);
    }
}
