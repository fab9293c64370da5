//! TensorFlow Serving's `PredictRequest`, read without copying, and `PredictResponse`, written as one gRPC frame.

use bytes::Bytes;

use crate::model_spec::ModelSpec;
use crate::protobuf::frame::{finish_frame, start_frame};
use crate::protobuf::tensor::{self, Numbers};
use crate::protobuf::wire::{self, Reader};
use crate::signatures::sequences::SEQUENCE_ID;
use crate::signatures::{InputTally, RequestRows, Signature};
use crate::status::Status;
use crate::tensors::{Lender, Page, Room, Slice};

/// `PredictRequest`, borrowed from the message.
#[derive(Debug, Default)]
pub struct PredictRequest<'a> {
    /// What to call.
    pub spec: ModelSpec<'a>,
    /// Name and `TensorProto` of each input as sent.
    inputs: Vec<(&'a [u8], &'a [u8])>,
    /// Names of the wanted outputs; all when empty.
    pub output_filter: Vec<&'a str>,
    /// The message that it is borrowed from, where large inputs may keep it.
    pub lender: Lender<'a>,
}

impl<'a> PredictRequest<'a> {
    /// Adds an input, unless there are too many.
    pub fn push_input(&mut self, name: &'a [u8], tensor: &'a [u8]) -> Result<(), Status> {
        wire::push_entry(&mut self.inputs, (name, tensor), "inputs")
    }

    /// Calls an input otherwise than its client does.
    pub(crate) fn rename_input(&mut self, position: usize, name: &'a str) {
        self.inputs[position].0 = name.as_bytes();
    }

    /// Reads the outer message; tensors are read when they are appended.
    pub fn parse(message: &'a [u8]) -> Result<PredictRequest<'a>, Status> {
        const MESSAGE: &str = "PredictRequest";
        let mut request = PredictRequest::default();
        let mut spec = None;
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            match found.number {
                1 => spec = Some(ModelSpec::parse(found.bytes(MESSAGE)?)?),
                2 => {
                    let (name, tensor) = wire::read_pair(found.bytes(MESSAGE)?, MESSAGE)?;
                    request.push_input(name, tensor)?;
                }
                3 => wire::push_entry(&mut request.output_filter, found.text(MESSAGE)?, "names in its output_filter")?,
                _ => {}
            }
        }
        request.spec = spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))?;
        Ok(request)
    }

    /// Appends the inputs to the open batch. On error columns may hold a part: the caller truncates them.
    pub fn read_inputs(
        &self,
        signature: &Signature,
        page: &mut Page<'_>,
        max_bytes: usize,
    ) -> Result<RequestRows, Status> {
        if !signature.takes_inputs(self.inputs.len()) {
            return Err(signature.wrong_names(self.names()));
        }
        let mut tally = InputTally::new(signature, page.shapes);
        for (position, (name, tensor)) in self.inputs.iter().enumerate() {
            let Some(index) = signature.input_index(name, position) else {
                return Err(signature.left_out(self.names()));
            };
            let column = &mut page.columns[index];
            let found = tensor::read(tensor, signature, index, column, max_bytes, (page.room, self.lender))?;
            tally.note(index, found, page.shapes)?;
        }
        tally.settle(page)?.ok_or_else(|| signature.left_out(self.names()))
    }

    /// The sequence that it belongs to by a signature of sequences, without its other inputs; empty where it says none, or
    /// none that can be read.
    pub fn sequence(&self, signature: &Signature, room: &mut dyn Room, max_bytes: usize) -> Vec<u8> {
        signature.read_sequence_id(|index, column| {
            match self.inputs.iter().find(|(name, _)| *name == SEQUENCE_ID.as_bytes()) {
                Some((_, id)) => {
                    tensor::read(id, signature, index, column, max_bytes, (room, Lender::default())).map(drop)
                }
                None => Ok(()),
            }
        })
    }

    fn names(&self) -> Vec<String> {
        self.inputs.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

/// Positions of the wanted outputs; an empty filter wants all.
pub fn select_outputs(filter: &[&str], signature: &Signature) -> Result<Option<Box<[usize]>>, Status> {
    if filter.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::with_capacity(filter.len());
    for name in filter {
        let Some(index) = signature.outputs.iter().position(|spec| spec.name == *name) else {
            let mut names: Vec<&str> = signature.outputs.iter().map(|spec| spec.name.as_str()).collect();
            names.sort_unstable();
            return Err(Status::invalid(format!(
                "output tensor alias not found in signature: {name} Outputs expected to be in the set {{{}}}.",
                names.join(",")
            )));
        };
        if chosen.contains(&index) {
            return Err(Status::invalid(format!("duplicate output tensor alias: {name}")));
        }
        chosen.push(index);
    }
    Ok(Some(chosen.into()))
}

/// The framed `PredictResponse`: outputs by name, then what answered.
pub fn encode_response<'a>(
    outputs: impl Iterator<Item = (&'a str, Slice<'a>)> + Clone,
    spec: &ModelSpec<'_>,
    numbers: Numbers,
) -> Bytes {
    encode_named(outputs, spec, 2, numbers)
}

/// A framed message of tensors by name and of what answered, in the field of this number. It takes no more memory than
/// it has bytes: of answers that nobody reads there may be many.
pub(crate) fn encode_named<'a>(
    tensors: impl Iterator<Item = (&'a str, Slice<'a>)> + Clone,
    spec: &ModelSpec<'_>,
    spec_number: u32,
    numbers: Numbers,
) -> Bytes {
    let pair = |name: &str, tensor: usize| wire::bytes_field_len(1, name.len()) + wire::bytes_field_len(2, tensor);
    let entry =
        |(name, slice): (&str, Slice<'_>)| wire::bytes_field_len(1, pair(name, tensor::length(&slice, numbers)));
    let mut out = start_frame(tensors.clone().map(entry).sum::<usize>() + spec.field_length(spec_number));
    for (name, slice) in tensors {
        let length = tensor::length(&slice, numbers);
        wire::put_key(&mut out, 1, wire::BYTES);
        wire::put_varint(&mut out, pair(name, length) as u64);
        wire::put_bytes(&mut out, 1, name.as_bytes());
        wire::put_key(&mut out, 2, wire::BYTES);
        wire::put_varint(&mut out, length as u64);
        tensor::write(&mut out, &slice, numbers);
    }
    spec.write(&mut out, spec_number);
    finish_frame(out)
}
