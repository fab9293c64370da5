//! One request's rows of one output of a batch.

use crate::dtype::DType;
use crate::tensors::column::Column;
use crate::tensors::tensor::Tensor;

/// An output's elements and where one request's begin and end.
#[derive(Clone, Copy)]
pub struct Slice<'a> {
    /// Element type.
    pub dtype: DType,
    /// All rows of the batch.
    pub column: &'a Column,
    /// Dimensions of one row.
    pub inner: &'a [usize],
    /// First row of the request.
    pub first: usize,
    /// Its number of rows.
    pub rows: usize,
    /// Whether its one row is all of the tensor, without an axis for rows.
    pub unbatched: bool,
}

impl<'a> Slice<'a> {
    /// A tensor of its own with the same rows.
    pub fn to_tensor(&self) -> Tensor {
        let extent = Column::row_extent(self.dtype, self.inner);
        let mut column = Column::new(self.dtype);
        column.extend(self.column, self.first * extent..(self.first + self.rows) * extent);
        Tensor { column, shape: self.dims().collect() }
    }

    /// All dimensions.
    pub fn dims(&self) -> impl Iterator<Item = usize> + use<'a> {
        let rows = if self.unbatched { None } else { Some(self.rows) };
        rows.into_iter().chain(self.inner.iter().copied())
    }

    /// A whole tensor as the rows of its first axis; none for a scalar.
    pub fn by_row(&self) -> Option<Slice<'a>> {
        if !self.unbatched {
            return Some(*self);
        }
        let (rows, inner) = self.inner.split_first()?;
        Some(Slice { inner, rows: *rows, first: self.first * rows, unbatched: false, ..*self })
    }

    /// The request's elements, for fixed-size types.
    pub fn raw(&self) -> &'a [u8] {
        match self.column {
            Column::Raw(words) => {
                let row = Column::row_extent(self.dtype, self.inner);
                &words.as_bytes()[self.first * row..(self.first + self.rows) * row]
            }
            Column::Strings(_) => &[],
        }
    }

    /// The request's strings.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let row = Column::row_extent(self.dtype, self.inner);
        let (column, range) = (self.column, self.first * row..(self.first + self.rows) * row);
        range.filter_map(move |index| match column {
            Column::Strings(strings) => Some(strings.get(index)),
            Column::Raw(_) => None,
        })
    }
}
