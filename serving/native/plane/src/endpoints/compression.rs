//! Decompresses messages and bodies, under the same size limit as all others.

use std::io::Read;

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use tidegate_codec::status::{Code, Status};

/// The plain bytes of `data`, or why there are none: an unknown encoding, a broken stream, too many bytes.
pub fn inflate(encoding: &str, data: &[u8], limit: usize) -> Result<Bytes, Status> {
    let most = limit as u64 + 1;
    let mut plain = Vec::new();
    let read = match encoding.trim() {
        "gzip" | "x-gzip" => MultiGzDecoder::new(data).take(most).read_to_end(&mut plain),
        "deflate" => ZlibDecoder::new(data).take(most).read_to_end(&mut plain),
        other => {
            let what = format!("encoding '{other}' is not supported: send gzip, deflate or nothing compressed");
            return Err(Status::new(Code::Unimplemented, what));
        }
    };
    read.map_err(|why| Status::invalid(format!("the message cannot be decompressed as {encoding}: {why}")))?;
    if plain.len() > limit {
        return Err(Status::exhausted(format!(
            "the message is larger than the limit of {limit} bytes once it is decompressed"
        )));
    }
    Ok(plain.into())
}
