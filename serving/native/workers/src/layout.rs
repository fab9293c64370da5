//! What lies where in shared memory, in JSON: `[[name, dtype, shape, bytes, at], ...]`.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_codec::dtype::DType;
use tidegate_codec::json::scanner::Scanner;
use tidegate_codec::json::text::write_text;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Number, Tensor};

/// Tensors begin at multiples of this.
const ALIGNED: usize = 64;
/// Layouts that are kept, and the longest of them; a model's are few.
const KEPT: usize = 256;
const LONGEST_KEPT: usize = 4096;

/// A tensor to be written.
#[derive(Debug)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its element type.
    pub dtype: DType,
    /// Its shape, rows included.
    pub shape: Vec<usize>,
    /// Its elements.
    pub column: &'a Column,
}

/// Where one tensor lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its bytes, those of offsets included.
    pub size: usize,
    /// Where it begins.
    pub at: usize,
}

/// Where each tensor begins, and the bytes of all.
pub(crate) fn places(tensors: &[Named<'_>]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let starts = tensors.iter().map(|tensor| {
        let start = end;
        end += tensor.column.byte_size().next_multiple_of(ALIGNED);
        start
    });
    (starts.collect(), end)
}

/// Appends the layout of tensors that begin at `starts`.
pub(crate) fn write(out: &mut Vec<u8>, tensors: &[Named<'_>], starts: &[usize]) {
    out.push(b'[');
    for (index, (tensor, start)) in tensors.iter().zip(starts).enumerate() {
        out.extend_from_slice(if index == 0 { b"[" } else { b", [" });
        write_text(out, tensor.name);
        let (dtype, shape, size) = (tensor.dtype.name(), &tensor.shape, tensor.column.byte_size());
        out.extend_from_slice(format!(", \"{dtype}\", {shape:?}, {size}, {start}]").as_bytes());
    }
    out.push(b']');
}

/// Layouts that came before, which need not be read again.
#[derive(Debug, Default)]
pub(crate) struct Known(HashMap<Vec<u8>, Arc<[Place]>>);

impl Known {
    /// What a layout says.
    pub(crate) fn read(&mut self, layout: &[u8]) -> Result<Arc<[Place]>, Status> {
        if let Some(places) = self.0.get(layout) {
            return Ok(places.clone());
        }
        let places: Arc<[Place]> = read(layout)?.into();
        if layout.len() <= LONGEST_KEPT {
            if self.0.len() >= KEPT {
                self.0.clear();
            }
            self.0.insert(layout.to_vec(), places.clone());
        }
        Ok(places)
    }
}

fn read(layout: &[u8]) -> Result<Vec<Place>, Status> {
    let mut scanner = Scanner::new(layout);
    let mut found = Vec::new();
    open(&mut scanner, b'[')?;
    while scanner.more(b']', found.is_empty())? {
        found.push(read_place(&mut scanner)?);
    }
    scanner.end()?;
    Ok(found)
}

fn read_place(scanner: &mut Scanner<'_>) -> Result<Place, Status> {
    open(scanner, b'[')?;
    let name = text(scanner)?;
    open(scanner, b',')?;
    let dtype = text(scanner)?;
    open(scanner, b',')?;
    open(scanner, b'[')?;
    let mut shape = Vec::new();
    while scanner.more(b']', shape.is_empty())? {
        shape.push(count(scanner)?);
    }
    open(scanner, b',')?;
    let size = count(scanner)?;
    open(scanner, b',')?;
    let at = count(scanner)?;
    open(scanner, b']')?;
    let no_sense = |what: String| Status::invalid(format!("tensor '{name}' of a worker: {what}"));
    let dtype = DType::from_name(&dtype).ok_or_else(|| no_sense(format!("there is no dtype '{dtype}'")))?;
    let elements = shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    let wanted = elements.and_then(|elements| match dtype {
        DType::String => elements.checked_add(1)?.checked_mul(8),
        _ => elements.checked_mul(dtype.size()),
    });
    let fits = wanted.is_some_and(|wanted| if dtype == DType::String { size >= wanted } else { size == wanted });
    if !fits {
        return Err(no_sense(format!("{} of shape {shape:?} does not take {size} bytes", dtype.name())));
    }
    if at.checked_add(size).is_none() {
        return Err(no_sense(format!("{size} bytes at {at} lie outside the memory")));
    }
    Ok(Place { name, dtype, shape, size, at })
}

fn open(scanner: &mut Scanner<'_>, byte: u8) -> Result<(), Status> {
    if scanner.eat(byte) { Ok(()) } else { Err(scanner.error("not a layout of tensors")) }
}

fn text(scanner: &mut Scanner<'_>) -> Result<String, Status> {
    if scanner.peek() != b'"' {
        return Err(scanner.error("not a name"));
    }
    let mut buffer = Vec::new();
    let text = scanner.string(&mut buffer)?;
    String::from_utf8(text.to_vec()).map_err(|_| scanner.error("a name that is not UTF-8"))
}

fn count(scanner: &mut Scanner<'_>) -> Result<usize, Status> {
    match scanner.number()? {
        Number::Unsigned(count) => usize::try_from(count).map_err(|_| scanner.error("a number that is too large")),
        _ => Err(scanner.error("not a number of bytes or elements")),
    }
}

/// The elements of one tensor, from its bytes.
pub(crate) fn tensor(place: &Place, bytes: &[u8]) -> Result<Tensor, Status> {
    let mut column = Column::new(place.dtype);
    match &mut column {
        Column::Raw(words) => words.push(bytes),
        Column::Strings(strings) => {
            let count = place.shape.iter().product::<usize>();
            let (offsets, text) = bytes.split_at(8 * (count + 1));
            let mut offsets =
                offsets.chunks_exact(8).map(|bytes| usize::from_le_bytes(bytes.try_into().unwrap_or([0; 8])));
            let no_sense = || Status::invalid(format!("the offsets of string tensor '{}' make no sense", place.name));
            let mut start = offsets.next().filter(|first| *first == 0).ok_or_else(no_sense)?;
            for end in offsets {
                strings.push(text.get(start..end).ok_or_else(no_sense)?);
                start = end;
            }
            if start != text.len() {
                return Err(no_sense());
            }
        }
    }
    Ok(Tensor { column, shape: place.shape.clone() })
}
