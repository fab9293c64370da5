//! The features of `tensorflow.Example` messages, parsed into a batch's columns.
//! Kinds, counts and ranges are checked; errors have TensorFlow's words where it has them.

use half::f16;

use crate::dtype::{DType, tensorflow_type};
use crate::inference::takes_serialized;
use crate::protobuf::examples::ExampleInput;
use crate::protobuf::wire::{self, Reader, Value};
use crate::signatures::{RequestRows, Signature, TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::{Column, Number, Page, Strings, Words, push_number};

impl ExampleInput<'_> {
    /// Appends one row per example to the open batch.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>) -> Result<RequestRows, Status> {
        if self.examples.is_empty() {
            return Err(Status::invalid("Input is empty."));
        }
        if takes_serialized(signature) {
            if let Column::Strings(strings) = &mut *page.columns[0] {
                page.room.take(self.with_context())?;
                self.examples.iter().for_each(|serialized| strings.push_pieces(&[&self.context, serialized]));
            }
        } else {
            read_rows(self, signature, page)?;
        }
        Ok(RequestRows { rows: self.examples.len(), flat: false, unbatched: false })
    }
}

/// What a feature holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bytes,
    Float,
    Int64,
}

impl Kind {
    fn of_field(number: u32) -> Option<Kind> {
        match number {
            1 => Some(Kind::Bytes),
            2 => Some(Kind::Float),
            3 => Some(Kind::Int64),
            _ => None,
        }
    }

    /// As TensorFlow calls its values, and its type.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Bytes => ("bytes", "string"),
            Kind::Float => ("float", "float"),
            Kind::Int64 => ("int64", "int64"),
        }
    }

    /// Whole numbers also become floats, which hold them exactly or refuse them.
    fn becomes(self, dtype: DType) -> bool {
        let float = dtype.is_float();
        match self {
            Kind::Bytes => dtype == DType::String,
            Kind::Float => float,
            Kind::Int64 => dtype != DType::String && !dtype.is_complex(),
        }
    }
}

/// Where a value belongs, for messages.
#[derive(Clone, Copy)]
struct Place<'a> {
    spec: &'a TensorSpec,
    example: usize,
}

impl Place<'_> {
    #[cold]
    fn error(&self, what: &str) -> Status {
        let (name, index) = (&self.spec.name, self.example);
        Status::invalid(format!("Name: <unknown>, Key: {name}, Index: {index}.  {what}"))
    }

    #[cold]
    fn missing(&self) -> Status {
        let (name, dtype) = (&self.spec.name, tensorflow_type(self.spec.dtype));
        self.error(&format!("Feature: {name} (data type: {dtype}) is required but could not be found."))
    }

    #[cold]
    fn wrong_kind(&self, kind: Kind) -> Status {
        let (found, wanted) = (kind.names().1, tensorflow_type(self.spec.dtype));
        self.error(&format!("Data types don't match. Data type: {found} but expected type: {wanted}"))
    }

    #[cold]
    fn wrong_count(&self, kind: Kind, count: usize) -> Status {
        let (found, shape) = (kind.names().0, show_shape(self.spec.inner()));
        self.error(&format!("Number of {found} values != expected.  Values size: {count} but output shape: {shape}"))
    }

    #[cold]
    fn does_not_fit(&self, value: &str) -> Status {
        self.error(&format!("Value {value} does not fit its dtype {}.", self.spec.dtype.name()))
    }
}

/// Appends one row per example to the columns, and the inner shapes to the page where they are not fixed.
fn read_rows(input: &ExampleInput<'_>, signature: &Signature, page: &mut Page<'_>) -> Result<(), Status> {
    let mut shapes: Vec<Option<Vec<usize>>> = signature.inputs.iter().map(TensorSpec::fixed_inner).collect();
    let mut context: Vec<Option<&[u8]>> = vec![None; signature.inputs.len()];
    find_features(&input.context, signature, &mut context).map_err(|_| unreadable(&input.context))?;
    let mut features = context.clone();
    for (example, serialized) in input.examples.iter().enumerate() {
        features.copy_from_slice(&context);
        find_features(serialized, signature, &mut features).map_err(|_| unreadable(serialized))?;
        for (index, feature) in features.iter().enumerate() {
            let place = Place { spec: &signature.inputs[index], example };
            let (kind, values) = feature
                .map(|feature| read_kind(feature, serialized))
                .transpose()?
                .flatten()
                .ok_or_else(|| place.missing())?;
            if !kind.becomes(place.spec.dtype) {
                return Err(place.wrong_kind(kind));
            }
            let column = &mut page.columns[index];
            let (before, bytes) = (column.extent(), column.byte_size());
            push_values(kind, values, &place, column).map_err(|why| why.unwrap_or_else(|| unreadable(serialized)))?;
            page.room.take(column.byte_size() - bytes)?;
            let count = (column.extent() - before) / place.spec.dtype.size().max(1);
            check_count(&place, kind, count, &mut shapes[index])?;
        }
    }
    page.shapes.clear();
    if !signature.fixed {
        page.shapes.extend(shapes.into_iter().map(Option::unwrap_or_default));
    }
    Ok(())
}

