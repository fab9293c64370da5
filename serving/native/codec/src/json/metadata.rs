//! `GET .../metadata`: a version's signatures as JSON.

use crate::dtype::tensorflow_constant;
use crate::json::text::{write_object, write_text};
use crate::model_metadata::ModelMetadata;
use crate::signatures::{Signature, TensorSpec};

/// The body.
pub fn to_json(metadata: &ModelMetadata<'_>) -> Vec<u8> {
    let mut out = b"{\"model_spec\":{\"name\":".to_vec();
    write_text(&mut out, metadata.model);
    out.extend_from_slice(b",\"signature_name\":\"\",\"version\":\"");
    out.extend_from_slice(metadata.version.to_string().as_bytes());
    out.extend_from_slice(b"\"},\"metadata\":{\"signature_def\":{\"signature_def\":");
    match metadata.description {
        Some(description) => out.extend_from_slice(&description.json),
        None => write_object(&mut out, &metadata.signatures, |out, signature| write_signature(out, signature)),
    }
    out.extend_from_slice(b"}}}\n");
    out
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
