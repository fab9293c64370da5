//! TensorFlow Serving's `PredictionLog` of one answered Predict request, written for its logs and warm-up files.

use crate::model_spec::ModelSpec;
use crate::protobuf::tensor::{self, Numbers};
use crate::protobuf::wire;
use crate::tensors::Slice;

/// Fields of `PredictionLog`, `LogMetadata`, `PredictLog`, and of the messages in that.
mod field {
    pub(super) const LOG_METADATA: u32 = 1;
    pub(super) const PREDICT_LOG: u32 = 6;
    pub(super) const METADATA_SPEC: u32 = 1;
    pub(super) const TIMESTAMP_SECS: u32 = 4;
    pub(super) const REQUEST: u32 = 1;
    pub(super) const RESPONSE: u32 = 2;
    pub(super) const REQUEST_SPEC: u32 = 1;
    pub(super) const REQUEST_INPUTS: u32 = 2;
    pub(super) const RESPONSE_OUTPUTS: u32 = 1;
    pub(super) const RESPONSE_SPEC: u32 = 2;
}

/// The message: what was asked and answered, by whom, and the Unix second in which the request came.
pub fn encode(inputs: &[(&str, Slice<'_>)], outputs: &[(&str, Slice<'_>)], spec: &ModelSpec<'_>, came: u64) -> Vec<u8> {
    let mut metadata = Vec::new();
    spec.write(&mut metadata, field::METADATA_SPEC);
    wire::put_uint(&mut metadata, field::TIMESTAMP_SECS, came);
    let mut predict = Vec::new();
    wire::put_bytes(&mut predict, field::REQUEST, &named(inputs, field::REQUEST_INPUTS, spec, field::REQUEST_SPEC));
    let response = named(outputs, field::RESPONSE_OUTPUTS, spec, field::RESPONSE_SPEC);
    wire::put_bytes(&mut predict, field::RESPONSE, &response);
    let mut log = Vec::with_capacity(metadata.len() + predict.len() + 16);
    wire::put_bytes(&mut log, field::LOG_METADATA, &metadata);
    wire::put_bytes(&mut log, field::PREDICT_LOG, &predict);
    log
}

fn named(tensors: &[(&str, Slice<'_>)], entries: u32, spec: &ModelSpec<'_>, spec_number: u32) -> Vec<u8> {
    let mut message = Vec::new();
    spec.write(&mut message, spec_number);
    for (name, slice) in tensors {
        let mut entry = Vec::with_capacity(name.len() + tensor::length(slice, Numbers::InFields) + 16);
        wire::put_bytes(&mut entry, 1, name.as_bytes());
        wire::put_key(&mut entry, 2, wire::BYTES);
        wire::put_varint(&mut entry, tensor::length(slice, Numbers::InFields) as u64);
        tensor::write(&mut entry, slice, Numbers::InFields);
        wire::put_bytes(&mut message, entries, &entry);
    }
    message
}
