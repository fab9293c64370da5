//! Elements of many rows: raw little-endian values, or strings as offsets and bytes.

use std::ops::Range;

use bytes::Bytes;

use crate::dtype::DType;

/// From 1 MB on a buffer is not made longer in place: new memory need not be filled with zeros.
const LARGE_WORDS: usize = 1 << 17;

/// Fewer bytes are filled with zeros before they are written, which costs less than to tell them apart.
const UNFILLED: usize = 4 << 10;

/// Bytes in memory that is aligned for every element type, or a part of a message, which is not, until they are changed.
#[derive(Debug, Default)]
pub struct Words {
    words: Vec<u64>,
    len: usize,
    lent: Option<Bytes>,
}

impl Clone for Words {
    /// Copies what is in use, not all that a recycled buffer once held, nor what a message has lent.
    fn clone(&self) -> Words {
        let used = if self.lent.is_some() { 0 } else { self.len.div_ceil(8) };
        Words { words: self.words[..used].to_vec(), len: self.len, lent: self.lent.clone() }
    }
}

impl Words {
    /// Part of a message, which is kept instead of a copy. Its length is that of whole elements.
    pub fn lent(part: Bytes) -> Words {
        Words { words: Vec::new(), len: part.len(), lent: Some(part) }
    }

    /// Copies what a message has lent.
    #[inline]
    pub fn own(&mut self) {
        if self.lent.is_some() {
            self.copy_lent();
        }
    }

    #[cold]
    fn copy_lent(&mut self) {
        if let Some(part) = self.lent.take() {
            self.len = 0;
            self.push(&part);
        }
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.lent {
            Some(part) => part,
            None => &bytemuck::cast_slice(&self.words)[..self.len],
        }
    }

    /// The same, to be overwritten in place.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.own();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.words.capacity() * 8 + self.lent.as_ref().map_or(0, Bytes::len)
    }

    /// Makes room for `bytes` more, so that they are not moved while they come in pieces.
    pub fn reserve(&mut self, bytes: usize) {
        self.own();
        let words = (self.len + bytes).div_ceil(8);
        self.words.reserve_exact(words.saturating_sub(self.words.len()));
    }

    /// Makes room for `bytes` more and hands it out; its content is unspecified and must be overwritten.
    pub fn grow(&mut self, bytes: usize) -> &mut [u8] {
        self.own();
        let start = self.len;
        self.len += bytes;
        let words = self.len.div_ceil(8);
        if words > self.words.len() {
            self.lengthen(words, start);
        }
        &mut bytemuck::cast_slice_mut(&mut self.words)[start..start + bytes]
    }

    /// Lengthens the buffer, which is kept at its largest length so that a recycled one is not filled with zeros again:
    /// to just what is wanted where that is a lot, or else to the double. The first `used` bytes stay.
    fn lengthen(&mut self, words: usize, used: usize) {
        let wanted = words.max(self.words.len() * 2).max(8);
        if words <= self.words.capacity() {
            self.words.resize(wanted.min(self.words.capacity()), 0);
        } else if self.words.capacity() > 0 && wanted < LARGE_WORDS {
            self.words.reserve_exact(wanted - self.words.len());
            self.words.resize(wanted, 0);
        } else {
            // Zeros straight from the system, whose pages cost nothing before they are used: neither do those that
            // doubling may leave unused.
            let mut fresh = vec![0; wanted];
            let used = used.div_ceil(8);
            fresh[..used].copy_from_slice(&self.words[..used]);
            self.words = fresh;
        }
    }

    /// Appends zeros; memory that is new is zero already.
    pub fn grow_zeros(&mut self, bytes: usize) {
        let (start, known) = (self.len, self.words.len());
        self.grow(bytes);
        // Behind `start` stands what the buffer held before.
        let end = (known * 8).clamp(start, start + bytes);
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[start..end].fill(0);
    }

    /// Appends the floats of which these are the upper halves, as bfloat16 has them; the lower halves are zeros.
    pub fn push_bfloat16(&mut self, halves: &[u8]) {
        let floats = self.grow(halves.len() * 2).chunks_exact_mut(4);
        floats.zip(halves.chunks_exact(2)).for_each(|(to, from)| to.copy_from_slice(&[0, 0, from[0], from[1]]));
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.len() < UNFILLED {
            self.grow(bytes.len()).copy_from_slice(bytes);
        } else {
            self.push_many(bytes);
        }
    }

    /// The same, where new memory is not filled with zeros before.
    fn push_many(&mut self, bytes: &[u8]) {
        self.own();
        let filled = self.words.len() * 8 - self.len;
        if bytes.len() <= filled || !self.len.is_multiple_of(8) {
            return self.grow(bytes.len()).copy_from_slice(bytes);
        }
        let (over, beyond) = bytes.split_at(filled);
        self.grow(filled).copy_from_slice(over);
        let words = beyond.len().div_ceil(8);
        if words > self.words.capacity() - self.words.len() {
            self.words.reserve_exact(words.max(self.words.len()));
        }
        let (whole, rest) = beyond.as_chunks::<8>();
        self.words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.words.push(u64::from_ne_bytes(last));
        }
        self.len += beyond.len();
    }

    /// Forgets everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        if let Some(part) = &mut self.lent {
            part.truncate(len);
        }
        self.lent.take_if(|part| part.is_empty());
    }
}

