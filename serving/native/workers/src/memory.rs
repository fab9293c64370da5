//! Memory that two processes share: each side writes into its own and reads the other's. It is a file without a name, and
//! read and written as one, so that a worker that changes what it gave ends nobody.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::{Column, Tensor, Words};

use crate::error::LineError;
use crate::layout::{self, Named, Place};

const LEAST_BYTES: usize = 1 << 16;
/// Larger memory is for one message alone, on both sides.
const KEPT_BYTES: usize = 32 << 20;
/// What is larger is emptied while nobody has a message for the other.
const KEPT_AT_REST: usize = 1 << 20;
/// So much is put together and written or read at once.
const GATHERED: usize = 1 << 20;
/// Of a large tensor so much is read at once, which stays in the processor's cache until it is copied: memory that is new to
/// the process, as what is read into at once has to be, takes longer.
const PIECE: usize = 128 << 10;
/// No protocol can carry an answer that is larger.
const MOST_BYTES: usize = 2 << 30;

/// The writer's end. It grows with the tensors.
#[derive(Debug, Default)]
pub(crate) struct Mine {
    file: Option<File>,
    size: usize,
    gathered: Vec<u8>,
}

impl Mine {
    /// Writes tensors to where they begin. Whether the memory is a new one, whose descriptor the reader needs.
    pub(crate) fn write(&mut self, tensors: &[Named<'_>], starts: &[usize], needed: usize) -> io::Result<bool> {
        if needed == 0 {
            return Ok(false);
        }
        let fits = needed <= self.size;
        if !fits {
            self.make(needed)?;
        }
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        if needed > GATHERED {
            for (tensor, start) in tensors.iter().zip(starts) {
                write_at(file, tensor.column, *start)?;
            }
            return Ok(!fits);
        }
        self.gathered.clear();
        for (tensor, start) in tensors.iter().zip(starts) {
            self.gathered.resize(*start, 0);
            match tensor.column {
                Column::Raw(words) => self.gathered.extend_from_slice(words.as_bytes()),
                Column::Strings(strings) => {
                    strings.offsets().iter().for_each(|offset| self.gathered.extend_from_slice(&offset.to_le_bytes()));
                    self.gathered.extend_from_slice(strings.bytes());
                }
            }
        }
        file.write_all_at(&self.gathered, 0)?;
        Ok(!fits)
    }

    /// For the reader.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Once all that was written is on its way: gives large memory back.
    pub(crate) fn give_back(&mut self) {
        if self.size > KEPT_BYTES {
            self.file = None;
            self.size = 0;
        }
    }

    /// Gives the system back what lies in large memory, which nobody has to read any more.
    pub(crate) fn empty(&self) -> io::Result<()> {
        empty(self.file.as_ref(), self.size)
    }

    fn make(&mut self, needed: usize) -> io::Result<()> {
        let size = needed.next_power_of_two().max(LEAST_BYTES);
        self.file = None;
        self.size = 0;
        let file = memfd_create("tidegate-batch", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
        self.file = Some(file.into());
        self.size = size;
        Ok(())
    }
}

/// Has a file take no memory, of whatever size it is.
fn empty(file: Option<&File>, size: usize) -> io::Result<()> {
    let Some(file) = file.filter(|_| size > KEPT_AT_REST) else { return Ok(()) };
    let all = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, all, 0, size as u64)?)
}

fn write_at(file: &File, column: &Column, start: usize) -> io::Result<()> {
    let start = start as u64;
    match column {
        Column::Raw(words) => file.write_all_at(words.as_bytes(), start),
        Column::Strings(strings) => {
            let offsets: Vec<u8> = strings.offsets().iter().flat_map(|offset| offset.to_le_bytes()).collect();
            file.write_all_at(&offsets, start)?;
            file.write_all_at(strings.bytes(), start + offsets.len() as u64)
        }
    }
}

/// The reader's end.
#[derive(Debug, Default)]
pub(crate) struct Theirs {
    file: Option<File>,
    size: usize,
    gathered: Vec<u8>,
}

impl Theirs {
    /// Reads from this memory from now on. An error where it is none, or may shrink: a file elsewhere could keep whoever
    /// reads it waiting.
    pub(crate) fn take(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        if !fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("the memory for tensors is not sealed"));
        }
        let file = File::from(descriptor);
        self.size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        self.file = Some(file);
        Ok(())
    }

    /// The tensors that lie at these places.
    pub(crate) fn read(&mut self, places: &[Place]) -> Result<Vec<Tensor>, LineError> {
        let end = places.iter().map(|place| place.at + place.size).max().unwrap_or(0);
        let outside = |place: &&Place| place.size > 0 && place.at + place.size > self.size;
        if let Some(Place { name, size, at, .. }) = places.iter().find(outside) {
            let what =
                format!("tensor '{name}' of {size} bytes at {at} lies outside the memory of {} bytes", self.size);
            return Err(LineError::NoSense(what));
        }
        if places.iter().fold(0_usize, |sum, place| sum.saturating_add(place.size)) > MOST_BYTES {
            return Err(LineError::NoSense(format!("tensors of more than {MOST_BYTES} bytes are no answer")));
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let whole = end <= GATHERED;
        if whole && end > 0 {
            gathered.resize(end, 0);
            self.read_at(&mut gathered, 0)?;
        }
        let mut found = Vec::with_capacity(places.len());
        for place in places {
            let bytes = place.at..place.at + place.size;
            found.push(match (whole, place.dtype) {
                (true, _) => layout::tensor(place, gathered.get(bytes).unwrap_or_default())?,
                (false, DType::String) => {
                    let mut text = vec![0; place.size];
                    self.read_at(&mut text, place.at)?;
                    layout::tensor(place, &text)?
                }
                (false, _) => {
                    gathered.resize(PIECE, 0);
                    let mut words = Words::default();
                    words.reserve(place.size);
                    for at in bytes.step_by(PIECE) {
                        let piece = &mut gathered[..PIECE.min(place.at + place.size - at)];
                        self.read_at(piece, at)?;
                        words.push(piece);
                    }
                    Tensor { column: Column::Raw(words), shape: place.shape.clone() }
                }
            });
        }
        self.gathered = gathered;
        if self.size > KEPT_BYTES {
            self.file = None;
            self.size = 0;
        }
        Ok(found)
    }

    /// Gives the system back what lies in large memory, of which all is read.
    pub(crate) fn empty(&self) -> io::Result<()> {
        empty(self.file.as_ref(), self.size)
    }

    fn read_at(&self, bytes: &mut [u8], at: usize) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(bytes, at as u64),
            None if bytes.is_empty() => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
