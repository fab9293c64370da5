//! Follows the chunks of an HTTP/1.1 body as they are read, to know a size that is beyond the limit at once: the HTTP layer
//! waits for all of its bytes first. They are counted too, since many small ones cost more than one large one.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What follows in the stream of a request whose body comes in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing that is followed: no such body, or not one that can be read.
    Unknown,
    /// The head; so many bytes of the empty line that ends it have come.
    Head(usize),
    /// A chunk's size, as far as its digits have come.
    Size(u64, u32),
    /// What stands beside the size.
    Extension(u64),
    /// A chunk, and the end of its line.
    Data(u64),
}

/// Looks for the word; to make it takes longer than to use it for a small request.
static CHUNKED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"hunked"));

const END_OF_HEAD: &[u8] = b"\r\n\r\n";
const END_OF_LINE: u64 = 2;
/// Digits of a size that fits.
const MOST_DIGITS: u32 = 16;
/// So many chunks cost as much as a call.
const CHUNKS_OF_A_CALL: usize = 8;

/// Where the chunks of one connection stand.
#[derive(Debug)]
pub struct Chunks {
    next: Next,
    largest: u64,
    begun: usize,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { next: Next::Unknown, largest: 0, begun: 0 }
    }
}

impl Chunks {
    /// Follows bytes; with `idle` they begin a request. Bodies in chunks are rare, which a look for the word tells.
    pub fn feed(&mut self, mut bytes: &[u8], idle: bool) {
        if idle && !matches!(self.next, Next::Head(_)) {
            self.largest = 0;
            let chunked = CHUNKED.find(bytes).is_some();
            self.next = if chunked { Next::Head(0) } else { Next::Unknown };
        }
        while let (Some((byte, rest)), true) = (bytes.split_first(), self.next != Next::Unknown) {
            let passed;
            (self.next, passed) = match self.next {
                Next::Unknown => return,
                Next::Head(come) if *byte == END_OF_HEAD[come] && come + 1 == END_OF_HEAD.len() => {
                    (Next::Size(0, 0), 1)
                }
                Next::Head(come) if *byte == END_OF_HEAD[come] => (Next::Head(come + 1), 1),
                Next::Head(_) => (Next::Head(usize::from(*byte == END_OF_HEAD[0])), 1),
                Next::Size(size, digits) => (self.size(size, digits, *byte), 1),
                Next::Extension(size) if *byte == b'\n' => (after(size), 1),
                Next::Extension(size) => (Next::Extension(size), 1),
                Next::Data(left) => {
                    let passed = left.min(bytes.len() as u64);
                    (if passed == left { Next::Size(0, 0) } else { Next::Data(left - passed) }, passed as usize)
                }
            };
            bytes = if passed == 1 { rest } else { &bytes[passed..] };
        }
    }

    fn size(&mut self, size: u64, digits: u32, byte: u8) -> Next {
        match char::from(byte).to_digit(16) {
            Some(_) if digits == MOST_DIGITS => {
                self.largest = u64::MAX;
                Next::Unknown
            }
            Some(digit) => Next::Size(size << 4 | u64::from(digit), digits + 1),
            None if digits > 0 && matches!(byte, b'\r' | b';' | b' ' | b'\t') => {
                self.largest = self.largest.max(size);
                self.begun += 1;
                Next::Extension(size)
            }
            None => Next::Unknown,
        }
    }

    /// As many calls as the chunks cost that began since this was asked last.
    pub fn take_calls(&mut self) -> usize {
        let calls = self.begun / CHUNKS_OF_A_CALL;
        self.begun %= CHUNKS_OF_A_CALL;
        calls
    }

    /// The largest chunk that was announced, in bytes.
    pub fn largest(&self) -> u64 {
        self.largest
    }
}

fn after(size: u64) -> Next {
    if size == 0 { Next::Unknown } else { Next::Data(size.saturating_add(END_OF_LINE)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(stream: &str, piece: usize) -> u64 {
        let mut chunks = Chunks::default();
        let head = stream.find("\r\n\r\n").unwrap_or_else(|| panic!("no head")) + 4;
        chunks.feed(&stream.as_bytes()[..head], true);
        stream.as_bytes()[head..].chunks(piece).for_each(|piece| chunks.feed(piece, false));
        chunks.largest()
    }

    #[test]
    fn sizes_are_found_however_the_stream_is_cut() {
        for piece in [1, 3, 1000] {
            let stream =
                "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nff\n\r\n5;a=b\r\n12345\r\n0\r\n\r\n";
            assert_eq!(largest(stream, piece), 5);
            let stream = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n8000000000000000\r\n";
            assert_eq!(largest(stream, piece), 1 << 63);
            let stream = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n";
            assert_eq!(largest(stream, piece), u64::MAX);
        }
    }

    #[test]
    fn small_chunks_count_as_calls() {
        let mut chunks = Chunks::default();
        chunks.feed(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", true);
        chunks.feed(&b"1\r\na\r\n".repeat(CHUNKS_OF_A_CALL * 3), false);
        assert_eq!((chunks.take_calls(), chunks.take_calls()), (3, 0));
    }

    #[test]
    fn other_bodies_are_not_followed() {
        assert_eq!(largest("POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nffffff\r\n\r\n", 1000), 0);
    }
}
