//! The body of a REST predict answer, in the form of the request.

use half::f16;

use crate::dtype::{DType, tensorflow_type};
use crate::json::predict_request::Form;
use crate::json::text::{write_double, write_float, write_list, write_object, write_string, write_text};
use crate::status::Status;
use crate::tensors::{Column, Slice};

/// One output with its name.
pub type Named<'a> = (&'a str, Slice<'a>);

/// Writes the only row of each output as one object.
pub fn encode_plain(outputs: &[Named<'_>]) -> Result<Vec<u8>, Status> {
    check_types(outputs, DType::is_complex)?;
    let mut out = Vec::new();
    write_named(&mut out, outputs, |out, name, slice| write_row(out, name, slice, 0));
    Ok(out)
}

fn check_types(outputs: &[Named<'_>], lacks: impl Fn(DType) -> bool) -> Result<(), Status> {
    match outputs.iter().find(|(_, slice)| lacks(slice.dtype)) {
        Some((_, slice)) => {
            let dtype = tensorflow_type(slice.dtype);
            Err(Status::invalid(format!("Failed to write JSON value for tensor type: {dtype}")))
        }
        None => Ok(()),
    }
}

/// Writes the whole body. Rows must be as many in each output, in TensorFlow Serving's words.
pub fn encode(outputs: &[Named<'_>], form: Form) -> Result<Vec<u8>, Status> {
    check_types(outputs, |dtype| !dtype.has_json())?;
    let elements: usize = outputs.iter().map(|(_, slice)| slice.rows * slice.inner.iter().product::<usize>()).sum();
    let mut out = Vec::with_capacity(32 + 12 * elements + 16 * outputs.len());
    match form {
        Form::Row if outputs.iter().any(|(_, slice)| slice.unbatched) => rows(&mut out, &by_row(outputs)?),
        Form::Row => rows(&mut out, outputs),
        Form::Columnar => columns(&mut out, outputs),
    }
    Ok(out)
}

/// Whole tensors as the rows of their first axes.
fn by_row<'a>(outputs: &[Named<'a>]) -> Result<Vec<Named<'a>>, Status> {
    let mut found: Vec<Named<'a>> = Vec::with_capacity(outputs.len());
    for (name, whole) in outputs {
        let Some(slice) = whole.by_row() else {
            return Err(Status::invalid(format!("Tensor name: {name} has no shape information ")));
        };
        if let Some((_, first)) = found.first().filter(|(_, first)| first.rows != slice.rows) {
            let (got, wanted) = (slice.rows, first.rows);
            return Err(Status::invalid(format!(
                "Tensor name: {name} has inconsistent batch size: {got} expecting: {wanted}"
            )));
        }
        found.push((name, slice));
    }
    Ok(found)
}

fn rows(out: &mut Vec<u8>, outputs: &[Named<'_>]) {
    out.extend_from_slice(b"{\"predictions\":");
    if let [(name, slice)] = outputs {
        write_list(out, slice.rows, |out, row| write_row(out, name, slice, row));
    } else {
        let rows = outputs.first().map_or(0, |(_, slice)| slice.rows);
        write_list(out, rows, |out, row| {
            write_named(out, outputs, |out, name, slice| write_row(out, name, slice, row));
        });
    }
    out.push(b'}');
}

fn columns(out: &mut Vec<u8>, outputs: &[Named<'_>]) {
    out.extend_from_slice(b"{\"outputs\":");
    match outputs {
        [(name, slice)] => write_tensor(out, name, slice),
        _ => write_named(out, outputs, write_tensor),
    }
    out.push(b'}');
}

fn write_named(out: &mut Vec<u8>, outputs: &[Named<'_>], member: impl Fn(&mut Vec<u8>, &str, &Slice<'_>)) {
    write_object(out, outputs, |out, (name, slice)| {
        write_text(out, name);
        out.push(b':');
        member(out, name, slice);
    });
}

fn write_tensor(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>) {
    if slice.unbatched {
        return write_row(out, name, slice, 0);
    }
    write_list(out, slice.rows, |out, row| write_row(out, name, slice, row));
}

fn write_row(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>, row: usize) {
    let count = slice.inner.iter().product::<usize>();
    let start = (slice.first + row) * count;
    write_level(out, name, slice, slice.inner, start);
}

fn write_level(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>, dims: &[usize], start: usize) {
    match dims {
        [] => write_element(out, name, slice, start),
        [count] => write_list(out, *count, |out, index| write_element(out, name, slice, start + index)),
        [count, deeper @ ..] => {
            let step = deeper.iter().product::<usize>();
            write_list(out, *count, |out, index| write_level(out, name, slice, deeper, start + index * step));
        }
    }
}

fn write_element(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>, index: usize) {
    let words = match slice.column {
        Column::Strings(strings) => return write_string(out, name, strings.get(index)),
        Column::Raw(words) => words,
    };
    let size = slice.dtype.size();
    write_number(out, slice.dtype, &words.as_bytes()[index * size..(index + 1) * size]);
}

/// Writes one element of a type other than complex numbers and strings.
#[inline]
pub(crate) fn write_number(out: &mut Vec<u8>, dtype: DType, element: &[u8]) {
    let mut wide = [0u8; 8];
    wide[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(wide);
    let mut digits = itoa::Buffer::new();
    let text = match dtype {
        DType::Float16 => return write_float(out, f16::from_bits(bits as u16).to_f32()),
        DType::Float32 => return write_float(out, f32::from_bits(bits as u32)),
        DType::Float64 => return write_double(out, f64::from_bits(bits)),
        DType::Bool => ["false", "true"][usize::from(bits != 0)],
        DType::Int8 => digits.format(bits as i8),
        DType::Int16 => digits.format(bits as i16),
        DType::Int32 => digits.format(bits as i32),
        DType::Int64 => digits.format(bits as i64),
        _ => digits.format(bits),
    };
    out.extend_from_slice(text.as_bytes());
}
