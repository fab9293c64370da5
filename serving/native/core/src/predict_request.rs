//! TensorFlow Serving's `PredictRequest` and `ModelSpec`, read without copying.
//! The gRPC endpoint hands in a message; the predict path resolves the spec and appends the inputs to a batch.

use crate::intake::{Intake, Tally};
use crate::queue::Page;
use crate::signature::Signature;
use crate::status::Status;
use crate::tensor_proto;
use crate::wire::{self, Reader};

/// Which version a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice<'a> {
    /// `stable` if that label exists, else the newest.
    #[default]
    Any,
    /// This one.
    Version(i64),
    /// Whatever the label names.
    Label(&'a str),
}

/// `ModelSpec`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelSpec<'a> {
    /// The model's name.
    pub name: &'a str,
    /// Which of its versions.
    pub choice: Choice<'a>,
    /// Empty for `serving_default`.
    pub signature_name: &'a str,
}

/// The signature that is used when a request names none.
pub const DEFAULT_SIGNATURE: &str = "serving_default";

impl<'a> ModelSpec<'a> {
    /// Reads the message.
    pub fn parse(message: &'a [u8]) -> Result<ModelSpec<'a>, Status> {
        const MESSAGE: &str = "ModelSpec";
        let mut spec = ModelSpec::default();
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            match found.number {
                1 => spec.name = found.text(MESSAGE)?,
                2 => {
                    let mut version = 0;
                    let mut wrapped = Reader::new(found.bytes(MESSAGE)?);
                    while let Some(inner) = wrapped.next_field()? {
                        if inner.number == 1 {
                            version = inner.varint("Int64Value")? as i64;
                        }
                    }
                    spec.choice = Choice::Version(version);
                }
                3 => spec.signature_name = found.text(MESSAGE)?,
                4 => spec.choice = Choice::Label(found.text(MESSAGE)?),
                _ => {}
            }
        }
        Ok(spec)
    }

    /// The signature's name with the default filled in.
    pub fn signature(&self) -> &'a str {
        if self.signature_name.is_empty() { DEFAULT_SIGNATURE } else { self.signature_name }
    }

    /// Appends the message's fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        wire::put_bytes(out, 1, self.name.as_bytes());
        match self.choice {
            Choice::Any => {}
            Choice::Version(version) => {
                let mut wrapped = Vec::new();
                if version != 0 {
                    wire::put_uint(&mut wrapped, 1, version as u64);
                }
                wire::put_bytes(out, 2, &wrapped);
            }
            Choice::Label(label) => wire::put_bytes(out, 4, label.as_bytes()),
        }
        if !self.signature_name.is_empty() {
            wire::put_bytes(out, 3, self.signature_name.as_bytes());
        }
    }
}

/// `PredictRequest`, borrowed from the message.
#[derive(Debug, Default)]
pub struct PredictRequest<'a> {
    /// What to call.
    pub spec: ModelSpec<'a>,
    /// Name and `TensorProto` of each input as sent.
    inputs: Vec<(&'a [u8], &'a [u8])>,
    /// Names of the wanted outputs; all when empty.
    pub output_filter: Vec<&'a str>,
}

impl<'a> PredictRequest<'a> {
    /// Adds an input.
    pub fn push_input(&mut self, name: &'a [u8], tensor: &'a [u8]) {
        self.inputs.push((name, tensor));
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
                    request.push_input(name, tensor);
                }
                3 => request.output_filter.push(found.text(MESSAGE)?),
                _ => {}
            }
        }
        request.spec = spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))?;
        Ok(request)
    }

    /// Appends the inputs to the open batch. On error columns may hold a part: the caller truncates them.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<Intake, Status> {
        if !signature.takes_inputs(self.inputs.len()) {
            return Err(signature.wrong_names(self.names()));
        }
        let mut tally = Tally::new(signature, page.shapes);
        for (position, (name, tensor)) in self.inputs.iter().enumerate() {
            let Some(index) = signature.input_index(name, position) else {
                return Err(signature.wrong_names(self.names()));
            };
            let found = tensor_proto::read(tensor, &signature.inputs[index], &mut page.columns[index], max_bytes)?;
            tally.note(index, found, page.shapes)?;
        }
        tally.settle(page)?.ok_or_else(|| signature.left_out(self.names()))
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
