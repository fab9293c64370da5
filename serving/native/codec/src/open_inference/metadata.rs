//! What a server says of itself, and of one model: its versions, and the tensors of one signature.

use crate::json::text::{write_list, write_text};
use crate::model_spec::ModelSpec;
use crate::open_inference::datatype;
use crate::open_inference::request::version_choice;
use crate::protobuf::wire::{self, Reader};
use crate::signatures::{Signature, TensorSpec};
use crate::status::Status;

/// The server's name.
pub const SERVER: &str = "tidegate";
/// The parts beyond the protocol's core that are here.
const EXTENSIONS: [&str; 7] = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "sequence",
    "statistics",
];
/// One more, where tensors in shared memory are allowed.
const SHARED_MEMORY: &str = "system_shared_memory";

/// The model of a `ModelReadyRequest`, a `ModelMetadataRequest`, a `ModelConfigRequest` or a
/// `ModelStatisticsRequest`.
pub fn parse_request(message: &[u8]) -> Result<ModelSpec<'_>, Status> {
    const MESSAGE: &str = "ModelMetadataRequest";
    let mut spec = ModelSpec::default();
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => spec.name = found.text(MESSAGE)?,
            2 => spec.choice = version_choice(found.text(MESSAGE)?)?,
            _ => {}
        }
    }
    Ok(spec)
}

/// `ServerLiveResponse`, `ServerReadyResponse` or `ModelReadyResponse`.
pub fn truth(is: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if is {
        wire::put_uint(&mut out, 1, 1);
    }
    out
}

fn extensions(shared_memory: bool) -> Vec<&'static str> {
    EXTENSIONS.into_iter().chain(shared_memory.then_some(SHARED_MEMORY)).collect()
}

/// `ServerMetadataResponse`.
pub fn server_message(version: &str, shared_memory: bool) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, 1, SERVER.as_bytes());
    wire::put_bytes(&mut out, 2, version.as_bytes());
    extensions(shared_memory).iter().for_each(|extension| wire::put_bytes(&mut out, 3, extension.as_bytes()));
    out
}

/// The same as JSON.
pub fn server_json(version: &str, shared_memory: bool) -> Vec<u8> {
    let extensions = extensions(shared_memory);
    let mut out = b"{\"name\":".to_vec();
    write_text(&mut out, SERVER);
    out.extend_from_slice(b",\"version\":");
    write_text(&mut out, version);
    out.extend_from_slice(b",\"extensions\":");
    write_list(&mut out, extensions.len(), |out, index| write_text(out, extensions[index]));
    out.push(b'}');
    out
}

/// A model, its versions that serve, and how it is called.
#[derive(Debug)]
pub struct ModelDescription<'a> {
    /// Its name.
    pub name: &'a str,
    /// Those that answer now.
    pub versions: Vec<i64>,
    /// Whose tensors are described.
    pub signature: &'a Signature,
}

impl ModelDescription<'_> {
    /// `ModelMetadataResponse`.
    pub fn message(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_bytes(&mut out, 1, self.name.as_bytes());
        self.versions.iter().for_each(|version| wire::put_bytes(&mut out, 2, version.to_string().as_bytes()));
        wire::put_bytes(&mut out, 3, SERVER.as_bytes());
        let outputs = self.signature.outputs.iter().collect();
        for (number, specs) in [(4, self.signature.asked_inputs()), (5, outputs)] {
            for spec in specs {
                let mut tensor = Vec::new();
                wire::put_bytes(&mut tensor, 1, spec.name.as_bytes());
                wire::put_bytes(&mut tensor, 2, datatype::name(spec.dtype).as_bytes());
                let shape = shape_of(spec);
                wire::put_key(&mut tensor, 3, wire::BYTES);
                wire::put_varint(
                    &mut tensor,
                    shape.iter().map(|size| wire::varint_len(*size as u64)).sum::<usize>() as u64,
                );
                shape.iter().for_each(|size| wire::put_varint(&mut tensor, *size as u64));
                wire::put_bytes(&mut out, number, &tensor);
            }
        }
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = b"{\"name\":".to_vec();
        write_text(&mut out, self.name);
        out.extend_from_slice(b",\"versions\":");
        write_list(&mut out, self.versions.len(), |out, index| write_text(out, &self.versions[index].to_string()));
        out.extend_from_slice(b",\"platform\":");
        write_text(&mut out, SERVER);
        let outputs = self.signature.outputs.iter().collect();
        for (key, specs) in [("inputs", self.signature.asked_inputs()), ("outputs", outputs)] {
            out.extend_from_slice(format!(",\"{key}\":").as_bytes());
            write_list(&mut out, specs.len(), |out, index| write_spec(out, specs[index]));
        }
        out.push(b'}');
        out
    }
}

fn write_spec(out: &mut Vec<u8>, spec: &TensorSpec) {
    out.extend_from_slice(b"{\"name\":");
    write_text(out, &spec.name);
    let dims: Vec<String> = shape_of(spec).iter().map(ToString::to_string).collect();
    let (datatype, dims) = (datatype::name(spec.dtype), dims.join(","));
    out.extend_from_slice(format!(",\"datatype\":\"{datatype}\",\"shape\":[{dims}]}}").as_bytes());
}

/// The dimensions; the protocol has no word for any rank, of which at least one dimension is there.
pub(crate) fn shape_of(spec: &TensorSpec) -> &[i64] {
    if spec.unknown_rank { &[-1] } else { &spec.shape }
}
