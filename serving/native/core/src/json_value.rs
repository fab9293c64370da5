//! One JSON value, or nested lists of them, appended to a column as its dtype demands.
//! The row and column decoders call it for each input; it remembers the dimensions that the first row had.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::column::{Column, Words};
use crate::dtype::{DType, tensorflow_type};
use crate::half;
use crate::json_explain;
use crate::json_number::Number;
use crate::json_scan::Scanner;
use crate::signature::TensorSpec;
use crate::status::Status;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// What the rows of one input have in common so far.
#[derive(Debug, Default)]
pub struct RowShape {
    dims: Vec<Option<usize>>,
    rows: usize,
    /// Whether the first row decides if there are lists.
    may_be_flat: bool,
    flat: bool,
    /// Whether the first row decides how deep they are nested.
    any_rank: bool,
}

impl RowShape {
    /// The dimensions that the signature fixes for one row of a tensor.
    pub fn of_row(spec: &TensorSpec) -> RowShape {
        let inner = if spec.is_free() { spec.shape.get(1..).unwrap_or(&[]) } else { spec.inner() };
        RowShape { may_be_flat: spec.may_be_flat(), ..RowShape::new(spec, inner) }
    }

    /// Those of a whole tensor that counts as one row.
    pub fn of_whole(spec: &TensorSpec) -> RowShape {
        RowShape::new(spec, &spec.shape)
    }

    fn new(spec: &TensorSpec, dims: &[i64]) -> RowShape {
        let dims = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
        RowShape { dims, any_rank: spec.admits_any_rank(), ..RowShape::default() }
    }

    /// Rows read so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the rows are bare elements where the signature has lists of one.
    pub fn is_flat(&self) -> bool {
        self.flat
    }

    /// All dimensions; 0 where no list was seen.
    pub fn dims(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.unwrap_or(0)).collect()
    }
}

/// Appends one row.
#[inline]
pub fn read_row(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    shape: &mut RowShape,
) -> Result<(), Status> {
    let start = *scanner;
    let first = shape.rows == 0;
    if first && shape.may_be_flat {
        shape.flat = scanner.peek() != b'[';
    }
    if first && shape.any_rank {
        shape.dims = vec![None; json_explain::nesting(scanner)?];
    }
    shape.rows += 1;
    let dims = if shape.flat { &mut [][..] } else { &mut shape.dims };
    read_level(scanner, spec, column, dims, 0).map_err(|why| {
        let before = if shape.flat { Vec::new() } else { shape.dims() };
        explain(why, &start, spec, (!first).then_some(&before))
    })
}

/// TensorFlow Serving's own complaint about a row, where it has one; `before` are the dimensions of earlier rows.
#[cold]
fn explain(why: Status, row: &Scanner<'_>, spec: &TensorSpec, before: Option<&Vec<usize>>) -> Status {
    match (json_explain::complaint(row, spec), before) {
        (Err(theirs), _) => theirs,
        (Ok(dims), Some(before)) if dims != *before => json_explain::unlike(before, &dims),
        _ => why,
    }
}

