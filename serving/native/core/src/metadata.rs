//! `GetModelMetadata`: a version's signatures as TensorFlow Serving gives them, as protobuf and as JSON.
//! The endpoints hand in the request; a version brings its model's own description along, or its signatures are described.

use crate::dtype::tensorflow_constant;
use crate::json_response::write_text;
use crate::predict_request::{Choice, ModelSpec};
use crate::signature::{Signature, TensorSpec};
use crate::status::Status;
use crate::version::Version;
use crate::wire::{self, Reader};

const FIELD: &str = "signature_def";
const TYPE_URL: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

/// A model's own description of its signatures, such as a SavedModel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// A `SignatureDefMap`.
    pub message: Vec<u8>,
    /// The same map's one field as a JSON object.
    pub json: Vec<u8>,
}

/// The model that a `GetModelMetadataRequest` asks for, once its fields are found right.
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
pub fn encode_response(version: &Version) -> Vec<u8> {
    let mut any = Vec::new();
    wire::put_bytes(&mut any, 1, TYPE_URL.as_bytes());
    match &version.described {
        Some(described) => wire::put_bytes(&mut any, 2, &described.message),
        None => wire::put_bytes(&mut any, 2, &signature_def_map(version)),
    }
    let mut spec = Vec::new();
    ModelSpec { name: &version.model, choice: Choice::Version(version.number), signature_name: "" }.write(&mut spec);
    let mut message = Vec::new();
    wire::put_bytes(&mut message, 1, &spec);
    put_entry(&mut message, 2, FIELD, &any);
    message
}

fn signature_def_map(version: &Version) -> Vec<u8> {
    let mut map = Vec::new();
    for served in &*version.served_signatures {
        put_entry(&mut map, 1, &served.signature.name, &signature_def(&served.signature));
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

/// The same as JSON, as `GET .../metadata` answers.
pub fn to_json(version: &Version) -> Vec<u8> {
    let mut out = b"{\"model_spec\":{\"name\":".to_vec();
    write_text(&mut out, &version.model);
    out.extend_from_slice(b",\"signature_name\":\"\",\"version\":\"");
    out.extend_from_slice(version.number.to_string().as_bytes());
    out.extend_from_slice(b"\"},\"metadata\":{\"signature_def\":{\"signature_def\":");
    match &version.described {
        Some(described) => out.extend_from_slice(&described.json),
        None => {
            write_object(&mut out, &version.served_signatures, |out, served| write_signature(out, &served.signature))
        }
    }
    out.extend_from_slice(b"}}}\n");
    out
}

fn write_object<T>(out: &mut Vec<u8>, items: &[T], member: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'{');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        member(out, item);
    }
    out.push(b'}');
}

fn write_signature(out: &mut Vec<u8>, signature: &Signature) {
    write_text(out, &signature.name);
    out.extend_from_slice(b":{\"inputs\":");
    write_object(out, &signature.inputs, write_spec);
    out.extend_from_slice(b",\"outputs\":");
    write_object(out, &signature.outputs, write_spec);
    out.extend_from_slice(b",\"method_name\":");
    write_text(out, &signature.method_name);
    out.extend_from_slice(b",\"defaults\":{}}");
}

fn write_spec(out: &mut Vec<u8>, spec: &TensorSpec) {
    write_text(out, &spec.name);
    let dtype = tensorflow_constant(spec.dtype);
    out.extend_from_slice(format!(":{{\"dtype\":\"{dtype}\",\"tensor_shape\":{{\"dim\":[").as_bytes());
    let dims: Vec<String> = spec.shape.iter().map(|size| format!("{{\"size\":\"{size}\",\"name\":\"\"}}")).collect();
    out.extend_from_slice(dims.join(",").as_bytes());
    out.extend_from_slice(format!("],\"unknown_rank\":{}}},\"name\":", spec.unknown_rank).as_bytes());
    write_text(out, &spec.name);
    out.push(b'}');
}
