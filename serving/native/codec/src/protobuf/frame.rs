//! gRPC's frame around a message: a byte for compression, four for the length.

use bytes::Bytes;

/// Starts a gRPC frame: five bytes whose length `finish_frame` fills in.
pub fn start_frame(capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + 5);
    out.extend_from_slice(&[0; 5]);
    out
}

/// Fills in the length of a frame.
pub fn finish_frame(mut out: Vec<u8>) -> Bytes {
    let length = (out.len() - 5) as u32;
    out[1..5].copy_from_slice(&length.to_be_bytes());
    Bytes::from(out)
}

/// One frame with a whole message in it.
pub fn frame(message: &[u8]) -> Bytes {
    let mut out = start_frame(message.len());
    out.extend_from_slice(message);
    finish_frame(out)
}
