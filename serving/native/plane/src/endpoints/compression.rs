//! Decompresses messages and bodies, under the same size limit as all others.

use std::io::{self, BufRead, ErrorKind, Read};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;

use crate::endpoints::body::LESS;

/// Bytes that are inflated at once.
const PIECE: usize = 16 << 10;

/// Packed bytes between two questions whether to give up.
const FED: usize = 1 << 10;

/// How long an I/O thread inflates a message: little may come out of bytes that take long, such as very many members of
/// nothing.
const SOON: Duration = Duration::from_micros(500);

/// Gives up where an I/O thread has better to do.
pub fn soon() -> impl FnMut() -> bool {
    let until = Instant::now() + SOON;
    move || Instant::now() >= until
}

/// Packed bytes, until somebody gives up.
struct Fed<'a> {
    left: &'a [u8],
    /// Those that come before the next question.
    unasked: usize,
    gives_up: &'a mut dyn FnMut() -> bool,
}

impl BufRead for Fed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unasked == 0 {
            if (self.gives_up)() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.unasked = self.left.len().min(FED);
        }
        Ok(&self.left[..self.unasked])
    }

    fn consume(&mut self, bytes: usize) {
        self.left = &self.left[bytes..];
        self.unasked -= bytes;
    }
}

impl Read for Fed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

/// The plain bytes of `data`, none where they are more than `limit` or not there before somebody `gives_up`, who is asked
/// again and again; or what is wrong: an unknown encoding, a broken stream, no memory.
pub fn inflate(
    encoding: &str,
    data: &[u8],
    limit: usize,
    gives_up: &mut dyn FnMut() -> bool,
    memory: &mut Reservation,
) -> Result<Option<Bytes>, Status> {
    let data = Fed { left: data, unasked: 0, gives_up };
    let mut decoder: Box<dyn Read + '_> = match encoding.trim() {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(data)),
        "deflate" => Box::new(ZlibDecoder::new(data)),
        other => {
            let what = format!("encoding '{other}' is not supported: send gzip, deflate or nothing compressed");
            return Err(Status::new(Code::Unimplemented, what));
        }
    };
    let mut plain = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        let count = match decoder.read(&mut piece) {
            Ok(0) => {
                // They may be kept for long, and what is not theirs would not be counted then.
                plain.shrink_to_fit();
                return Ok(Some(plain.into()));
            }
            Ok(count) => count,
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(why) if why.kind() == ErrorKind::TimedOut => {
                memory.shrink(plain.capacity());
                return Ok(None);
            }
            Err(why) => {
                return Err(Status::invalid(format!("the message cannot be decompressed as {encoding}: {why}")));
            }
        };
        let length = plain.len() + count;
        if length > limit {
            memory.shrink(plain.capacity());
            return Ok(None);
        }
        if length > plain.capacity() {
            let capacity = length.max((plain.capacity() * 2).min(limit)).max(PIECE);
            memory.grow(capacity - plain.capacity(), capacity)?;
            plain.reserve_exact(capacity - plain.len());
        }
        plain.extend_from_slice(&piece[..count]);
    }
}

/// What a client hears of bytes that are too many.
pub fn too_large(limit: usize) -> Status {
    Status::exhausted(format!("the message is larger than the limit of {limit} bytes once it is decompressed: {LESS}"))
}