/// Byte strings end to end; string `i` is `bytes[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Debug)]
pub struct Strings {
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Strings {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Appends one string.
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as u64);
    }

    /// Appends one string that is these pieces end to end.
    pub fn push_pieces(&mut self, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.offsets.push(self.bytes.len() as u64);
    }

    /// Appends one string that `write` puts at the end of the bytes; nothing is appended when it fails.
    pub fn push_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let before = self.bytes.len();
        match write(&mut self.bytes) {
            Ok(()) => {
                self.offsets.push(self.bytes.len() as u64);
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(before);
                Err(error)
            }
        }
    }

    /// Forgets everything after the first `count` strings.
    pub fn truncate(&mut self, count: usize) {
        if count < self.len() {
            self.offsets.truncate(count + 1);
            self.bytes.truncate(self.offsets[count] as usize);
        }
    }

    /// Appends a range of another's strings.
    pub fn extend(&mut self, other: &Strings, range: Range<usize>) {
        let start = other.offsets[range.start];
        let shift = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&other.bytes[start as usize..other.offsets[range.end] as usize]);
        self.offsets.extend(other.offsets[range.start + 1..=range.end].iter().map(|end| end - start + shift));
    }

    /// `len() + 1` offsets into `bytes`, from 0.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// All strings end to end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The elements of one tensor, row after row.
#[derive(Clone, Debug)]
pub enum Column {
    /// Elements of a fixed size, little-endian.
    Raw(Words),
    /// Byte strings.
    Strings(Strings),
}

impl Column {
    /// An empty column for elements of this type.
    pub fn new(dtype: DType) -> Column {
        match dtype {
            DType::String => Column::Strings(Strings::default()),
            _ => Column::Raw(Words::default()),
        }
    }

    /// Bytes for raw elements, count for strings: the unit of `truncate`, and a row's times its number.
    pub fn extent(&self) -> usize {
        match self {
            Column::Raw(words) => words.len(),
            Column::Strings(strings) => strings.len(),
        }
    }

    /// Memory that the content needs, in bytes.
    pub fn byte_size(&self) -> usize {
        match self {
            Column::Raw(words) => words.len(),
            Column::Strings(strings) => strings.bytes.len() + strings.offsets.len() * 8,
        }
    }

    /// Memory held, in bytes, used or not.
    pub fn capacity(&self) -> usize {
        match self {
            Column::Raw(words) => words.capacity(),
            Column::Strings(strings) => strings.bytes.capacity() + strings.offsets.capacity() * 8,
        }
    }

    /// Makes room for `bytes` of elements more, where they are of a fixed size.
    pub fn reserve(&mut self, bytes: usize) {
        if let Column::Raw(words) = self {
            words.reserve(bytes);
        }
    }

    /// Copies what a message has lent.
    pub fn own(&mut self) {
        if let Column::Raw(words) = self {
            words.own();
        }
    }

