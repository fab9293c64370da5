//! Decompresses messages and bodies, under the same size limit as all others.

use std::io::{ErrorKind, Read};

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;

/// Bytes that are inflated at once.
const PIECE: usize = 16 << 10;

/// The plain bytes of `data`, or why there are none: an unknown encoding, a broken stream, too many bytes, no memory.
pub fn inflate(encoding: &str, data: &[u8], limit: usize, memory: &mut Reservation) -> Result<Bytes, Status> {
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
            Ok(0) => return Ok(plain.into()),
            Ok(count) => count,
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(why) => {
                return Err(Status::invalid(format!("the message cannot be decompressed as {encoding}: {why}")));
            }
        };
        let length = plain.len() + count;
        if length > limit {
            return Err(Status::exhausted(format!(
                "the message is larger than the limit of {limit} bytes once it is decompressed"
            )));
        }
        if length > plain.capacity() {
            let capacity = length.max((plain.capacity() * 2).min(limit)).max(PIECE);
            memory.grow(capacity - plain.capacity(), capacity)?;
            plain.reserve_exact(capacity - plain.len());
        }
        plain.extend_from_slice(&piece[..count]);
    }
}
