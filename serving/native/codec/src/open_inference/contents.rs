//! `InferTensorContents`: the values of one tensor in the field that its type has.

use crate::dtype::DType;
use crate::open_inference::datatype;
use crate::protobuf::tensor::{element_varint, push_values};
use crate::protobuf::wire::{self, Reader};
use crate::signatures::TensorSpec;
use crate::status::Status;
use crate::tensors::{Column, Room, Slice};

const CONTENTS: &str = "InferTensorContents";

/// The field of `InferTensorContents` for values of a type, with its name; halves have none.
fn value_field(dtype: DType) -> Option<(u32, &'static str)> {
    Some(match dtype {
        DType::Bool => (1, "bool_contents"),
        DType::Int8 | DType::Int16 | DType::Int32 => (2, "int_contents"),
        DType::Int64 => (3, "int64_contents"),
        DType::UInt8 | DType::UInt16 | DType::UInt32 => (4, "uint_contents"),
        DType::UInt64 => (5, "uint64_contents"),
        DType::Float32 => (6, "fp32_contents"),
        DType::Float64 => (7, "fp64_contents"),
        DType::String => (8, "bytes_contents"),
        DType::Float16 | DType::Complex64 | DType::Complex128 => return None,
    })
}

/// Whether it has a field for values of this type.
pub fn can_hold(dtype: DType) -> bool {
    value_field(dtype).is_some()
}

/// Appends the values of an `InferTensorContents`, which must be as many as the shape has.
pub fn read(
    contents: &[u8],
    spec: &TensorSpec,
    elements: usize,
    column: &mut Column,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let name = &spec.name;
    let Some((number, field)) = value_field(spec.dtype) else {
        let why = "contents have no field for FP16: send it in raw_input_contents";
        return Err(Status::invalid(format!("input '{name}': {why}")));
    };
    // Each value takes a byte or more.
    if elements > contents.len() {
        return Err(wrong_count(spec, field, "at most", contents.len(), elements));
    }
    let strings = if spec.dtype == DType::String { contents.len() + elements * size_of::<u64>() } else { 0 };
    room.take(strings.max(elements * spec.dtype.size()))?;
    let before = column.extent();
    let limit = before + elements * spec.dtype.size().max(1);
    let mut reader = Reader::new(contents);
    while let Some(found) = reader.next_field()? {
        if found.number != number {
            let dtype = datatype::name(spec.dtype);
            return Err(Status::invalid(format!(
                "input '{name}' has values in field {} of its contents: {dtype} belongs in {field}",
                found.number
            )));
        }
        let pushed = match column {
            Column::Strings(strings) if strings.len() < limit => {
                strings.push(found.bytes(CONTENTS)?);
                Ok(())
            }
            Column::Strings(_) => Err(None),
            Column::Raw(words) => push_values(&found, CONTENTS, spec, words, limit),
        };
        pushed.map_err(|why| why.unwrap_or_else(|| wrong_count(spec, field, "more than", elements, elements)))?;
    }
    let count = (column.extent() - before) / spec.dtype.size().max(1);
    if count == elements { Ok(()) } else { Err(wrong_count(spec, field, "only", count, elements)) }
}

#[cold]
fn wrong_count(spec: &TensorSpec, field: &str, word: &str, count: usize, elements: usize) -> Status {
    let name = &spec.name;
    Status::invalid(format!("input '{name}' has {word} {count} values in {field}, but its shape needs {elements}"))
}

/// The message for a request's rows of an output.
pub fn of(slice: &Slice<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let Some((number, _)) = value_field(slice.dtype) else { return out };
    match slice.dtype {
        DType::String => slice.strings().for_each(|value| wire::put_bytes(&mut out, number, value)),
        DType::Float32 | DType::Float64 | DType::Bool => wire::put_bytes(&mut out, number, slice.raw()),
        _ => {
            let values = || slice.raw().chunks_exact(slice.dtype.size()).map(|raw| element_varint(slice.dtype, raw));
            wire::put_key(&mut out, number, wire::BYTES);
            wire::put_varint(&mut out, values().map(wire::varint_len).sum::<usize>() as u64);
            values().for_each(|value| wire::put_varint(&mut out, value));
        }
    }
    out
}
