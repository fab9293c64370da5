//! `GetModelMetadata`: the request, and a version's signatures as its answer.

use crate::model_metadata::ModelMetadata;
use crate::model_spec::{ModelSpec, VersionChoice};
use crate::protobuf::wire::{self, Reader};
use crate::signatures::{Signature, TensorSpec};
use crate::status::Status;

const FIELD: &str = "signature_def";
const TYPE_URL: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

/// Reads a `GetModelMetadataRequest` and checks its fields.
pub fn parse_request(message: &[u8]) -> Result<ModelSpec<'_>, Status> {
    const MESSAGE: &str = "GetModelMetadataRequest";
    let mut spec = None;
    let mut fields = 0;
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => spec = Some(ModelSpec::parse(found.bytes(MESSAGE)?)?),
            2 => {
                let field = found.text(MESSAGE)?;
                if field != FIELD {
                    return Err(Status::invalid(format!("Metadata field {field} is not supported")));
                }
                fields += 1;
            }
            _ => {}
        }
    }
    let spec = spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))?;
    if fields == 0 {
        return Err(Status::invalid("GetModelMetadataRequest must specify at least one metadata_field"));
    }
    Ok(spec)
}

/// `GetModelMetadataResponse`.
pub fn encode_response(metadata: &ModelMetadata<'_>) -> Vec<u8> {
    let mut any = Vec::new();
    wire::put_bytes(&mut any, 1, TYPE_URL.as_bytes());
    match metadata.description {
        Some(description) => wire::put_bytes(&mut any, 2, &description.message),
        None => wire::put_bytes(&mut any, 2, &signature_def_map(metadata)),
    }
    let choice = VersionChoice::Version(metadata.version);
    let mut message = Vec::new();
    ModelSpec { name: metadata.model, choice, signature_name: "" }.write(&mut message, 1);
    put_entry(&mut message, 2, FIELD, &any);
    message
}

fn signature_def_map(metadata: &ModelMetadata<'_>) -> Vec<u8> {
    let mut map = Vec::new();
    for signature in &metadata.signatures {
        put_entry(&mut map, 1, &signature.name, &signature_def(signature));
    }
    map
}

fn put_entry(out: &mut Vec<u8>, number: u32, key: &str, value: &[u8]) {
    let mut entry = Vec::new();
    wire::put_bytes(&mut entry, 1, key.as_bytes());
    wire::put_bytes(&mut entry, 2, value);
    wire::put_bytes(out, number, &entry);
}

fn signature_def(signature: &Signature) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, specs) in [(1, &signature.inputs), (2, &signature.outputs)] {
        for spec in specs.iter() {
            put_entry(&mut message, number, &spec.name, &tensor_info(spec));
        }
    }
    wire::put_bytes(&mut message, 3, signature.method_name.as_bytes());
    message
}

fn tensor_info(spec: &TensorSpec) -> Vec<u8> {
    let mut shape = Vec::new();
    for dim in &spec.shape {
        let mut size = Vec::new();
        wire::put_uint(&mut size, 1, *dim as u64);
        wire::put_bytes(&mut shape, 2, &size);
    }
    if spec.unknown_rank {
        wire::put_uint(&mut shape, 3, 1);
    }
    let mut message = Vec::new();
    wire::put_bytes(&mut message, 1, spec.name.as_bytes());
    wire::put_uint(&mut message, 2, spec.dtype.tensorflow());
    wire::put_bytes(&mut message, 3, &shape);
    message
}