#[cold]
fn unreadable(serialized: &[u8]) -> Status {
    const SHOWN: usize = 80;
    let text = String::from_utf8_lossy(&serialized[..serialized.len().min(SHOWN)]);
    let more = if serialized.len() > SHOWN { "..." } else { "" };
    Status::invalid(format!("Could not parse example input, value: '{text}{more}'"))
}

/// Notes the `Feature` message of each column that the example has; the last one of a name counts.
fn find_features<'a>(
    serialized: &'a [u8],
    signature: &Signature,
    found: &mut [Option<&'a [u8]>],
) -> Result<(), Status> {
    let mut reader = Reader::new(serialized);
    while let Some(features) = reader.next_field()? {
        if features.number != 1 {
            continue;
        }
        let mut entries = Reader::new(features.bytes("Example")?);
        let mut hint = 0;
        while let Some(entry) = entries.next_field()? {
            if entry.number != 1 {
                continue;
            }
            let (key, value) = wire::read_pair(entry.bytes("Features")?, "Features")?;
            if let Some(index) = signature.input_index(key, hint % signature.inputs.len()) {
                found[index] = Some(value);
            }
            hint += 1;
        }
    }
    Ok(())
}

/// The list in a `Feature`, if it has one.
fn read_kind<'a>(feature: &'a [u8], serialized: &[u8]) -> Result<Option<(Kind, &'a [u8])>, Status> {
    let mut found = None;
    let mut reader = Reader::new(feature);
    while let Some(field) = reader.next_field().map_err(|_| unreadable(serialized))? {
        if let Some(kind) = Kind::of_field(field.number) {
            found = Some((kind, field.bytes("Feature").map_err(|_| unreadable(serialized))?));
        }
    }
    Ok(found)
}

/// A row has as many values as its shape; the first row decides on a single dimension that the signature leaves open.
fn check_count(place: &Place<'_>, kind: Kind, count: usize, shape: &mut Option<Vec<usize>>) -> Result<(), Status> {
    if let Some(known) = shape {
        let wanted: usize = known.iter().product();
        return if count == wanted { Ok(()) } else { Err(place.wrong_count(kind, count)) };
    }
    let inner = place.spec.inner();
    if inner.iter().filter(|dim| **dim < 0).count() > 1 {
        let shape = place.spec.show();
        return Err(place.error(&format!("An example cannot say its dimensions: the signature has shape {shape}.")));
    }
    let others: usize = inner.iter().filter_map(|dim| usize::try_from(*dim).ok()).product();
    if others == 0 || !count.is_multiple_of(others) {
        return Err(place.wrong_count(kind, count));
    }
    *shape = Some(inner.iter().map(|dim| usize::try_from(*dim).unwrap_or(count / others)).collect());
    Ok(())
}

/// Appends the values of a list; `Err(None)` says that it is no list of its kind.
fn push_values(kind: Kind, list: &[u8], place: &Place<'_>, column: &mut Column) -> Result<(), Option<Status>> {
    match column {
        Column::Strings(strings) => push_strings(list, strings).map_err(|_| None),
        Column::Raw(words) => {
            let mut reader = Reader::new(list);
            while let Some(field) = reader.next_field().map_err(|_| None)? {
                match (field.number, field.value, kind) {
                    (1, Value::Bytes(packed), Kind::Float) => push_floats(packed, place, words)?,
                    (1, Value::Fixed32(one), Kind::Float) => push_floats(one, place, words)?,
                    (1, Value::Bytes(packed), _) => {
                        let mut values = Reader::new(packed);
                        while let Some(value) = values.next_varint().map_err(|_| None)? {
                            push_whole(value as i64, place, words)?;
                        }
                    }
                    (1, Value::Varint(value), _) => push_whole(value as i64, place, words)?,
                    (1, ..) => return Err(None),
                    _ => {}
                }
            }
            Ok(())
        }
    }
}

fn push_strings(list: &[u8], strings: &mut Strings) -> Result<(), Status> {
    let mut reader = Reader::new(list);
    while let Some(field) = reader.next_field()? {
        if field.number == 1 {
            strings.push(field.bytes("BytesList")?);
        }
    }
    Ok(())
}

fn push_floats(packed: &[u8], place: &Place<'_>, words: &mut Words) -> Result<(), Option<Status>> {
    let (values, rest) = packed.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(None);
    }
    match place.spec.dtype {
        DType::Float32 => words.push(packed),
        DType::Float64 => {
            values.iter().for_each(|four| words.push(&f64::from(f32::from_le_bytes(*four)).to_le_bytes()));
        }
        _ => {
            for four in values {
                let value = f32::from_le_bytes(*four);
                if value.is_finite() && value.abs() > f16::MAX.to_f32() {
                    return Err(Some(place.does_not_fit(&value.to_string())));
                }
                words.push(&f16::from_f32(value).to_le_bytes());
            }
        }
    }
    Ok(())
}

fn push_whole(value: i64, place: &Place<'_>, words: &mut Words) -> Result<(), Option<Status>> {
    let number = u64::try_from(value).map_or(Number::Signed(value), Number::Unsigned);
    let pushed = match (place.spec.dtype, value) {
        (DType::Bool, 0 | 1) => {
            words.push(&[value as u8]);
            Some(())
        }
        (dtype, _) => push_number(number, dtype, words),
    };
    pushed.ok_or_else(|| Some(place.does_not_fit(&value.to_string())))
}
