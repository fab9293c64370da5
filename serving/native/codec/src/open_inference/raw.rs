//! Elements as bytes: little-endian, row after row; byte strings each after its length in four bytes.

use crate::dtype::DType;
use crate::open_inference::datatype;
use crate::open_inference::shared_memory::OpenPlace;
use crate::signatures::{TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::{Column, Lender, Room, Slice, Strings, Words};

/// Bytes of the length before each byte string.
const LENGTH: usize = 4;

/// Appends the elements of a tensor of this shape.
pub fn read(
    bytes: &[u8],
    spec: &TensorSpec,
    shape: &[usize],
    elements: usize,
    column: &mut Column,
    (room, lender): (&mut dyn Room, Lender<'_>),
) -> Result<(), Status> {
    match column {
        Column::Strings(strings) => read_strings(bytes, spec, shape, elements, strings, room),
        Column::Raw(words) => {
            let wanted = elements * spec.dtype.size();
            check_size(bytes.len(), wanted, &spec.name, shape, datatype::name(spec.dtype))?;
            room.take(wanted)?;
            if spec.dtype == DType::Bool {
                words.grow(wanted).iter_mut().zip(bytes).for_each(|(to, from)| *to = u8::from(*from != 0));
            } else {
                lender.put(bytes, words);
            }
            Ok(())
        }
    }
}

/// The same of what is in shared memory, from where it is copied once.
pub fn read_shared(
    open: &OpenPlace,
    spec: &TensorSpec,
    shape: &[usize],
    elements: usize,
    column: &mut Column,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let sent = usize::try_from(open.place.size).unwrap_or(usize::MAX);
    match column {
        Column::Strings(strings) => {
            room.take(sent)?;
            let mut bytes = vec![0; sent];
            open.read(&mut bytes)?;
            read_strings(&bytes, spec, shape, elements, strings, room)
        }
        Column::Raw(words) => {
            let wanted = elements * spec.dtype.size();
            check_size(sent, wanted, &spec.name, shape, datatype::name(spec.dtype))?;
            room.take(wanted)?;
            let bytes = words.grow(wanted);
            open.read(bytes)?;
            if spec.dtype == DType::Bool {
                bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
            Ok(())
        }
    }
}

/// Appends floats that came as bfloat16, their upper halves.
pub fn read_bfloat16(
    halves: &[u8],
    name: &str,
    shape: &[usize],
    elements: usize,
    words: &mut Words,
    room: &mut dyn Room,
) -> Result<(), Status> {
    check_size(halves.len(), elements * 2, name, shape, datatype::BFLOAT16)?;
    room.take(elements * 4)?;
    words.push_bfloat16(halves);
    Ok(())
}

fn check_size(sent: usize, wanted: usize, name: &str, shape: &[usize], dtype: &str) -> Result<(), Status> {
    if sent == wanted {
        return Ok(());
    }
    Err(Status::invalid(format!(
        "input '{name}' has {sent} bytes, but shape {} of {dtype} needs {wanted}",
        show_shape(shape)
    )))
}

fn read_strings(
    mut bytes: &[u8],
    spec: &TensorSpec,
    shape: &[usize],
    elements: usize,
    strings: &mut Strings,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let wrong = |found: usize, why: &str| {
        Status::invalid(format!(
            "input '{}' has {found} byte strings{why}, but shape {} needs {elements}: send each after its length as four \
             bytes, little-endian",
            spec.name,
            show_shape(shape)
        ))
    };
    if elements > bytes.len() / LENGTH {
        return Err(wrong(bytes.len() / LENGTH, " at most"));
    }
    room.take(bytes.len() + elements * size_of::<u64>())?;
    for found in 0..elements {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Err(wrong(found, "")) };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((string, rest)) = rest.split_at_checked(length) else {
            return Err(wrong(found, " and one that ends too early"));
        };
        strings.push(string);
        bytes = rest;
    }
    if bytes.is_empty() { Ok(()) } else { Err(wrong(elements, " and more")) }
}

/// Bytes that a request's rows of an output take.
pub fn length(slice: &Slice<'_>) -> usize {
    match slice.dtype {
        DType::String => slice.strings().map(|string| LENGTH + string.len()).sum(),
        _ => slice.raw().len(),
    }
}

/// Appends them.
pub fn write(out: &mut Vec<u8>, slice: &Slice<'_>) {
    match slice.dtype {
        DType::String => slice.strings().for_each(|string| {
            out.extend_from_slice(&(string.len() as u32).to_le_bytes());
            out.extend_from_slice(string);
        }),
        _ => out.extend_from_slice(slice.raw()),
    }
}
