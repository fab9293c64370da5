//! Triton's classification extension: instead of an output, the labels of its largest values, each as text `VALUE:INDEX`.

use half::f16;

use crate::dtype::DType;
use crate::open_inference::datatype;
use crate::signatures::{FirstAxis, Signature, TensorSpec};
use crate::status::Status;
use crate::tensors::{Column, Slice, Strings, Tensor};

/// The parameter of an output by which a client asks for it.
pub const CLASSIFICATION: &str = "classification";

/// From here on a float is written with an exponent: with all its digits it would take up to 309.
const LONG: f64 = 1e16;

/// How an output is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// Labels for each row, at most.
    pub most: usize,
    /// Whether the first axis is one of rows; else the whole tensor is one.
    pub by_row: bool,
}

impl Classification {
    /// Of an output with numbers.
    pub fn of(most: usize, signature: &Signature, spec: &TensorSpec) -> Result<Classification, Status> {
        if matches!(spec.dtype, DType::Bool | DType::String) {
            let (name, dtype) = (&spec.name, datatype::name(spec.dtype));
            return Err(Status::invalid(format!(
                "output '{name}' is {dtype} and cannot be classified: leave out its parameter '{CLASSIFICATION}', which is \
                 for numbers"
            )));
        }
        let rows = !spec.unknown_rank && spec.shape.first() == Some(&-1);
        Ok(Classification { most, by_row: rows && signature.first_axis != FirstAxis::Free })
    }

    /// The labels of each row, the largest value first; equal ones by their index, and what is no number last.
    pub fn apply(self, slice: &Slice<'_>) -> Tensor {
        let rows = if self.by_row { slice.by_row() } else { None };
        let (elements, size) = (slice.raw().len() / slice.dtype.size().max(1), slice.dtype.size().max(1));
        let (shape, per_row) = match rows {
            Some(rows) => (vec![rows.rows], rows.inner.iter().product()),
            None => (Vec::new(), elements),
        };
        let most = self.most.min(per_row);
        let mut strings = Strings::default();
        if per_row > 0 {
            let mut order: Vec<u32> = Vec::with_capacity(per_row);
            for row in slice.raw().chunks_exact(per_row * size) {
                let value = |index: u32| &row[index as usize * size..][..size];
                let first = |a: &u32, b: &u32| compare(slice.dtype, value(*b), value(*a)).then(a.cmp(b));
                order.clear();
                order.extend(0..per_row as u32);
                if most < per_row && most > 0 {
                    order.select_nth_unstable_by(most - 1, first);
                }
                order.truncate(most);
                order.sort_unstable_by(first);
                order.iter().for_each(|index| strings.push(label(slice.dtype, value(*index), *index).as_bytes()));
            }
        }
        Tensor { column: Column::Strings(strings), shape: shape.into_iter().chain([most]).collect() }
    }
}

/// A value, as wide as any of its kind.
#[derive(Clone, Copy)]
enum Wide {
    Float(f64),
    Signed(i64),
    Unsigned(u64),
}

fn wide(dtype: DType, raw: &[u8]) -> Wide {
    let mut bytes = [0; 8];
    bytes[..raw.len()].copy_from_slice(raw);
    let word = u64::from_le_bytes(bytes);
    match dtype {
        DType::Float16 => Wide::Float(f16::from_bits(word as u16).to_f64()),
        DType::Float32 => Wide::Float(f64::from(f32::from_bits(word as u32))),
        DType::Float64 => Wide::Float(f64::from_bits(word)),
        DType::Int8 => Wide::Signed(i64::from(word as u8 as i8)),
        DType::Int16 => Wide::Signed(i64::from(word as u16 as i16)),
        DType::Int32 => Wide::Signed(i64::from(word as u32 as i32)),
        DType::Int64 => Wide::Signed(word as i64),
        _ => Wide::Unsigned(word),
    }
}

fn compare(dtype: DType, one: &[u8], other: &[u8]) -> std::cmp::Ordering {
    match (wide(dtype, one), wide(dtype, other)) {
        (Wide::Float(one), Wide::Float(other)) => {
            one.partial_cmp(&other).unwrap_or_else(|| other.is_nan().cmp(&one.is_nan()))
        }
        (Wide::Signed(one), Wide::Signed(other)) => one.cmp(&other),
        (Wide::Unsigned(one), Wide::Unsigned(other)) => one.cmp(&other),
        _ => std::cmp::Ordering::Equal,
    }
}

/// As Triton writes it: six digits after the point of a float.
fn label(dtype: DType, raw: &[u8], index: u32) -> String {
    match wide(dtype, raw) {
        Wide::Float(value) if value.is_nan() => format!("nan:{index}"),
        Wide::Float(value) if value.is_finite() && value.abs() >= LONG => format!("{value:e}:{index}"),
        Wide::Float(value) => format!("{value:.6}:{index}"),
        Wide::Signed(value) => format!("{value}:{index}"),
        Wide::Unsigned(value) => format!("{value}:{index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::Words;

    fn of_floats(values: &[f32]) -> Column {
        let mut words = Words::default();
        values.iter().for_each(|value| words.push(&value.to_le_bytes()));
        Column::Raw(words)
    }

    fn labels(tensor: &Tensor) -> Vec<&str> {
        match &tensor.column {
            Column::Strings(strings) => {
                (0..strings.len()).map(|at| std::str::from_utf8(strings.get(at)).unwrap_or("not text")).collect()
            }
            Column::Raw(_) => Vec::new(),
        }
    }

    fn slice<'a>(column: &'a Column, rows: usize, inner: &'a [usize], unbatched: bool) -> Slice<'a> {
        Slice { dtype: DType::Float32, column, inner, first: 0, rows, unbatched }
    }

    #[test]
    fn the_largest_of_each_row_come_first() {
        let column = of_floats(&[0.1, 0.7, 0.2, 5.0, 5.0, f32::NAN]);
        let found = Classification { most: 2, by_row: true }.apply(&slice(&column, 2, &[3], false));
        assert_eq!(
            (found.shape.as_slice(), labels(&found)),
            (&[2, 2][..], vec!["0.700000:1", "0.200000:2", "5.000000:0", "5.000000:1"])
        );
        let whole = Classification { most: 2, by_row: true }.apply(&slice(&column, 1, &[2, 3], true));
        assert_eq!(labels(&whole), labels(&found), "a whole tensor whose first axis is one of rows");
        let all = Classification { most: usize::MAX, by_row: false }.apply(&slice(&column, 1, &[2, 3], true));
        assert_eq!(all.shape, [6]);
        assert_eq!(labels(&all)[4..], ["0.100000:0", "nan:5"]);
    }

    #[test]
    fn nothing_is_classified_into_nothing_and_large_values_stay_short() {
        let empty = of_floats(&[]);
        let none = Classification { most: 3, by_row: true };
        assert_eq!(none.apply(&slice(&empty, 0, &[3], false)).shape, [0, 3]);
        assert_eq!(none.apply(&slice(&empty, 2, &[0], false)).shape, [2, 0]);
        let column = of_floats(&[f32::MAX, f32::INFINITY, f32::NEG_INFINITY]);
        let found = Classification { most: 3, by_row: true }.apply(&slice(&column, 1, &[3], false));
        assert_eq!(labels(&found), ["inf:1", "3.4028234663852886e38:0", "-inf:2"]);
    }
}
