//! Decompression under a size limit.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tidegate_codec::status::Code;
use tidegate_codec::status::Status;
use tidegate_engine::memory::Memory;
use tidegate_plane::endpoints::compression;

fn inflate(encoding: &str, data: &[u8], limit: usize) -> Result<Option<Bytes>, Status> {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    compression::inflate(encoding, data, limit, &mut memory.of_connection().reservation())
}

#[test]
fn inflated_bytes_are_counted_before_they_are_there() {
    let memory = Arc::new(Memory::new(8 << 20, 1 << 10));
    let mut taken = memory.of_connection().reservation();
    let refused = compression::inflate("gzip", &gzip(&vec![0; 4 << 20]), 64 << 20, &mut taken).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert!(refused.message.contains("request_memory_bytes is 8388608"), "{}", refused.message);
    assert!(taken.bytes() <= 2 << 20, "a connection's quarter");
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_was_compressed_comes_out_plain() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(b"tide").unwrap();
    assert_eq!(&inflate("gzip", &gzip(b"tide"), 4).unwrap().unwrap()[..], b"tide");
    assert_eq!(&inflate("deflate", &zlib.finish().unwrap(), 4).unwrap().unwrap()[..], b"tide");
}

#[test]
fn limits_broken_streams_and_unknown_encodings_are_refused() {
    let bomb = gzip(&vec![0; 1 << 20]);
    assert_eq!(inflate("gzip", &bomb, 1000).unwrap(), None, "more than the limit");
    assert_eq!(inflate("gzip", &bomb[..100], 1 << 21).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(inflate("gzip", b"plain", 1000).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(inflate("br", b"", 1000).unwrap_err().code, Code::Unimplemented);
}
