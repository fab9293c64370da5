//! TensorFlow Serving's `PredictResponse`, written as one gRPC frame.
//! Comes from a finished batch's outputs and a request's rows; goes to the gRPC endpoint.

use bytes::Bytes;

use crate::predict_request::{Choice, ModelSpec};
use crate::tensor_slice::{self, Slice};
use crate::wire;

/// The `model_spec` field of every answer of one version and signature, encoded once.
pub fn model_spec_field(model: &str, version: i64, signature: &str) -> Vec<u8> {
    let mut spec = Vec::new();
    ModelSpec { name: model, choice: Choice::Version(version), signature_name: signature }.write(&mut spec);
    let mut field = Vec::new();
    wire::put_bytes(&mut field, 2, &spec);
    field
}

/// Starts a gRPC frame: five bytes whose length `finish_frame` fills in.
pub fn start_frame(capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + 5);
    out.extend_from_slice(&[0; 5]);
    out
}

/// Fills in the length of a frame.
pub fn finish_frame(mut out: Vec<u8>) -> Bytes {
    let length = (out.len() - 5) as u32;
    out[1..5].copy_from_slice(&length.to_be_bytes());
    Bytes::from(out)
}

/// One frame with a whole message in it.
pub fn frame(message: &[u8]) -> Bytes {
    let mut out = start_frame(message.len());
    out.extend_from_slice(message);
    finish_frame(out)
}

/// The framed message: outputs by name, then the `model_spec` field as encoded before.
pub fn encode<'a>(outputs: impl Iterator<Item = (&'a str, Slice<'a>)>, model_spec: &[u8]) -> Bytes {
    let mut out = start_frame(96 + model_spec.len());
    let mut tensor = Vec::with_capacity(64);
    for (name, slice) in outputs {
        tensor.clear();
        tensor_slice::write(&mut tensor, &slice);
        let length = wire::bytes_field_len(1, name.len()) + wire::bytes_field_len(2, tensor.len());
        wire::put_key(&mut out, 1, wire::BYTES);
        wire::put_varint(&mut out, length as u64);
        wire::put_bytes(&mut out, 1, name.as_bytes());
        wire::put_bytes(&mut out, 2, &tensor);
    }
    out.extend_from_slice(model_spec);
    finish_frame(out)
}
