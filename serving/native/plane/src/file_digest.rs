//! The SHA-256 of a file, read in pieces, so that another thread can go on reading it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use sha2::{Digest, Sha256};

/// Bytes read at once: well below a scheduler's slice of time.
const PIECE_BYTES: usize = 256 << 10;

/// A file that is being read.
pub struct FileDigest {
    file: File,
    sha256: Sha256,
    size: u64,
    piece: Vec<u8>,
}

impl FileDigest {
    /// Opens a file; nothing is read yet.
    pub fn open(path: &Path) -> io::Result<FileDigest> {
        let piece = vec![0; PIECE_BYTES];
        Ok(FileDigest { file: File::open(path)?, sha256: Sha256::new(), size: 0, piece })
    }

    /// Reads on until the file's end, then true, or until a moment, then false.
    pub fn read_until(&mut self, moment: Option<Instant>) -> io::Result<bool> {
        loop {
            if moment.is_some_and(|moment| Instant::now() >= moment) {
                return Ok(false);
            }
            match self.file.read(&mut self.piece) {
                Ok(0) => return Ok(true),
                Ok(count) => {
                    self.sha256.update(&self.piece[..count]);
                    self.size += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes read, and their SHA-256 in lower-case hexadecimal.
    pub fn finish(self) -> (u64, String) {
        let text = self.sha256.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        (self.size, text)
    }
}
