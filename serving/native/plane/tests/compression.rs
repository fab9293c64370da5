//! Decompression under a size limit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tidegate_codec::status::Code;
use tidegate_plane::endpoints::compression::inflate;

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
