//! Writes JSON: lists, objects, strings, floats (`1.0`, `NaN`, `Infinity`), and the body of an error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Writes a list of `count` items.
#[inline]
pub fn write_list(out: &mut Vec<u8>, count: usize, item: impl FnMut(&mut Vec<u8>, usize)) {
    write_between(out, b"[]", count, item);
}

/// Writes an object; `member` writes one key, colon and value.
#[inline]
pub fn write_object<T>(out: &mut Vec<u8>, items: &[T], member: impl Fn(&mut Vec<u8>, &T)) {
    write_between(out, b"{}", items.len(), |out, index| member(out, &items[index]));
}

#[inline]
fn write_between(out: &mut Vec<u8>, ends: &[u8; 2], count: usize, mut item: impl FnMut(&mut Vec<u8>, usize)) {
    out.push(ends[0]);
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        item(out, index);
    }
    out.push(ends[1]);
}

/// Writes a number in single precision.
pub fn write_float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        write_not_finite(out, f64::from(value));
    }
}

/// Writes a number in double precision.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
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
pub fn write_string(out: &mut Vec<u8>, name: &str, value: &[u8]) {
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
    detailed_error_body(message, None)
}

/// The same with a list of errors, which is JSON.
pub fn detailed_error_body(message: &str, errors: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"error\":".to_vec();
    write_text(&mut out, message);
    if let Some(errors) = errors {
        out.extend_from_slice(b",\"errors\":");
        out.extend_from_slice(errors.as_bytes());
    }
    out.push(b'}');
    out
}
