//! TensorFlow Serving's `PredictResponse`, written as one gRPC frame.

use bytes::Bytes;

use crate::model_spec::ModelSpec;
use crate::protobuf::frame::{finish_frame, start_frame};
use crate::protobuf::{tensor, wire};
use crate::tensors::Slice;

/// The framed message: outputs by name, then what answered.
pub fn encode<'a>(outputs: impl Iterator<Item = (&'a str, Slice<'a>)>, spec: &ModelSpec<'_>) -> Bytes {
    let mut out = start_frame(96 + spec.name.len() + spec.signature_name.len());
    let mut message = Vec::with_capacity(64);
    for (name, slice) in outputs {
        message.clear();
        tensor::write(&mut message, &slice);
        let length = wire::bytes_field_len(1, name.len()) + wire::bytes_field_len(2, message.len());
        wire::put_key(&mut out, 1, wire::BYTES);
        wire::put_varint(&mut out, length as u64);
        wire::put_bytes(&mut out, 1, name.as_bytes());
        wire::put_bytes(&mut out, 2, &message);
    }
    spec.write(&mut out, 2);
    finish_frame(out)
}
