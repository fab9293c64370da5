//! The answer to a `generate` request, as Triton has it: one object with the model, its version and the outputs by name.

use crate::json::predict_response::{Named, write_number};
use crate::json::text::{write_list, write_string, write_text};
use crate::tensors::{Column, Slice};

/// Writes the object: one element as it is, more of them as a flat list.
pub fn encode(model: &str, version: i64, outputs: &[Named<'_>]) -> Vec<u8> {
    let mut out = b"{\"model_name\":".to_vec();
    write_text(&mut out, model);
    out.extend_from_slice(format!(",\"model_version\":\"{version}\"").as_bytes());
    for (name, slice) in outputs {
        out.push(b',');
        write_text(&mut out, name);
        out.push(b':');
        write_values(&mut out, name, slice);
    }
    out.push(b'}');
    out
}

fn write_values(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>) {
    if let Column::Strings(_) = slice.column {
        let strings: Vec<&[u8]> = slice.strings().collect();
        return match strings[..] {
            [only] => write_string(out, name, only),
            _ => write_list(out, strings.len(), |out, index| write_string(out, name, strings[index])),
        };
    }
    let (raw, size) = (slice.raw(), slice.dtype.size());
    if raw.len() == size {
        return write_number(out, slice.dtype, raw);
    }
    write_list(out, raw.len() / size, |out, index| write_number(out, slice.dtype, &raw[index * size..][..size]));
}
