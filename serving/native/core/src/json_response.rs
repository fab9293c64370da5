//! The body of a REST predict answer: the same form as the request, whole floats with `.0`, `NaN` and infinities bare.
//! Comes from a finished batch's outputs and a request's rows; goes to the REST endpoint.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::column::Column;
use crate::dtype::DType;
use crate::half;
use crate::json_request::Form;
use crate::status::Status;
use crate::tensor_slice::Slice;

/// One output with its name.
pub type Named<'a> = (&'a str, Slice<'a>);

/// Writes the whole body. Rows must be as many in each output, in TensorFlow Serving's words.
pub fn encode(outputs: &[Named<'_>], form: Form) -> Result<Vec<u8>, Status> {
    let elements: usize = outputs.iter().map(|(_, slice)| slice.rows * slice.inner.iter().product::<usize>()).sum();
    let mut out = Vec::with_capacity(32 + 12 * elements + 16 * outputs.len());
    match form {
        Form::Row if outputs.iter().any(|(_, slice)| slice.whole) => rows(&mut out, &by_row(outputs)?),
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
            write_object(out, outputs, |out, name, slice| write_row(out, name, slice, row));
        });
    }
    out.push(b'}');
}

fn columns(out: &mut Vec<u8>, outputs: &[Named<'_>]) {
    out.extend_from_slice(b"{\"outputs\":");
    match outputs {
        [(name, slice)] => write_tensor(out, name, slice),
        _ => write_object(out, outputs, write_tensor),
    }
    out.push(b'}');
}

fn write_tensor(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>) {
    if slice.whole {
        return write_row(out, name, slice, 0);
    }
    write_list(out, slice.rows, |out, row| write_row(out, name, slice, row));
}

pub(crate) fn write_list(out: &mut Vec<u8>, count: usize, mut item: impl FnMut(&mut Vec<u8>, usize)) {
    out.push(b'[');
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        item(out, index);
    }
    out.push(b']');
}

fn write_object(out: &mut Vec<u8>, outputs: &[Named<'_>], mut member: impl FnMut(&mut Vec<u8>, &str, &Slice<'_>)) {
    out.push(b'{');
    for (index, (name, slice)) in outputs.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, name);
        out.push(b':');
        member(out, name, slice);
    }
    out.push(b'}');
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
    let mut wide = [0u8; 8];
    wide[..size].copy_from_slice(&words.as_bytes()[index * size..(index + 1) * size]);
    let bits = u64::from_le_bytes(wide);
    let mut digits = itoa::Buffer::new();
    let text = match slice.dtype {
        DType::Float32 => return write_float(out, f32::from_bits(bits as u32)),
        DType::Float64 => return write_double(out, f64::from_bits(bits)),
        DType::Float16 => return write_float(out, half::to_f32(bits as u16)),
        DType::Bool => ["false", "true"][usize::from(bits != 0)],
        DType::Int8 => digits.format(bits as i8),
        DType::Int16 => digits.format(bits as i16),
        DType::Int32 => digits.format(bits as i32),
        DType::Int64 => digits.format(bits as i64),
        _ => digits.format(bits),
    };
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn write_float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        write_not_finite(out, f64::from(value));
    }
}

fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        write_not_finite(out, value);
    }
}

fn write_not_finite(out: &mut Vec<u8>, value: f64) {
    let text: &[u8] = match value {
        nan if nan.is_nan() => b"NaN",
        positive if positive > 0.0 => b"Infinity",
        _ => b"-Infinity",
    };
    out.extend_from_slice(text);
}

/// Outputs named `..._bytes` and bytes that are no UTF-8 go as base64 objects, as nothing else can carry them.
pub(crate) fn write_string(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(text) if !name.ends_with("_bytes") => write_text(out, text),
        _ => {
            out.extend_from_slice(b"{\"b64\":\"");
            out.extend_from_slice(STANDARD.encode(value).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Writes a JSON string with its quotes.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// The body of an error.
pub fn error_body(message: &str) -> Vec<u8> {
    let mut out = b"{\"error\":".to_vec();
    write_text(&mut out, message);
    out.push(b'}');
    out
}
