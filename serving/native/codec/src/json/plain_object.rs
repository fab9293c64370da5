//! One plain object: a request whose members are the inputs of one row, or what a schema says, and the answer to it.

use half::f16;

use crate::dtype::DType;
use crate::json::document::{behind_mark, text_of};
use crate::json::rows::{RowShape, read_row};
use crate::json::scanner::Scanner;
use crate::signatures::sequences::SEQUENCE_ID;
use crate::signatures::{InputShape, InputTally, RequestRows, Signature, TensorSpec};
use crate::status::{Code, Status};
use crate::tensors::{Column, Page, Room};

/// A body that is known to be one JSON value.
#[derive(Clone, Copy, Debug)]
pub struct PlainObject<'a> {
    text: &'a [u8],
    /// Whether members that are no inputs are parameters, and one value is enough for a tensor of one element.
    lenient: bool,
}

impl<'a> PlainObject<'a> {
    /// Looks at the form of all of it, so that what is no JSON costs its model nothing.
    pub fn parse(text: &'a [u8]) -> Result<PlainObject<'a>, Status> {
        let text = text_of(text)?;
        let mut scanner = Scanner::new(text);
        if scanner.peek() == 0 {
            return Err(scanner.error("The document is empty."));
        }
        scanner.skip()?;
        scanner.end()?;
        Ok(PlainObject { text, lenient: false })
    }

    /// The same for a `generate` request of Triton's clients: what is no input is a parameter, and one value is enough for a
    /// tensor of one element.
    pub fn lenient(self) -> PlainObject<'a> {
        PlainObject { lenient: true, ..self }
    }

    /// A text that `parse` took, or that is JSON in any case.
    pub fn checked(text: &'a [u8]) -> PlainObject<'a> {
        PlainObject { text: behind_mark(text), lenient: false }
    }

    /// Appends the inputs to the open batch. On error columns may hold a part: the caller truncates them.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>) -> Result<RequestRows, Status> {
        let mut tally = InputTally::new(signature, page.shapes);
        if signature.schema.is_some() {
            page.room.take(self.text.len())?;
            if let Column::Strings(documents) = &mut *page.columns[0] {
                documents.push(self.text);
            }
            tally.note(0, InputShape { rows: 1, inner: Vec::new(), flat: false }, page.shapes)?;
        } else {
            self.read_members(signature, page, &mut tally)?;
        }
        tally.settle(page)?.ok_or_else(|| Status::internal("a plain object that lacks inputs was taken for whole"))
    }

    /// The sequence that it belongs to by a signature of sequences, without its other inputs; empty where it says none, or
    /// none that can be read.
    pub fn sequence(&self, signature: &Signature, room: &mut dyn Room) -> Vec<u8> {
        signature.read_sequence_id(|index, column| match Scanner::new(self.text).member(SEQUENCE_ID)? {
            Some(mut id) => {
                let spec = &signature.inputs[index];
                read_row(&mut id, spec, column, &mut RowShape::of_whole(spec), room)
            }
            None => Ok(()),
        })
    }

    fn read_members(
        &self,
        signature: &Signature,
        page: &mut Page<'_>,
        tally: &mut InputTally<'_>,
    ) -> Result<(), Status> {
        let mut scanner = Scanner::new(self.text);
        if scanner.peek() != b'{' {
            let (value, names) = (scanner.show_value(), names_of(signature));
            return Err(Status::invalid(format!("the request is {value}: send an object with members {names}")));
        }
        scanner.eat(b'{');
        let mut seen = vec![false; signature.inputs.len()];
        let (mut members, mut buffer) = (0, Vec::new());
        while scanner.more(b'}', members == 0)? {
            let key = scanner.key(&mut buffer)?;
            let found = signature.input_index(key, members);
            if found.is_none() && self.lenient && (key == b"parameters" || !matches!(scanner.peek(), b'[' | b'{')) {
                scanner.skip()?;
                members += 1;
                continue;
            }
            let Some(index) = found else {
                let (key, names) = (String::from_utf8_lossy(key), names_of(signature));
                return Err(Status::invalid(format!("member '{key}' is none of the inputs: send {names}")));
            };
            let spec = &signature.inputs[index];
            if std::mem::replace(&mut seen[index], true) {
                return Err(Status::invalid(format!("member '{}' came twice: send it once", spec.name)));
            }
            self.read_member(&mut scanner, signature, index, page, tally)?;
            members += 1;
        }
        lacks_none(&seen, signature)
    }

    /// Reads the value of one input.
    fn read_member(
        &self,
        scanner: &mut Scanner<'_>,
        signature: &Signature,
        index: usize,
        page: &mut Page<'_>,
        tally: &mut InputTally<'_>,
    ) -> Result<(), Status> {
        let spec = &signature.inputs[index];
        let alone = self.lenient && spec.inner().iter().all(|size| matches!(size, -1 | 1)) && scanner.peek() != b'[';
        let one = TensorSpec::new(spec.name.as_str(), spec.dtype, []);
        let mut shape = match alone {
            true => RowShape::of_whole(&one),
            false if spec.is_free() => RowShape::of_whole(spec),
            false => RowShape::of_row(spec),
        };
        let read_as = if alone { &one } else { spec };
        let column = &mut page.columns[index];
        let read = match read_as.dtype {
            DType::Float16 => read_halves(scanner, read_as, column, &mut shape, page.room),
            _ => read_row(scanner, read_as, column, &mut shape, page.room),
        };
        read.map_err(|why| match why.code {
            Code::ResourceExhausted => why,
            _ => Status::invalid(format!("member '{}': {}", spec.name, why.message)),
        })?;
        let inner = match alone {
            true => vec![1; spec.inner().len()],
            false if shape.is_flat() => vec![1],
            false => shape.dims(),
        };
        tally.note(index, InputShape { rows: 1, inner, flat: shape.is_flat() }, page.shapes)
    }
}

/// Appends one row of halves, for which TensorFlow Serving has no JSON: the nearest that there are, infinity beyond the largest.
fn read_halves(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    shape: &mut RowShape,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let mut doubles = Column::new(DType::Float64);
    read_row(scanner, &TensorSpec { dtype: DType::Float64, ..spec.clone() }, &mut doubles, shape, room)?;
    if let (Column::Raw(doubles), Column::Raw(halves)) = (&doubles, column) {
        for double in doubles.as_bytes().as_chunks().0 {
            halves.push(&f16::from_f64(f64::from_le_bytes(*double)).to_le_bytes());
        }
    }
    Ok(())
}

/// Whether every input came that has no default.
fn lacks_none(seen: &[bool], signature: &Signature) -> Result<(), Status> {
    let mut left_out = seen.iter().zip(&*signature.defaults).zip(&*signature.inputs);
    match left_out.find(|((seen, default), _)| !**seen && default.is_none()) {
        Some((_, spec)) => {
            let (name, names) = (&spec.name, names_of(signature));
            Err(Status::invalid(format!("member '{name}' is missing: send an object with members {names}")))
        }
        None => Ok(()),
    }
}

#[cold]
fn names_of(signature: &Signature) -> String {
    signature.inputs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", ")
}