fn read_level(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    dims: &mut [Option<usize>],
    level: usize,
) -> Result<(), Status> {
    if level == dims.len() {
        return read_scalar(scanner, spec, column, level);
    }
    if scanner.peek() != b'[' {
        return Err(json_explain::wrong_level(scanner, level, dims.len()));
    }
    scanner.eat(b'[');
    let mut count = 0;
    while scanner.more(b']', count == 0)? {
        if dims[level].is_some_and(|wanted| count >= wanted) {
            // Only counted, for the message.
            scanner.skip()?;
        } else if level + 1 == dims.len() {
            read_scalar(scanner, spec, column, level + 1)?;
        } else {
            read_level(scanner, spec, column, dims, level + 1)?;
        }
        count += 1;
    }
    match dims[level] {
        Some(wanted) if wanted != count => Err(json_explain::wrong_size(count, level, wanted)),
        _ => {
            dims[level] = Some(count);
            Ok(())
        }
    }
}

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
        b'-' | b'0'..=b'9' | b'N' | b'I' => {
            let start = *scanner;
            let number = scanner.number()?;
            push_number(rounded(number, spec.dtype), spec.dtype, words)
                .ok_or_else(|| wrong_number(number, spec.dtype, start))
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

#[cold]
fn wrong_type(mut scanner: Scanner<'_>, wanted: &str, level: usize) -> Status {
    if scanner.peek() == b'[' {
        return Status::invalid(format!("Encountered list at unexpected level: {level} expected < {level}"));
    }
    if let Err(malformed) = { scanner }.skip() {
        return malformed;
    }
    let (value, kind) = (scanner.show_value(), scanner.kind());
    Status::invalid(format!("JSON Value: {value} Type: {kind} is not of expected type: {wanted}"))
}

#[cold]
fn wrong_number(number: Number, dtype: DType, scanner: Scanner<'_>) -> Status {
    let value = scanner.show_value();
    let whole = !matches!(number, Number::Float(_));
    let narrow = matches!(dtype, DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16);
    let float = matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    if !(float || narrow && whole) {
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

/// A whole number for a float as the float next to it, as TensorFlow Serving takes it.
#[inline]
fn rounded(number: Number, dtype: DType) -> Number {
    match (number, dtype) {
        (Number::Unsigned(value), DType::Float16 | DType::Float32 | DType::Float64) => Number::Float(value as f64),
        (Number::Signed(value), DType::Float16 | DType::Float32 | DType::Float64) => Number::Float(value as f64),
        _ => number,
    }
}

/// Appends a number if the type can hold it. A float takes whole numbers only while they are exact in it.
#[inline]
pub(crate) fn push_number(number: Number, dtype: DType, words: &mut Words) -> Option<()> {
    match dtype {
        DType::Float32 => {
            let value = fit_float(number, 1 << 24, f64::from(f32::MAX))?;
            words.push(&(value as f32).to_le_bytes());
        }
        DType::Float64 => words.push(&fit_float(number, 1 << 53, f64::MAX)?.to_le_bytes()),
        DType::Float16 => {
            let value = fit_float(number, 1 << 11, f64::from(half::LARGEST))?;
            words.push(&half::from_f32(value as f32).to_le_bytes());
        }
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 => {
            let value = match number {
                Number::Unsigned(value) => i64::try_from(value).ok()?,
                Number::Signed(value) => value,
                Number::Float(_) => return None,
            };
            let size = dtype.size();
            let unused = 64 - 8 * size as u32;
            if (value << unused) >> unused != value {
                return None;
            }
            words.push(&value.to_le_bytes()[..size]);
        }
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => {
            let value = match number {
                Number::Unsigned(value) => value,
                Number::Signed(0) => 0,
                _ => return None,
            };
            let size = dtype.size();
            if size < 8 && value >> (8 * size) != 0 {
                return None;
            }
            words.push(&value.to_le_bytes()[..size]);
        }
        DType::Bool | DType::String => return None,
    }
    Some(())
}

#[inline]
fn fit_float(number: Number, exact: u64, largest: f64) -> Option<f64> {
    match number {
        Number::Unsigned(value) => (value <= exact).then_some(value as f64),
        Number::Signed(value) => (value.unsigned_abs() <= exact).then_some(value as f64),
        Number::Float(value) => (!value.is_finite() || value.abs() <= largest).then_some(value),
    }
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
    let before = out.len();
    if BASE64.decode_vec(encoded, out).is_err() {
        out.truncate(before);
        BASE64_URL.decode_vec(encoded, out).map_err(|_| Status::invalid("Unable to base64 decode"))?;
    }
    Ok(())
}

/// Whether the next value is an object that stands for a base64 string.
pub fn is_base64(scanner: &Scanner<'_>) -> bool {
    let mut ahead = *scanner;
    let mut key = Vec::new();
    ahead.eat(b'{') && ahead.peek() == b'"' && matches!(ahead.key(&mut key), Ok(b"b64")) && ahead.peek() == b'"'
}
