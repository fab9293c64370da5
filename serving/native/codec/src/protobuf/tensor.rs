//! TensorFlow's `TensorProto`: read into a column, and written from a slice of one.

use crate::dtype::{self, BFLOAT16, DType};
use crate::protobuf::string_list;
use crate::protobuf::wire::{self, Field, Reader, Value};
use crate::signatures::{InputShape, Signature, TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::{Column, Lender, Room, Slice, Strings, Words};

const MESSAGE: &str = "TensorProto";
/// `TensorProto` field numbers.
pub mod field {
    #![allow(missing_docs)]
    pub const DTYPE: u32 = 1;
    pub const TENSOR_SHAPE: u32 = 2;
    pub const TENSOR_CONTENT: u32 = 4;
    pub const FLOAT_VAL: u32 = 5;
    pub const DOUBLE_VAL: u32 = 6;
    pub const INT_VAL: u32 = 7;
    pub const STRING_VAL: u32 = 8;
    pub const SCOMPLEX_VAL: u32 = 9;
    pub const INT64_VAL: u32 = 10;
    pub const BOOL_VAL: u32 = 11;
    pub const DCOMPLEX_VAL: u32 = 12;
    pub const HALF_VAL: u32 = 13;
    pub const UINT32_VAL: u32 = 16;
    pub const UINT64_VAL: u32 = 17;
}

/// The repeated field that holds values of a type.
pub fn value_field(dtype: DType) -> u32 {
    match dtype {
        DType::Float32 => field::FLOAT_VAL,
        DType::Float64 => field::DOUBLE_VAL,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::UInt8 | DType::UInt16 => field::INT_VAL,
        DType::String => field::STRING_VAL,
        DType::Int64 => field::INT64_VAL,
        DType::Bool => field::BOOL_VAL,
        DType::Float16 => field::HALF_VAL,
        DType::UInt32 => field::UINT32_VAL,
        DType::UInt64 => field::UINT64_VAL,
        DType::Complex64 => field::SCOMPLEX_VAL,
        DType::Complex128 => field::DCOMPLEX_VAL,
    }
}

fn value_field_name(dtype: DType) -> &'static str {
    match value_field(dtype) {
        field::FLOAT_VAL => "float_val",
        field::DOUBLE_VAL => "double_val",
        field::INT_VAL => "int_val",
        field::STRING_VAL => "string_val",
        field::INT64_VAL => "int64_val",
        field::BOOL_VAL => "bool_val",
        field::HALF_VAL => "half_val",
        field::SCOMPLEX_VAL => "scomplex_val",
        field::DCOMPLEX_VAL => "dcomplex_val",
        field::UINT32_VAL => "uint32_val",
        _ => "uint64_val",
    }
}

/// Tensors of at most this many bytes are counted once they are decoded.
const UNTAKEN: usize = 4 << 10;

/// Most dimensions that a tensor may have, as in TensorFlow.
const MAX_RANK: usize = 254;

/// The parts of a tensor message that are known before its values are read.
struct View<'a> {
    dtype: u64,
    shape: Vec<usize>,
    content: &'a [u8],
    message: &'a [u8],
}

fn view<'a>(message: &'a [u8], spec: &TensorSpec) -> Result<View<'a>, Status> {
    let mut view = View { dtype: 0, shape: Vec::new(), content: &[], message };
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            field::DTYPE => view.dtype = found.varint(MESSAGE)?,
            field::TENSOR_SHAPE => read_shape(found.bytes("TensorShapeProto")?, spec, &mut view.shape)?,
            field::TENSOR_CONTENT => view.content = found.bytes(MESSAGE)?,
            _ => {}
        }
    }
    Ok(view)
}

fn read_shape(message: &[u8], spec: &TensorSpec, shape: &mut Vec<usize>) -> Result<(), Status> {
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            2 => {
                let mut size = 0i64;
                let mut dim = Reader::new(found.bytes("TensorShapeProto.Dim")?);
                while let Some(part) = dim.next_field()? {
                    if part.number == 1 {
                        size = part.varint("TensorShapeProto.Dim")? as i64;
                    }
                }
                let size = usize::try_from(size)
                    .map_err(|_| no_tensor(spec, &format!("dimension {} has size {size}", shape.len())))?;
                shape.push(size);
            }
            3 if found.varint("TensorShapeProto")? != 0 => {
                return Err(no_tensor(spec, "its shape has unknown_rank, send its dimensions"));
            }
            _ => {}
        }
        if shape.len() > MAX_RANK {
            return Err(no_tensor(spec, &format!("it has more than {MAX_RANK} dimensions")));
        }
    }
    Ok(())
}

