//! `SessionService.SessionRun` where it maps onto a signature: its feeds are the inputs, its fetches are outputs, called as
//! the signature calls them or as the tensors of the graph are called.

use crate::model_spec::ModelSpec;
use crate::protobuf::predict::{PredictRequest, encode_named};
use crate::protobuf::signature_defs::{self, Named, SignatureDef};
use crate::protobuf::tensor::Numbers;
use crate::protobuf::wire::{self, Reader};
use crate::signatures::Signature;
use crate::status::{Code, Status};
use crate::tensors::Slice;

/// Outputs by their positions, and the names under which a client fetches them.
pub type Fetched = Box<[(usize, Box<str>)]>;

/// `SessionRunRequest`.
#[derive(Debug, Default)]
pub struct SessionRunRequest<'a> {
    /// The feeds as inputs, under the names that a signature gives them.
    pub inputs: PredictRequest<'a>,
    /// Wanted outputs, as the client calls them and as a signature does.
    fetches: Vec<(&'a str, &'a str)>,
    /// The same of what is fed.
    feeds: Vec<(&'a str, &'a str)>,
    /// The signature whose tensors they are; none where they are called as signatures do.
    signature: Option<&'a str>,
}

impl<'a> SessionRunRequest<'a> {
    /// Reads the message.
    pub fn parse(message: &'a [u8]) -> Result<SessionRunRequest<'a>, Status> {
        const MESSAGE: &str = "SessionRunRequest";
        let mut request = SessionRunRequest::default();
        let mut spec = None;
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            match found.number {
                1 => spec = Some(ModelSpec::parse(found.bytes(MESSAGE)?)?),
                2 => {
                    let (name, tensor) = wire::read_pair(found.bytes(MESSAGE)?, "NamedTensorProto")?;
                    let name = wire::text(name, "NamedTensorProto", 1)?;
                    request.feeds.push((name, alias(name)));
                    request.inputs.push_input(alias(name).as_bytes(), tensor)?;
                }
                3 => {
                    let name = found.text(MESSAGE)?;
                    wire::push_entry(&mut request.fetches, (name, alias(name)), "fetches")?;
                }
                4 => {
                    let target = found.text(MESSAGE)?;
                    let text = format!("SessionRun cannot run target '{target}': it serves feeds and fetches only");
                    return Err(Status::new(Code::Unimplemented, text));
                }
                _ => {}
            }
        }
        request.inputs.spec = spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))?;
        if request.fetches.is_empty() {
            return Err(Status::invalid("Must specify at least one target to fetch or execute."));
        }
        Ok(request)
    }

    /// Calls feeds and fetches as the signature does whose tensors they are, by a model's own `SignatureDefMap`: the one
    /// that is asked for, else `serving_default`, else any. Where there is none they stay as they are.
    pub fn name_tensors(&mut self, definitions: &'a [u8]) -> Result<(), Status> {
        let mut all = signature_defs::parse(definitions)?;
        all.sort_by_key(|one| one.name != self.inputs.spec.signature());
        let wanted = self.inputs.spec.signature_name;
        all.retain(|one| wanted.is_empty() || one.name == wanted);
        for SignatureDef { name, inputs, outputs } in all {
            let find = |among: &[Named<'a>], asked: &str| {
                among.iter().find(|(_, tensor)| alias(tensor) == alias(asked)).map(|(own, _)| *own)
            };
            let fed = self.feeds.iter().map(|(asked, _)| find(&inputs, asked)).collect::<Option<Vec<_>>>();
            let fetched = self.fetches.iter().map(|(asked, _)| find(&outputs, asked)).collect::<Option<Vec<_>>>();
            let (Some(fed), Some(fetched)) = (fed, fetched) else { continue };
            for (position, own) in fed.into_iter().enumerate() {
                self.feeds[position].1 = own;
                self.inputs.rename_input(position, own);
            }
            self.fetches.iter_mut().zip(fetched).for_each(|(fetch, own)| fetch.1 = own);
            self.signature = Some(name);
            return Ok(());
        }
        Ok(())
    }

    /// Whether a signature's inputs are the feeds and its outputs have the fetches.
    pub fn maps_onto(&self, signature: &Signature) -> bool {
        let fed = |name: &str| self.feeds.iter().any(|(_, own)| *own == name);
        self.signature.is_none_or(|name| name == signature.name)
            && self.feeds.len() == signature.inputs.len()
            && signature.inputs.iter().all(|spec| fed(&spec.name))
            && self.fetches.iter().all(|(_, own)| output(signature, own).is_some())
    }

    /// Why none of a version's signatures, by their names, can be run.
    pub fn no_signature(&self, names: &[&str]) -> Status {
        let asked = |names: &[(&str, &str)]| names.iter().map(|(asked, _)| *asked).collect::<Vec<_>>().join(",");
        let (feeds, fetches, names) = (asked(&self.feeds), asked(&self.fetches), names.join(","));
        Status::new(
            Code::Unimplemented,
            format!(
                "SessionRun is served where the feeds are the inputs of a signature and the fetches among its \
                 outputs, or their tensors in the graph: none of {{{names}}} has feeds {{{feeds}}} and fetches {{{fetches}}}"
            ),
        )
    }

    /// Position and name of each fetch. The same name twice would be a whole tensor more for a few bytes.
    pub fn fetched(&self, signature: &Signature) -> Result<Fetched, Status> {
        let mut found: Vec<(usize, Box<str>)> = Vec::new();
        for (fetch, own) in &self.fetches {
            if found.iter().any(|(_, name)| **name == **fetch) {
                return Err(Status::invalid(format!("'{fetch}' is fetched twice: fetch it once")));
            }
            found.extend(output(signature, own).map(|index| (index, (*fetch).into())));
        }
        Ok(found.into())
    }
}

/// A tensor's name in a signature: `x` also where a client calls it `x:0`, TensorFlow's first output of an operation.
fn alias(name: &str) -> &str {
    name.strip_suffix(":0").unwrap_or(name)
}

fn output(signature: &Signature, name: &str) -> Option<usize> {
    signature.outputs.iter().position(|spec| spec.name == name)
}

/// A framed `SessionRunResponse`: the fetches in their order, and the `ModelSpec` that answered.
pub fn encode<'a>(tensors: impl Iterator<Item = (&'a str, Slice<'a>)> + Clone, spec: &ModelSpec<'_>) -> bytes::Bytes {
    encode_named(tensors, spec, 3, Numbers::InFields)
}