    /// Forgets everything after `extent`.
    pub fn truncate(&mut self, extent: usize) {
        match self {
            Column::Raw(words) => words.truncate(extent),
            Column::Strings(strings) => strings.truncate(extent),
        }
    }

    /// Appends a range, in extent units, of a column of the same kind.
    pub fn extend(&mut self, other: &Column, range: Range<usize>) {
        match (self, other) {
            (Column::Raw(to), Column::Raw(from)) => to.push(&from.as_bytes()[range]),
            (Column::Strings(to), Column::Strings(from)) => to.extend(from, range),
            _ => unreachable!("a column keeps the kind that its signature gave it"),
        }
    }

    /// Appends so many copies of another column of the same kind.
    pub fn extend_copies(&mut self, other: &Column, copies: usize) {
        match (self, other) {
            (Column::Raw(to), Column::Raw(from)) if !from.is_empty() => {
                let from = from.as_bytes();
                to.grow(copies * from.len()).chunks_exact_mut(from.len()).for_each(|copy| copy.copy_from_slice(from));
            }
            (to, from) => (0..copies).for_each(|_| to.extend(from, 0..from.extent())),
        }
    }

    /// Extent units in one row of this inner shape.
    pub fn row_extent(dtype: DType, inner: &[usize]) -> usize {
        inner.iter().product::<usize>() * dtype.size().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_zeros_in_memory_that_was_used_before() {
        let mut words = Words::default();
        words.grow(40).fill(7);
        words.truncate(3);
        words.grow_zeros(100);
        assert_eq!((&words.as_bytes()[..3], words.len()), (&[7, 7, 7][..], 103));
        assert!(words.as_bytes()[3..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_part_of_a_message_is_kept_as_it_is_until_it_is_changed() {
        let message = Bytes::from(vec![7; 9 << 10]);
        let part = message.slice(1..8 << 10);
        let mut words = Words::lent(part.clone());
        let copy = words.clone();
        assert_eq!(copy.as_bytes().as_ptr(), part.as_ptr(), "it was copied");
        assert_eq!((words.len(), words.capacity()), (part.len(), part.len()));
        words.as_bytes_mut()[0] = 1;
        words.push(&[9; 3]);
        assert_eq!(words.as_bytes(), [&[1][..], &part[1..], &[9; 3]].concat());
        assert_eq!(copy.as_bytes(), part, "somebody else's changed");
        let mut words = copy;
        words.truncate(16);
        words.push(&[9; 5000]);
        assert_eq!(words.as_bytes(), [&[7; 16][..], &[9; 5000]].concat());
        words.truncate(0);
        assert!(words.is_empty() && words.as_bytes().is_empty());
    }

    #[test]
    fn much_is_appended_wherever_the_buffer_stands() {
        let many: Vec<u8> = (0..20_001).map(|at| at as u8).collect();
        for (before, known, reserved) in [(0, 0, 0), (8, 0, 0), (8, 80, 0), (3, 80, 0), (16, 9000, 0), (0, 0, 30_000)] {
            let mut words = Words::default();
            words.reserve(reserved);
            words.grow(known).fill(5);
            words.truncate(0);
            words.push(&many[..before]);
            words.push(&many);
            words.push(&many[..5]);
            assert_eq!(words.as_bytes(), [&many[..before], &many, &many[..5]].concat());
            words.grow_zeros(5000);
            assert!(words.as_bytes()[before + many.len() + 5..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_is_large_grows_to_just_what_is_wanted_and_keeps_what_was_written() {
        let mut words = Words::default();
        words.grow(1000).fill(7);
        words.truncate(3);
        words.grow_zeros(3 << 20);
        assert_eq!(words.as_bytes()[..4], [7, 7, 7, 0]);
        assert!(words.as_bytes()[3..].iter().all(|byte| *byte == 0));
        assert_eq!(words.capacity(), words.len().next_multiple_of(8));
        words.push(&[9; 5]);
        assert_eq!((words.as_bytes()[..4].to_vec(), words.len()), (vec![7, 7, 7, 0], (3 << 20) + 8));
        assert_eq!(words.as_bytes()[words.len() - 6..], [0, 9, 9, 9, 9, 9]);
    }
}