/// Appends a tensor message to the column of its input.
///
/// Too few values are followed by the last one again, none at all by zeros or empty strings, as TensorFlow does.
/// `max_bytes` bounds what a short message with one repeated value may grow to, and all of it is taken from `room` before
/// it is filled. On error the column may hold a part of the tensor: the caller truncates it. `lender` is the message that
/// `message` is a part of. Where floats are asked for, bfloat16 is taken too: each is a float without its lower half.
pub fn read(
    message: &[u8],
    signature: &Signature,
    index: usize,
    column: &mut Column,
    max_bytes: usize,
    (room, lender): (&mut dyn Room, Lender<'_>),
) -> Result<InputShape, Status> {
    let spec = &signature.inputs[index];
    let view = view(message, spec)?;
    let halves = view.dtype == BFLOAT16 && spec.dtype == DType::Float32;
    if view.dtype != spec.dtype.tensorflow() && !halves {
        return Err(wrong_dtype(view.dtype, signature, index));
    }
    let found = InputShape::of_shape(spec, &view.shape).ok_or_else(|| wrong_shape(&view.shape, spec))?;
    let elements = view.shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let element_size = if spec.dtype == DType::String { size_of::<u64>() } else { spec.dtype.size() };
    let bytes = elements.and_then(|count| count.checked_mul(element_size));
    let elements = match (elements, bytes) {
        (Some(elements), Some(bytes)) if bytes <= max_bytes => elements,
        _ => {
            return Err(Status::exhausted(format!(
                "input '{}' of shape {} would take more than the limit of {max_bytes} bytes",
                spec.name,
                show_shape(&view.shape)
            )));
        }
    };
    if elements * element_size > UNTAKEN {
        room.take(elements * element_size)?;
    }
    match column {
        Column::Raw(words) if halves => fill_from_bfloat16(&view, spec, words, elements)?,
        column => fill(&view, spec, column, elements, (room, lender))?,
    }
    Ok(found)
}

/// TensorFlow's words for what makes no tensor, and why.
#[cold]
fn no_tensor(spec: &TensorSpec, why: &str) -> Status {
    Status::invalid(format!("tensor parsing error: {}: {why}", spec.name))
}

#[cold]
fn wrong_dtype(sent: u64, signature: &Signature, index: usize) -> Status {
    match dtype::tensorflow_name(sent) {
        Some(name) => signature.wrong_dtype(index, name),
        None => {
            let spec = &signature.inputs[index];
            no_tensor(spec, &format!("dtype is {sent}, send {}", dtype::tensorflow_constant(spec.dtype)))
        }
    }
}

#[cold]
fn wrong_shape(sent: &[usize], spec: &TensorSpec) -> Status {
    let rank = if sent.is_empty() && !spec.is_free() {
        "Batching Run() input tensors must have at least one dimension: "
    } else {
        ""
    };
    let (sent, want, name) = (show_shape(sent), spec.show(), &spec.name);
    Status::invalid(format!("{rank}input '{name}' has shape {sent}, but the signature expects {want}"))
}

fn fill(
    view: &View<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    elements: usize,
    (room, lender): (&mut dyn Room, Lender<'_>),
) -> Result<(), Status> {
    match column {
        Column::Raw(words) if !view.content.is_empty() => {
            let size = elements * spec.dtype.size();
            check_content(view, spec, spec.dtype.name(), size)?;
            if spec.dtype == DType::Bool {
                words.grow(size).iter_mut().zip(view.content).for_each(|(to, from)| *to = u8::from(*from != 0));
            } else {
                lender.put(view.content, words);
            }
            Ok(())
        }
        Column::Raw(words) => fill_numbers(view, spec, words, elements),
        Column::Strings(strings) if !view.content.is_empty() => string_list::read(view.content, elements, strings)
            .ok_or_else(|| no_tensor(spec, &format!("tensor_content does not hold {elements} strings"))),
        Column::Strings(strings) => fill_strings(view, spec, strings, elements, room),
    }
}

fn check_content(view: &View<'_>, spec: &TensorSpec, dtype: &str, size: usize) -> Result<(), Status> {
    if view.content.len() == size {
        return Ok(());
    }
    let (bytes, shape) = (view.content.len(), show_shape(&view.shape));
    Err(no_tensor(spec, &format!("{bytes} bytes of tensor_content, but shape {shape} of {dtype} needs {size}")))
}

fn fill_from_bfloat16(view: &View<'_>, spec: &TensorSpec, words: &mut Words, elements: usize) -> Result<(), Status> {
    let mut typed = Words::default();
    let halves = if view.content.is_empty() {
        let bits = TensorSpec { dtype: DType::Float16, ..spec.clone() };
        fill_numbers(view, &bits, &mut typed, elements)?;
        typed.as_bytes()
    } else {
        check_content(view, spec, "bfloat16", elements * 2)?;
        view.content
    };
    words.push_bfloat16(halves);
    Ok(())
}

#[cold]
fn half_a_number(spec: &TensorSpec) -> Status {
    let field = value_field_name(spec.dtype);
    no_tensor(spec, &format!("a number in {field} has no imaginary part, send both parts of each"))
}

fn wrong_count(spec: &TensorSpec, shape: &[usize], count: usize, elements: usize) -> Status {
    Status::invalid(format!(
        "input '{}' has {count} values in {}, but shape {} needs {elements} (or fewer, the last one filling the rest)",
        spec.name,
        value_field_name(spec.dtype),
        show_shape(shape)
    ))
}

fn fill_strings(
    view: &View<'_>,
    spec: &TensorSpec,
    strings: &mut Strings,
    elements: usize,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let before = strings.len();
    let mut reader = Reader::new(view.message);
    let mut last: &[u8] = &[];
    while let Some(found) = reader.next_field()? {
        if found.number == field::STRING_VAL {
            last = found.bytes(MESSAGE)?;
            if strings.len() - before == elements {
                return Err(wrong_count(spec, &view.shape, elements + 1, elements));
            }
            strings.push(last);
        }
    }
    let count = strings.len() - before;
    if last.len().saturating_mul(elements - count) > MAX_STRING_FILL {
        return Err(Status::exhausted(format!("input '{}' repeats a long string too often: send the rows", spec.name)));
    }
    if count < elements {
        room.take(last.len() * (elements - count))?;
    }
    for _ in count..elements {
        strings.push(last);
    }
    Ok(())
}

/// Most bytes that filling with the last string may add.
const MAX_STRING_FILL: usize = 64 << 20;

fn fill_numbers(view: &View<'_>, spec: &TensorSpec, words: &mut Words, elements: usize) -> Result<(), Status> {
    let (before, size) = (words.len(), spec.dtype.size());
    let limit = before + elements * size;
    let wanted = value_field(spec.dtype);
    let mut reader = Reader::new(view.message);
    while let Some(found) = reader.next_field()? {
        if found.number == wanted {
            push_values(&found, MESSAGE, spec, words, limit)
                .map_err(|why| why.unwrap_or_else(|| wrong_count(spec, &view.shape, elements + 1, elements)))?;
        }
    }
    if !(words.len() - before).is_multiple_of(size) {
        return Err(half_a_number(spec));
    }
    let count = (words.len() - before) / size;
    if count == 0 {
        words.grow_zeros(elements * size);
    } else if count < elements {
        let mut last = [0u8; 16];
        last[..size].copy_from_slice(&words.as_bytes()[words.len() - size..]);
        words.grow((elements - count) * size).chunks_exact_mut(size).for_each(|to| to.copy_from_slice(&last[..size]));
    }
    Ok(())
}

/// Appends one occurrence of a field of a message, packed or not; `Err(None)` says that there are too many values.
pub(crate) fn push_values(
    found: &Field<'_>,
    message: &str,
    spec: &TensorSpec,
    words: &mut Words,
    limit: usize,
) -> Result<(), Option<Status>> {
    let fits = |words: &Words, more: usize| if words.len() + more > limit { Err(None) } else { Ok(()) };
    let (floats, size) = match spec.dtype {
        // A real and an imaginary part, each a value of its own.
        DType::Complex64 | DType::Complex128 => (true, spec.dtype.size() / 2),
        dtype => (matches!(dtype, DType::Float32 | DType::Float64), dtype.size()),
    };
    match found.value {
        Value::Bytes(packed) if floats => {
            if packed.len() % size != 0 {
                return Err(Some(Status::invalid("malformed protobuf: a packed field ends in the middle of a value")));
            }
            fits(words, packed.len())?;
            words.push(packed);
        }
        Value::Fixed32(one) | Value::Fixed64(one) if floats && one.len() == size => {
            fits(words, size)?;
            words.push(one);
        }
        Value::Bytes(packed) if !floats => {
            let mut values = Reader::new(packed);
            while let Some(value) = values.next_varint().map_err(Some)? {
                fits(words, size)?;
                push_integer(value, spec, words).map_err(Some)?;
            }
        }
        Value::Varint(value) if !floats => {
            fits(words, size)?;
            push_integer(value, spec, words).map_err(Some)?;
        }
        _ => {
            let number = found.number;
            return Err(Some(Status::invalid(format!(
                "malformed protobuf: {message} field {number} has the wrong wire type"
            ))));
        }
    }
    Ok(())
}

#[inline]
fn push_integer(value: u64, spec: &TensorSpec, words: &mut Words) -> Result<(), Status> {
    let signed = value as i64;
    let (low, high) = match spec.dtype {
        DType::Int8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::UInt8 => (0, i64::from(u8::MAX)),
        DType::UInt16 | DType::Float16 => (0, i64::from(u16::MAX)),
        DType::UInt32 => (0, i64::from(u32::MAX)),
        DType::Bool => {
            words.push(&[u8::from(value != 0)]);
            return Ok(());
        }
        _ => {
            words.push(&value.to_le_bytes());
            return Ok(());
        }
    };
    if signed < low || signed > high {
        return Err(Status::invalid(format!(
            "input '{}' has value {signed}, which does not fit its dtype {}",
            spec.name,
            spec.dtype.name()
        )));
    }
    words.push(&value.to_le_bytes()[..spec.dtype.size()]);
    Ok(())
}

/// Widens element `raw`, of a non-float type, to the varint that its value field holds.
pub(crate) fn element_varint(dtype: DType, raw: &[u8]) -> u64 {
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

/// How the numbers of a tensor are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// In the value field of their type, as TensorFlow Serving answers.
    #[default]
    InFields,
    /// As they lie in memory, in `tensor_content`, as it does where `enable_serialization_as_tensor_content` is set.
    AsContent,
}

/// Appends a `TensorProto`; strings are in the value field of their type in any case.
pub fn write(out: &mut Vec<u8>, slice: &Slice<'_>, numbers: Numbers) {
    wire::put_uint(out, field::DTYPE, slice.dtype.tensorflow());
    write_shape(out, slice);
    let number = value_field(slice.dtype);
    match slice.dtype {
        dtype if numbers == Numbers::AsContent && dtype != DType::String => {
            wire::put_bytes(out, field::TENSOR_CONTENT, slice.raw());
        }
        DType::String => slice.strings().for_each(|value| wire::put_bytes(out, number, value)),
        dtype if is_copied(dtype) => wire::put_bytes(out, number, slice.raw()),
        _ => {
            wire::put_key(out, number, wire::BYTES);
            wire::put_varint(out, varints(slice).map(wire::varint_len).sum::<usize>() as u64);
            varints(slice).for_each(|value| wire::put_varint(out, value));
        }
    }
}

/// Bytes that `write` appends.
pub fn length(slice: &Slice<'_>, numbers: Numbers) -> usize {
    let number = value_field(slice.dtype);
    let values = match slice.dtype {
        dtype if numbers == Numbers::AsContent && dtype != DType::String => {
            wire::bytes_field_len(field::TENSOR_CONTENT, slice.raw().len())
        }
        DType::String => slice.strings().map(|value| wire::bytes_field_len(number, value.len())).sum(),
        dtype if is_copied(dtype) => wire::bytes_field_len(number, slice.raw().len()),
        _ => wire::bytes_field_len(number, varints(slice).map(wire::varint_len).sum()),
    };
    let dtype = 1 + wire::varint_len(slice.dtype.tensorflow());
    dtype + wire::bytes_field_len(field::TENSOR_SHAPE, shape_length(slice)) + values
}

/// Whether the value field has elements as they lie in memory.
fn is_copied(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64 | DType::Bool) || dtype.is_complex()
}

/// Elements of a type other than strings, floats, complex numbers and truth values.
fn varints<'a>(slice: &Slice<'a>) -> impl Iterator<Item = u64> + use<'a> {
    let dtype = slice.dtype;
    slice.raw().chunks_exact(dtype.size()).map(move |raw| element_varint(dtype, raw))
}

fn dim_length(size: usize) -> usize {
    1 + wire::varint_len(size as u64)
}

fn shape_length(slice: &Slice<'_>) -> usize {
    slice.dims().map(|size| wire::bytes_field_len(2, dim_length(size))).sum()
}

fn write_shape(out: &mut Vec<u8>, slice: &Slice<'_>) {
    wire::put_key(out, field::TENSOR_SHAPE, wire::BYTES);
    wire::put_varint(out, shape_length(slice) as u64);
    for size in slice.dims() {
        wire::put_key(out, 2, wire::BYTES);
        wire::put_varint(out, dim_length(size) as u64);
        wire::put_uint(out, 1, size as u64);
    }
}
