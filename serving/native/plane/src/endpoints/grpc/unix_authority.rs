//! Lets gRPC's C core connect to a Unix socket: it sends the socket's path, percent-encoded, as `:authority`, which the
//! HTTP/2 layer refuses. The percent signs of that header become dashes; all other bytes pass.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sockets::ends::Ends;

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// A header block beyond this is passed on as it is.
const LARGEST_BLOCK: usize = 1 << 16;
/// Its place in HPACK's static table; the C core sends the name itself.
const AUTHORITY: usize = 1;
const AUTHORITY_NAME: &[u8] = b":authority";

/// A connection of which the reading side is looked through.
pub struct UnixAuthority<S> {
    inner: S,
    filter: Filter,
    ready: Vec<u8>,
    given: usize,
}

impl<S> UnixAuthority<S> {
    /// Around an accepted connection.
    pub fn new(inner: S) -> UnixAuthority<S> {
        UnixAuthority { inner, filter: Filter::default(), ready: Vec::new(), given: 0 }
    }
}

impl<S: Ends> Ends for UnixAuthority<S> {
    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UnixAuthority<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.given == this.ready.len() {
            this.ready.clear();
            this.given = 0;
            let mut space = [0; 1 << 14];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.filter.feed(read.filled(), &mut this.ready);
        }
        let left = &this.ready[this.given..];
        let part = left.len().min(into.remaining());
        into.put_slice(&left[..part]);
        this.given += part;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UnixAuthority<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, from)
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// Where the stream of frames stands.
enum Filter {
    /// Bytes that pass as they are, then a frame's head comes.
    Pass(usize),
    /// The head of a frame, as far as it came.
    Head(Vec<u8>),
    /// The payload of a HEADERS frame, as far as it came, with its length and its flags.
    Block(Vec<u8>, usize, u8),
}

impl Default for Filter {
    fn default() -> Filter {
        Filter::Pass(PREFACE)
    }
}

impl Filter {
    /// Reads bytes and appends what can be passed on already; lengths do not change.
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            match self {
                Filter::Pass(left) => {
                    let (now, later) = bytes.split_at(bytes.len().min(*left));
                    out.extend_from_slice(now);
                    bytes = later;
                    *left -= now.len();
                    if *left == 0 {
                        *self = Filter::Head(Vec::with_capacity(FRAME_HEAD));
                    }
                }
                Filter::Head(head) => {
                    bytes = fill(head, FRAME_HEAD, bytes);
                    if let &[a, b, c, kind, flags, ..] = head.as_slice()
                        && head.len() == FRAME_HEAD
                    {
                        out.extend_from_slice(head);
                        *self = after(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c), kind, flags);
                    }
                }
                Filter::Block(block, length, flags) => {
                    bytes = fill(block, *length, bytes);
                    if block.len() == *length {
                        soften(block, *flags);
                        out.extend_from_slice(block);
                        *self = Filter::Head(Vec::with_capacity(FRAME_HEAD));
                    }
                }
            }
        }
    }
}

fn after(length: usize, kind: u8, flags: u8) -> Filter {
    match kind {
        _ if length == 0 => Filter::Head(Vec::with_capacity(FRAME_HEAD)),
        HEADERS if length <= LARGEST_BLOCK => Filter::Block(Vec::with_capacity(length), length, flags),
        _ => Filter::Pass(length),
    }
}

/// Moves bytes until there are `length`; the rest.
fn fill<'a>(into: &mut Vec<u8>, length: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(length - into.len()));
    into.extend_from_slice(now);
    later
}

/// Walks a header block without decoding it, and makes dashes of the percent signs of a plain `:authority`.
fn soften(payload: &mut [u8], flags: u8) {
    let padding = if flags & PADDED == 0 { None } else { payload.first().copied() };
    let start = usize::from(padding.is_some()) + if flags & PRIORITY == 0 { 0 } else { 5 };
    let end = payload.len().saturating_sub(padding.map_or(0, usize::from));
    let Some(block) = payload.get_mut(start..end) else { return };
    let mut at = 0;
    while let Some(next) = field(block, at) {
        at = next;
    }
}

