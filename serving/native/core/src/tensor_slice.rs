//! One request's rows of one output, and how they are written as a `TensorProto` for its answer.
//! Made from a finished batch; both endpoints' encoders read it.

use crate::column::Column;
use crate::dtype::DType;
use crate::tensor_proto::{self, field};
use crate::wire;

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
    pub whole: bool,
}

impl<'a> Slice<'a> {
    /// All dimensions.
    pub fn dims(&self) -> impl Iterator<Item = usize> + use<'a> {
        let rows = if self.whole { None } else { Some(self.rows) };
        rows.into_iter().chain(self.inner.iter().copied())
    }

    /// A whole tensor as the rows of its first axis; none for a scalar.
    pub fn by_row(&self) -> Option<Slice<'a>> {
        if !self.whole {
            return Some(*self);
        }
        let (rows, inner) = self.inner.split_first()?;
        Some(Slice { inner, rows: *rows, first: self.first * rows, whole: false, ..*self })
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

/// Widens element `raw`, of a non-float type, to the varint that its value field holds.
fn element_varint(dtype: DType, raw: &[u8]) -> u64 {
    let mut wide = [0u8; 8];
    wide[..raw.len()].copy_from_slice(raw);
    let value = u64::from_le_bytes(wide);
    match dtype {
        DType::Int8 => i64::from(value as i8) as u64,
        DType::Int16 => i64::from(value as i16) as u64,
        DType::Int32 => i64::from(value as i32) as u64,
        _ => value,
    }
}

/// Appends a `TensorProto` with the value field of its type, as TensorFlow Serving answers.
pub fn write(out: &mut Vec<u8>, slice: &Slice<'_>) {
    wire::put_uint(out, field::DTYPE, slice.dtype.tensorflow());
    write_shape(out, slice);
    let number = tensor_proto::value_field(slice.dtype);
    match slice.dtype {
        DType::String => slice.strings().for_each(|value| wire::put_bytes(out, number, value)),
        DType::Float32 | DType::Float64 | DType::Bool => wire::put_bytes(out, number, slice.raw()),
        _ => {
            let values = || slice.raw().chunks_exact(slice.dtype.size()).map(|raw| element_varint(slice.dtype, raw));
            wire::put_key(out, number, wire::BYTES);
            wire::put_varint(out, values().map(wire::varint_len).sum::<usize>() as u64);
            values().for_each(|value| wire::put_varint(out, value));
        }
    }
}

fn write_shape(out: &mut Vec<u8>, slice: &Slice<'_>) {
    let dims = || slice.dims();
    let dim_len = |size: usize| 1 + wire::varint_len(size as u64);
    let length: usize = dims().map(|size| wire::bytes_field_len(2, dim_len(size))).sum();
    wire::put_key(out, field::TENSOR_SHAPE, wire::BYTES);
    wire::put_varint(out, length as u64);
    for size in dims() {
        wire::put_key(out, 2, wire::BYTES);
        wire::put_varint(out, dim_len(size) as u64);
        wire::put_uint(out, 1, size as u64);
    }
}
