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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::inflate;
    use tidegate_codec::status::Code;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_compressed_comes_out_plain() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(b"tide").unwrap();
        assert_eq!(&inflate("gzip", &gzip(b"tide"), 4).unwrap()[..], b"tide");
        assert_eq!(&inflate("deflate", &zlib.finish().unwrap(), 4).unwrap()[..], b"tide");
    }

    #[test]
    fn limits_broken_streams_and_unknown_encodings_are_refused() {
        let bomb = gzip(&vec![0; 1 << 20]);
        assert_eq!(inflate("gzip", &bomb, 1000).unwrap_err().code, Code::ResourceExhausted);
        assert_eq!(inflate("gzip", &bomb[..100], 1 << 21).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(inflate("gzip", b"plain", 1000).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(inflate("br", b"", 1000).unwrap_err().code, Code::Unimplemented);
    }
}