/// Where the next field begins; None at the end, or where the block goes on in another frame.
fn field(block: &mut [u8], at: usize) -> Option<usize> {
    let first = *block.get(at)?;
    if first & 0x80 != 0 {
        return Some(integer(block, at, 7)?.1);
    }
    if first & 0xe0 == 0x20 {
        return Some(integer(block, at, 5)?.1);
    }
    let (name, mut at) = integer(block, at, if first & 0x40 == 0 { 4 } else { 6 })?;
    let mut found = name == AUTHORITY;
    if name == 0 {
        let (length, text) = integer(block, at, 7)?;
        at = text.checked_add(length)?;
        found = block.get(text..at)? == AUTHORITY_NAME;
    }
    let coded = *block.get(at)? & 0x80 != 0;
    let (length, text) = integer(block, at, 7)?;
    let value = block.get_mut(text..text.checked_add(length)?)?;
    if found && !coded {
        value.iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'-');
    }
    Some(text + length)
}

/// HPACK's integer with a prefix of so many bits, and where it ends.
fn integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut at = at + 1;
    if value < most {
        return Some((value, at));
    }
    for shift in (0..=21).step_by(7) {
        let byte = usize::from(*block.get(at)?);
        value += (byte & 0x7f) << shift;
        at += 1;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &[u8] = b"tmp%2Fgrpc.sock";
    const SEEN: &[u8] = b"tmp-2Fgrpc.sock";
    /// What stands before and behind a header block in its frame.
    type Around = (&'static [u8], &'static [u8]);

    fn literal(name: u8, value: &[u8]) -> Vec<u8> {
        [&[name, value.len() as u8], value].concat()
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn through(bytes: &[u8], step: usize) -> Vec<u8> {
        let (mut filter, mut out) = (Filter::default(), Vec::new());
        bytes.chunks(step).for_each(|chunk| filter.feed(chunk, &mut out));
        out
    }

    fn conversation(authority: &[u8], flags: u8, around: Around) -> Vec<u8> {
        let long = [b'%'; 300];
        let named = [&[0x40, 5], b"a%b%c".as_slice(), &[127, 173, 1], long.as_slice()].concat();
        let block = [
            [0x3f, 0xe1, 0x1f, 0x83].as_slice(), // a table size update, then :method POST
            &literal(0x44, b"/pkg.Service/100%"),
            &literal(0x41, authority),
            &named,
            &literal(0x0f, b"50%"), // name index 15 in two bytes
        ]
        .concat();
        let mut fixed = block;
        let at = fixed.len() - 5;
        fixed.splice(at + 1..at + 1, [0]);
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
            &frame(4, 0, &[0, 3, 0, 0, 0, 100]),
            &frame(HEADERS, 4 | flags, &[around.0, fixed.as_slice(), around.1].concat()),
            &frame(0, 1, b"100% data \x41\x03%2F"),
            &frame(6, 0, &[]),
            &frame(HEADERS, 4, &literal(0x01, authority)),
            &frame(HEADERS, 4, &[&[0x40, 10], AUTHORITY_NAME, &[authority.len() as u8], authority].concat()),
        ]
        .concat()
    }

    #[test]
    fn only_the_authority_changes_however_the_bytes_come() {
        let plain: Around = (b"", b"");
        let padded: Around = (&[3], b"%%%");
        let both: Around = (&[2, 0, 0, 0, 0, 9], b"%%");
        for (flags, around) in [(0, plain), (PADDED, padded), (PADDED | PRIORITY, both)] {
            let (sent, seen) = (conversation(SENT, flags, around), conversation(SEEN, flags, around));
            for step in [1, 2, 7, 1000] {
                assert_eq!(through(&sent, step), seen, "flags {flags}, {step} bytes at a time");
            }
        }
    }

    #[test]
    fn a_coded_authority_and_broken_blocks_pass_as_they_are() {
        let preface = [0; PREFACE];
        for payload in [
            [&[0x41, 0x80 | 15], SENT].concat(),
            [&[0x41, 99], SENT].concat(),
            vec![0x41],
            vec![0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, b'%'],
        ] {
            let sent = [preface.as_slice(), &frame(HEADERS, 4, &payload), &frame(HEADERS, PADDED, &[200, 1])].concat();
            assert_eq!(through(&sent, 5), sent);
        }
    }
}
