//! One JSON value that stands for one element: a number, a truth value, a string or a base64 object.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::dtype::{DType, tensorflow_type};
use crate::json::scanner::Scanner;
use crate::signatures::TensorSpec;
use crate::status::{Code, Status};
use crate::tensors::{Column, Number, push_number};

/// As TensorFlow Serving's library, which asks neither for padding nor for zeros in the bits behind the last byte.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

#[inline]
pub(crate) fn read_scalar(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    level: usize,
) -> Result<(), Status> {
    let words = match column {
        Column::Raw(words) => words,
        Column::Strings(strings) => return strings.push_with(|out| read_string(scanner, level, out)),
    };
    match scanner.peek() {
        next if !spec.dtype.has_json() && next != b'[' && next != b'{' => Err(no_json(*scanner, spec.dtype)),
        b'-' | b'0'..=b'9' | b'N' | b'I' => {
            let start = *scanner;
            let number = scanner.number()?;
            match spec.dtype {
                // As TensorFlow Serving takes them: the nearest float, infinity beyond the largest.
                DType::Float32 => words.push(&(number.as_f64() as f32).to_le_bytes()),
                DType::Float64 => words.push(&number.as_f64().to_le_bytes()),
                dtype => push_number(number, dtype, words).ok_or_else(|| wrong_number(number, dtype, start))?,
            }
            Ok(())
        }
        b't' | b'f' if spec.dtype == DType::Bool => {
            let truth = scanner.word(b"true");
            if !truth && !scanner.word(b"false") {
                return Err(scanner.error("Invalid value."));
            }
            words.push(&[u8::from(truth)]);
            Ok(())
        }
        _ => Err(wrong_type(*scanner, tensorflow_type(spec.dtype), level)),
    }
}

/// Reads the floats that follow one in its list, at most so many, as `read_scalar` would. Returns how many there were.
#[inline]
pub(crate) fn read_floats(scanner: &mut Scanner<'_>, dtype: DType, column: &mut Column, most: usize) -> usize {
    match (dtype, column) {
        (DType::Float32, Column::Raw(words)) => {
            scanner.more_numbers(most, |value| words.push(&(value as f32).to_le_bytes()))
        }
        (DType::Float64, Column::Raw(words)) => scanner.more_numbers(most, |value| words.push(&value.to_le_bytes())),
        _ => 0,
    }
}

#[cold]
fn wrong_type(mut scanner: Scanner<'_>, wanted: &str, level: usize) -> Status {
    if scanner.peek() == b'[' {
        return Status::invalid(format!("Encountered list at unexpected level: {level} expected < {level}"));
    }
    if let Err(malformed) = { scanner }.skip() {
        return malformed;
    }
    let (value, kind) = (scanner.show_value(), scanner.kind());
    let cure = match kind {
        "Null" if matches!(wanted, "float" | "double") => "; send NaN for a number that is missing",
        "Null" => "; null stands for no value of this type: send one",
        _ => "",
    };
    Status::invalid(format!("JSON Value: {value} Type: {kind} is not of expected type: {wanted}{cure}"))
}

/// TensorFlow Serving has no JSON for this type.
#[cold]
fn no_json(mut scanner: Scanner<'_>, dtype: DType) -> Status {
    if let Err(malformed) = { scanner }.skip() {
        return malformed;
    }
    scanner.peek();
    let text = format!("Conversion of JSON Value: {} to type: {}", scanner.show_value(), tensorflow_type(dtype));
    Status::new(Code::Unimplemented, text)
}

#[cold]
fn wrong_number(number: Number, dtype: DType, scanner: Scanner<'_>) -> Status {
    let value = scanner.show_value();
    let whole = !matches!(number, Number::Float(_));
    let narrow = matches!(dtype, DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16);
    if !(narrow && whole) {
        return Status::invalid(format!(
            "JSON Value: {value} Type: Number is not of expected type: {}",
            tensorflow_type(dtype)
        ));
    }
    Status::invalid(format!(
        "Cannot convert JSON value: {value} to {} without loss of precision.",
        tensorflow_type(dtype)
    ))
}

fn read_string(scanner: &mut Scanner<'_>, level: usize, out: &mut Vec<u8>) -> Result<(), Status> {
    match scanner.peek() {
        b'"' => scanner.string_into(out),
        b'{' => read_base64(scanner, out),
        _ => Err(wrong_type(*scanner, "string", level)),
    }
}

/// Reads `{"b64": "..."}`, an object with only that key.
pub(crate) fn read_base64(scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
    let start = *scanner;
    let malformed = || {
        let value = start.show_value();
        Status::invalid(format!("JSON Value: {value} not formatted correctly for base64 data"))
    };
    scanner.eat(b'{');
    let (mut key, mut text) = (Vec::new(), Vec::new());
    if !scanner.more(b'}', true)? || scanner.key(&mut key)? != b"b64" || scanner.peek() != b'"' {
        return Err(malformed());
    }
    let encoded = scanner.string(&mut text)?;
    if scanner.more(b'}', false)? {
        return Err(malformed());
    }
    if decode(encoded, out) {
        return Ok(());
    }
    // Programs that break lines after 76 letters are as old as mail.
    let bare: Vec<u8> = encoded.iter().copied().filter(|letter| !letter.is_ascii_whitespace()).collect();
    if bare.len() < encoded.len() && decode(&bare, out) {
        return Ok(());
    }
    Err(Status::invalid("Unable to base64 decode"))
}

/// Appends what is meant, in either alphabet. False where that is nothing, and then nothing is appended.
fn decode(encoded: &[u8], out: &mut Vec<u8>) -> bool {
    let before = out.len();
    for alphabet in [BASE64, BASE64_URL] {
        if alphabet.decode_vec(encoded, out).is_ok() {
            return true;
        }
        out.truncate(before);
    }
    false
}

/// Whether the next value is an object that stands for a base64 string.
pub fn is_base64(scanner: &Scanner<'_>) -> bool {
    let mut ahead = *scanner;
    let mut key = Vec::new();
    ahead.eat(b'{') && ahead.peek() == b'"' && matches!(ahead.key(&mut key), Ok(b"b64")) && ahead.peek() == b'"'
}
