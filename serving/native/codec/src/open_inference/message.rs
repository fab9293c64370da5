//! `ModelInferRequest`, read without copying, and `ModelInferResponse`, written as one gRPC frame.

use std::borrow::Cow;

use bytes::Bytes;

use crate::model_spec::VersionChoice;
use crate::open_inference::answer::{InferAnswer, NamedOutput, OutputForm};
use crate::open_inference::classification::CLASSIFICATION;
use crate::open_inference::input::{InferData, InferInput};
use crate::open_inference::request::{
    InferRequest, PRIORITY, SIGNATURE_NAME, TIMEOUT, WantedOutput, version_choice, wrong_count, wrong_priority,
    wrong_turn,
};
use crate::open_inference::shared_memory::{self, BYTE_SIZE, OFFSET, Place, REGION, Told};
use crate::open_inference::stream_answer::ENABLE_EMPTY_FINAL;
use crate::open_inference::{contents, datatype, raw};
use crate::protobuf::frame::{finish_frame, start_frame};
use crate::protobuf::wire::{self, Field, Reader, Value, push_entry};
use crate::signatures::sequences::{SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START};
use crate::status::Status;
use crate::tensors::Slice;

const MESSAGE: &str = "ModelInferRequest";
const INPUT: &str = "InferInputTensor";

/// A request with the model that it is for.
#[derive(Debug)]
pub struct ModelInfer<'a> {
    /// The model's name.
    pub name: &'a str,
    /// Which version.
    pub choice: VersionChoice<'a>,
    /// The rest.
    pub request: InferRequest<'a>,
}

/// Reads the message; the values of its inputs are read when they are appended.
pub fn parse(message: &[u8]) -> Result<ModelInfer<'_>, Status> {
    let (mut name, mut choice) = ("", VersionChoice::Any);
    let mut request = InferRequest::default();
    let mut raw: Vec<&[u8]> = Vec::new();
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => name = found.text(MESSAGE)?,
            2 => choice = version_choice(found.text(MESSAGE)?)?,
            3 => request.id = Cow::Borrowed(found.text(MESSAGE)?),
            4 => match read_parameter(found.bytes(MESSAGE)?, MESSAGE)? {
                (SIGNATURE_NAME, Some(Parameter::Text(name))) => request.signature_name = Cow::Borrowed(name),
                (SIGNATURE_NAME, _) => {
                    return Err(Status::invalid(format!("parameter '{SIGNATURE_NAME}' must be a string")));
                }
                (PRIORITY, Some(Parameter::Count(level))) => request.priority = level,
                (PRIORITY, _) => return Err(wrong_priority()),
                (TIMEOUT, Some(Parameter::Count(micros))) => request.timeout_us = micros,
                (TIMEOUT, _) => return Err(wrong_count(TIMEOUT)),
                (SEQUENCE_ID, Some(Parameter::Text(id))) => request.turn.id = Cow::Borrowed(id),
                // Triton's clients send 0 for none.
                (SEQUENCE_ID, Some(Parameter::Count(0))) => {}
                (SEQUENCE_ID, Some(Parameter::Count(id))) => request.turn.id = Cow::Owned(id.to_string()),
                (SEQUENCE_START, Some(Parameter::Truth(start))) => request.turn.start = start,
                (SEQUENCE_END, Some(Parameter::Truth(end))) => request.turn.end = end,
                (name @ (SEQUENCE_ID | SEQUENCE_START | SEQUENCE_END), _) => return Err(wrong_turn(name)),
                (ENABLE_EMPTY_FINAL, Some(Parameter::Truth(wanted))) => request.empty_final = wanted,
                _ => {}
            },
            5 => request.push_input(read_input(found.bytes(MESSAGE)?)?)?,
            6 => request.push_output(read_output(found.bytes(MESSAGE)?)?)?,
            7 => push_entry(&mut raw, found.bytes(MESSAGE)?, "inputs in raw_input_contents")?,
            _ => {}
        }
    }
    if request.inputs_mut().iter().any(|input| input.place.is_some()) {
        request.form = OutputForm::Bytes;
    }
    if !raw.is_empty() {
        request.form = OutputForm::Bytes;
        join_raw(request.inputs_mut(), &raw)?;
    }
    Ok(ModelInfer { name, choice, request })
}

