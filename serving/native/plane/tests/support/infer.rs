//! Requests of the Open Inference Protocol.

use tidegate_codec::protobuf::wire;

pub const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// A `ModelInferRequest` for rows of model `m`.
pub fn infer(values: &[f32]) -> Vec<u8> {
    let (mut request, mut input, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    wire::put_bytes(&mut request, 1, b"m");
    wire::put_bytes(&mut input, 1, b"x");
    wire::put_bytes(&mut input, 2, b"FP32");
    wire::put_varint(&mut shape, values.len() as u64);
    wire::put_bytes(&mut input, 3, &shape);
    wire::put_bytes(&mut request, 5, &input);
    wire::put_bytes(&mut request, 7, &raw(values));
    request
}

/// Their bytes.
pub fn raw(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
