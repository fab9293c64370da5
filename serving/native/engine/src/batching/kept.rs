//! The inputs of a batch as they came, for the log and to be run again: the model may have written into its own.

use std::ops::Range;

use tidegate_codec::tensors::{Column, Lease};

/// One input of a batch: a copy, or the pieces that the model's own was put together of.
#[derive(Debug)]
pub struct Kept(Vec<Lease>);

impl Kept {
    /// A copy of a column; nothing is copied of what a message has lent.
    pub fn copy(column: &Column) -> Kept {
        Kept(vec![Lease::unpooled(column.clone())])
    }

    /// Pieces end to end, of columns of one kind.
    pub fn pieces(pieces: Vec<Lease>) -> Kept {
        Kept(pieces)
    }

    /// All of it, where it is one piece, as it is wherever rows were padded.
    pub fn whole(&self) -> Option<&Column> {
        match &*self.0 {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Memory that the content needs, in bytes.
    pub fn byte_size(&self) -> usize {
        self.0.iter().map(|piece| piece.byte_size()).sum()
    }

    /// Appends a range, in extent units, to a column of the same kind.
    pub fn extend(&self, to: &mut Column, range: Range<usize>) {
        let mut start = 0;
        for piece in &self.0 {
            let end = start + piece.extent();
            let (first, last) = (range.start.max(start), range.end.min(end));
            if first < last {
                to.extend(piece, first - start..last - start);
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_codec::dtype::DType;
    use tidegate_codec::tensors::Words;

    use super::*;

    fn column(bytes: &[u8]) -> Column {
        let mut words = Words::default();
        words.push(bytes);
        Column::Raw(words)
    }

    #[test]
    fn a_range_is_the_same_whether_it_is_of_a_copy_or_of_pieces() {
        let copy = Kept::copy(&column(&[0, 1, 2, 3, 4, 5, 6, 7]));
        let pieces = [&[0, 1, 2][..], &[], &[3, 4, 5, 6], &[7]].map(|bytes| Lease::unpooled(column(bytes)));
        let pieces = Kept::pieces(pieces.into());
        assert_eq!((copy.byte_size(), pieces.byte_size()), (8, 8));
        for (start, end) in (0..8).flat_map(|start| (start..=8).map(move |end| (start, end))) {
            let [one, other] = [&copy, &pieces].map(|kept| {
                let mut to = Column::new(DType::UInt8);
                kept.extend(&mut to, start..end);
                let Column::Raw(words) = to else { panic!("strings") };
                words.as_bytes().to_vec()
            });
            assert_eq!(one, other, "{start}..{end}");
            assert_eq!(one.len(), end - start);
        }
    }
}