/// Gives each input its bytes: all of them or none have their values there.
fn join_raw<'a>(inputs: &mut [InferInput<'a>], raw: &[&'a [u8]]) -> Result<(), Status> {
    // Inputs in shared memory have no entry.
    let count = inputs.iter().filter(|input| input.place.is_none()).count();
    if count != raw.len() {
        let entries = raw.len();
        return Err(Status::invalid(format!(
            "raw_input_contents has {entries} entries for {count} inputs: send one for each, in their order"
        )));
    }
    for (input, bytes) in inputs.iter_mut().filter(|input| input.place.is_none()).zip(raw) {
        if !matches!(input.data, InferData::Missing | InferData::Contents([])) {
            let name = &input.name;
            return Err(Status::invalid(format!(
                "input '{name}' has values in contents and in raw_input_contents: send one of them"
            )));
        }
        input.data = InferData::Raw(bytes);
    }
    Ok(())
}

/// The value of a parameter, as far as any is looked at.
enum Parameter<'a> {
    Text(&'a str),
    Count(u64),
    Truth(bool),
    Other,
}

/// An entry of a map of parameters.
fn read_parameter<'a>(entry: &'a [u8], of: &str) -> Result<(&'a str, Option<Parameter<'a>>), Status> {
    let (key, value) = wire::read_pair(entry, of)?;
    let mut parameter = None;
    let mut reader = Reader::new(value);
    while let Some(found) = reader.next_field()? {
        parameter = Some(match found.number {
            1 => Parameter::Truth(found.varint("InferParameter")? != 0),
            3 => Parameter::Text(found.text("InferParameter")?),
            // A signed number is below zero where its first bit is set.
            2 | 5 => match found.varint("InferParameter")? {
                number if found.number == 5 || i64::try_from(number).is_ok() => Parameter::Count(number),
                _ => Parameter::Other,
            },
            _ => Parameter::Other,
        });
    }
    Ok((wire::text(key, of, 1)?, parameter))
}

fn read_input(message: &[u8]) -> Result<InferInput<'_>, Status> {
    let mut input = InferInput::new(Cow::Borrowed(""));
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => input.name = Cow::Borrowed(found.text(INPUT)?),
            2 => input.datatype = Cow::Borrowed(found.text(INPUT)?),
            3 => read_dims(&found, &mut input)?,
            4 => {
                let (name, value) = read_parameter(found.bytes(INPUT)?, INPUT)?;
                shared_memory::note(&mut input.place, name, &told(value.as_ref()))?;
            }
            5 => input.data = InferData::Contents(found.bytes(INPUT)?),
            _ => {}
        }
    }
    Ok(input)
}

fn read_dims(found: &Field<'_>, input: &mut InferInput<'_>) -> Result<(), Status> {
    match found.value {
        Value::Varint(size) => input.push_dim(size as i64),
        _ => {
            let mut dims = Reader::new(found.bytes(INPUT)?);
            while let Some(size) = dims.next_varint()? {
                input.push_dim(size as i64)?;
            }
            Ok(())
        }
    }
}

fn read_output(message: &[u8]) -> Result<WantedOutput<'_>, Status> {
    const OUTPUT: &str = "InferRequestedOutputTensor";
    let (mut name, mut classes, mut place) = ("", 0, None);
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => name = found.text(OUTPUT)?,
            2 => match read_parameter(found.bytes(OUTPUT)?, OUTPUT)? {
                (CLASSIFICATION, Some(Parameter::Count(most))) => classes = usize::try_from(most).unwrap_or(usize::MAX),
                (CLASSIFICATION, _) => return Err(wrong_count(CLASSIFICATION)),
                (name, value) => shared_memory::note(&mut place, name, &told(value.as_ref()))?,
            },
            _ => {}
        }
    }
    Ok(WantedOutput { name: Cow::Borrowed(name), form: None, classes, place, open: None })
}

