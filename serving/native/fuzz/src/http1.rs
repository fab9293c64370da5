//! What comes over a REST connection. The first byte says in how many pieces.

use crate::endpoints::{Via, converse};

/// Pieces of one conversation, at most.
const MOST_PIECES: usize = 64;

/// Sends the bytes as they are; whatever is answered is HTTP/1.1.
pub fn run(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let answers = converse(Via::Rest, &pieces(usize::from(*size), bytes));
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&answers));
}

/// The bytes in pieces of about this size; 0 is all in one.
pub fn pieces(size: usize, bytes: &[u8]) -> Vec<&[u8]> {
    let size = if size == 0 { bytes.len() } else { size.max(bytes.len().div_ceil(MOST_PIECES)) };
    bytes.chunks(size.max(1)).collect()
}