fn told<'a>(value: Option<&Parameter<'a>>) -> Told<'a> {
    match value {
        Some(Parameter::Text(text)) => Told::Text(text),
        Some(Parameter::Count(count)) => Told::Count(*count),
        _ => Told::Other,
    }
}

/// The framed `ModelInferResponse`. All outputs go as bytes where one of them cannot go as values; those that go into
/// shared memory are written there.
pub fn encode<'a>(
    model: &str,
    version: i64,
    answer: &'a InferAnswer,
    output: impl Fn(usize) -> (&'a str, Slice<'a>),
) -> Result<Bytes, Status> {
    let named = answer.named(output);
    let placed = named.iter().map(NamedOutput::write_shared).collect::<Result<Vec<_>, _>>()?;
    let outputs: Vec<(&str, Slice<'_>)> = named.iter().map(|output| (output.name, output.slice())).collect();
    let as_bytes = named.iter().any(|output| output.form == OutputForm::Bytes || output.place.is_some())
        || outputs.iter().any(|(_, slice)| !contents::can_hold(slice.dtype));
    let bytes: usize = if as_bytes { outputs.iter().map(|(_, slice)| raw::length(slice)).sum() } else { 0 };
    let mut out = start_frame(96 + model.len() + answer.id.len() + 64 * outputs.len() + bytes);
    wire::put_bytes(&mut out, 1, model.as_bytes());
    wire::put_bytes(&mut out, 2, version.to_string().as_bytes());
    if !answer.id.is_empty() {
        wire::put_bytes(&mut out, 3, answer.id.as_bytes());
    }
    let mut message = Vec::new();
    for ((name, slice), written) in outputs.iter().zip(&placed) {
        message.clear();
        wire::put_bytes(&mut message, 1, name.as_bytes());
        wire::put_bytes(&mut message, 2, datatype::name(slice.dtype).as_bytes());
        let dims = || slice.dims().map(|size| size as u64);
        wire::put_key(&mut message, 3, wire::BYTES);
        wire::put_varint(&mut message, dims().map(wire::varint_len).sum::<usize>() as u64);
        dims().for_each(|size| wire::put_varint(&mut message, size));
        if let Some((place, size)) = written {
            put_place(&mut message, place, *size);
        }
        if !as_bytes {
            wire::put_bytes(&mut message, 5, &contents::of(slice));
        }
        wire::put_bytes(&mut out, 5, &message);
    }
    if as_bytes {
        for ((_, slice), written) in outputs.iter().zip(&placed) {
            wire::put_key(&mut out, 6, wire::BYTES);
            if written.is_some() {
                wire::put_varint(&mut out, 0);
                continue;
            }
            wire::put_varint(&mut out, raw::length(slice) as u64);
            raw::write(&mut out, slice);
        }
    }
    Ok(finish_frame(out))
}

/// The parameters of an output that is in shared memory.
fn put_place(out: &mut Vec<u8>, place: &Place, size: usize) {
    let mut region = Vec::new();
    wire::put_bytes(&mut region, 3, place.region.as_bytes());
    let count = |number: u64| {
        let mut value = Vec::new();
        wire::put_uint(&mut value, 2, number);
        value
    };
    for (name, value) in [(REGION, region), (BYTE_SIZE, count(size as u64)), (OFFSET, count(place.offset))] {
        let mut entry = Vec::new();
        wire::put_bytes(&mut entry, 1, name.as_bytes());
        wire::put_bytes(&mut entry, 2, &value);
        wire::put_bytes(out, 4, &entry);
    }
}
